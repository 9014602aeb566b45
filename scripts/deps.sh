#!/usr/bin/env bash
# deps.sh installs what the tests need besides Go, once: Debian packages where it may (root on Debian), and the vendors'
# command lines from npm into a cache outside of the project. It names what is missing; with CI set that is an error.
set -euo pipefail
source "$(dirname "$0")/env.sh"

npm_packages=(@anthropic-ai/claude-code@2.1.332 @openai/codex@0.171.0)

# program:package, as Debian names them
wanted=(gcc:gcc gcc:libc6-dev git:git curl:curl chromium:chromium chromium:fonts-dejavu-core
	dbus-run-session:dbus gnome-keyring-daemon:gnome-keyring node:nodejs npm:npm pg_ctlcluster:postgresql)
missing=()
for w in "${wanted[@]}"; do
	command -v "${w%%:*}" >/dev/null || missing+=("${w##*:}")
done

if ((${#missing[@]})) && [[ -f /etc/debian_version && $(id -u) == 0 ]]; then
	step "apt-get install ${missing[*]}"
	export DEBIAN_FRONTEND=noninteractive
	apt-get -qq update
	apt-get -qq install --no-install-recommends -y "${missing[@]}" >/dev/null
	missing=()
fi

# The stamp is written when all is in place, so an installation that was cut off is done again.
stamp=$RUNNERD_TEST_NPM/installed
absent=()
if [[ $(cat "$stamp" 2>/dev/null) != "${npm_packages[*]}" ]]; then
	absent=("${npm_packages[@]}")
	if command -v npm >/dev/null; then
		step "npm install ${npm_packages[*]} into $RUNNERD_TEST_NPM"
		mkdir -p "$RUNNERD_TEST_NPM"
		rm -f "$stamp"
		# claude-code's own script, which no npm runs unasked, puts the program for this system in place. Nothing else needs one.
		if npm install --prefix "$RUNNERD_TEST_NPM" --ignore-scripts --no-audit --no-fund --loglevel=error "${npm_packages[@]}" &&
			(cd "$RUNNERD_TEST_NPM" && node node_modules/@anthropic-ai/claude-code/install.cjs); then
			echo "${npm_packages[*]}" >"$stamp"
			absent=()
		fi
	fi
fi

if ((${#missing[@]} + ${#absent[@]})); then
	echo "missing for the tests:"
	if ((${#missing[@]})); then echo "  Debian packages (or their like): ${missing[*]}"; fi
	if ((${#absent[@]})); then echo "  npm packages in $RUNNERD_TEST_NPM: ${absent[*]}"; fi
	if [[ -n ${CI:-} ]]; then
		exit 1
	fi
	echo "tests that need them will be skipped"
fi
