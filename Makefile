# Everyday commands. .ci/run is the whole of what must hold before a change lands.

.PHONY: check test lint bench fuzz

check: ## format, vet, lint and the tests of what changed; under a minute
	.ci/check

test: ## all tests
	go test ./...

lint: ## golangci-lint over the whole module
	.ci/lint

PKG ?= ./internal/cli
BENCH ?= .

bench: ## benchmarks of one package: make bench PKG=./tools/shell BENCH=Call
	go test -run '^$$' -bench '$(BENCH)' -benchmem $(PKG)

COUNT ?= 20000x
SKIP ?=

fuzz: ## every fuzz target: make fuzz COUNT=200000x
	.ci/fuzz '$(COUNT)' '$(SKIP)'
