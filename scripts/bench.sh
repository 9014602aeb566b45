#!/usr/bin/env bash
# bench.sh runs the benchmarks: bench.sh [REGEXP]. Compare two of its outputs with `go tool -modfile=tools/go.mod benchstat`.
set -euo pipefail
source "$(dirname "$0")/env.sh"
go test -run '^$' -bench "${1:-.}" -benchmem -timeout 1h ./...
