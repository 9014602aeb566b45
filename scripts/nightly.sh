#!/usr/bin/env bash
# nightly.sh is what takes longer than a push may: everything of test.sh, with tests that look at RUNNERD_NIGHTLY taking
# their full length (soaks, random kills, real-time rows), more random histories, each fuzz target for a minute, and the
# benchmarks.
set -euo pipefail
source "$(dirname "$0")/env.sh"

scripts/test.sh

step "the long tests"
export RUNNERD_NIGHTLY=1
go test -race -vet=off -count=1 -timeout 6h ./...

step "random histories"
mapfile -t packages < <(go list -f '{{$p := .ImportPath}}{{range .TestImports}}{{if eq . "pgregory.net/rapid"}}{{$p}}{{"\n"}}{{end}}{{end}}{{range .XTestImports}}{{if eq . "pgregory.net/rapid"}}{{$p}}{{"\n"}}{{end}}{{end}}' ./... | sort -u | sed '/^$/d')
for p in "${packages[@]}"; do
	go test -vet=off -count=1 -timeout 2h "$p" -rapid.checks=5000
done

scripts/fuzz.sh 60s
scripts/bench.sh
