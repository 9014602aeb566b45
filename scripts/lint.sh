#!/usr/bin/env bash
# lint.sh is what can be said about the source without running it.
set -euo pipefail
source "$(dirname "$0")/env.sh"

step "gofmt"
unformatted=$(gofmt -l .)
if [[ -n $unformatted ]]; then
	echo "not as gofmt writes it:" $unformatted
	exit 1
fi

step "go mod tidy -diff"
go mod tidy -diff
(cd tools && go mod tidy -diff)

step "go vet"
go vet ./...
go vet -tags faultpoint ./... # the crash tests' programs
(cd tools && go vet ./...)
for os in windows darwin; do
	step "go vet for $os"
	GOOS=$os CGO_ENABLED=0 go vet ./...
done

step "staticcheck"
tool staticcheck ./...

step "go fix -diff"
go fix -diff ./...
