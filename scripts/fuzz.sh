#!/usr/bin/env bash
# fuzz.sh runs every fuzz target for a while: fuzz.sh [TIME], 3s by default.
set -euo pipefail
source "$(dirname "$0")/env.sh"
time=${1:-3s}
targets=$(mktemp)
trap 'rm -f "$targets"' EXIT

# The test files that this system builds, each after its package.
files='{{$p := .}}{{range .TestGoFiles}}{{$p.ImportPath}} {{$p.Dir}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$p.ImportPath}} {{$p.Dir}}/{{.}}{{"\n"}}{{end}}'
go list -f "$files" ./... | while read -r package file; do
	[[ -n $package ]] || continue
	sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file" | while read -r target; do
		printf '%s %s\n' "$package" "$target"
	done
done | sort >"$targets"

# fuzz runs one target. Go now and then calls the end of a target's time a failure
# (golang/go#75804): that names no failing input, and is asked again once.
# Minimising every new input would take most of a short time.
fuzz() {
	local try out
	for try in 1 2; do
		if out=$(go test -run '^$' -fuzz "^$2\$" -fuzztime "$time" -fuzzminimizetime 10x "$1" </dev/null 2>&1); then
			printf '%s\n' "$out"
			return
		fi
		[[ $out == *"context deadline exceeded"* && $out != *"Failing input"* ]] || break
	done
	printf '%s\n' "$out"
	return 1
}

step "fuzz $(wc -l <"$targets") targets, $time each"
while read -r package target; do
	if ! out=$(fuzz "$package" "$target"); then
		printf '%s\nFAIL  %s %s\n' "$out" "$package" "$target"
		failed=1
		continue
	fi
	printf 'ok    %s %s  %s\n' "$package" "$target" "$(sed -n 's/.*\(execs: [0-9]*\).*/\1/p' <<<"$out" | tail -1)"
done <"$targets"
exit "${failed:-0}"
