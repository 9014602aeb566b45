#!/usr/bin/env bash
# test.sh is everything that CI runs. Its last line is "N passed, N failed".
set -euo pipefail
source "$(dirname "$0")/env.sh"

scripts/deps.sh
scripts/lint.sh

step "go test -race"
strict=()
if [[ -n ${CI:-} ]]; then strict=(-strict); fi
report=$(mktemp)
trap 'rm -rf "$report" "$bin"' EXIT
bin=$(mktemp -d)
(cd tools && go test ./... && go build -o "$bin/testreport" ./testreport)
# One invocation, so that what many packages share is built once. It was vetted above.
go test -race -vet=off -timeout 15m -json ./... 2>&1 | "$bin/testreport" ${strict[@]+"${strict[@]}"} | tee "$report"

scripts/fuzz.sh 3s

step "done in $((SECONDS / 60)) min $((SECONDS % 60)) s"
tail -1 "$report"
