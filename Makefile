# Everything here is also a script in scripts/, which says what it does.

.PHONY: help build test lint fuzz cover bench nightly deps clean

help: ## what can be made
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

build: ## the two programs, into bin/
	CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/...

test: ## everything that CI runs, within 25 minutes on two cores; installs what it needs when it may
	@scripts/test.sh

lint: ## gofmt, go mod tidy, go vet for three systems, staticcheck, go fix
	@scripts/lint.sh

fuzz: ## every fuzz target for a while; make fuzz TIME=30s
	@scripts/fuzz.sh $(TIME)

cover: ## which lines the tests reach, as bin/cover.html
	@mkdir -p bin
	go test -coverpkg=./... -coverprofile=bin/cover.out ./...
	go tool cover -html=bin/cover.out -o bin/cover.html
	@go tool cover -func=bin/cover.out | tail -1

bench: ## the benchmarks; make bench RUN=Dispatch
	@scripts/bench.sh $(RUN)

nightly: ## test, and what takes hours: soaks, random kills, long fuzzing, benchmarks
	@scripts/nightly.sh

deps: ## only what the tests need besides Go
	@scripts/deps.sh

clean: ## what was built here
	rm -rf bin dist
