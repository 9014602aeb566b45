# env.sh is sourced by the other scripts: it goes to the project's root and says where things outside of it lie.
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# A checkout that another user owns has no version to stamp into programs, and needs none for tests.
export GOFLAGS="${GOFLAGS:+$GOFLAGS }-buildvcs=false"

# The vendors' command lines are big: they are installed once, for all checkouts. internal/testdep looks here too.
export RUNNERD_TEST_NPM="${RUNNERD_TEST_NPM:-${XDG_CACHE_HOME:-$HOME/.cache}/runnerd-test/npm}"

step() { printf '\n== %s\n' "$*"; }

# tool runs a developer's tool at the version of tools/go.mod.
tool() { go tool -modfile=tools/go.mod "$@"; }
