# Short names for what CONTRIBUTING.md describes; nothing here does more than its one command.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

.PHONY: build test race lint ci demo e2e screenshots fuzz vuln soak steady freshness memory

build: ## the binary, static, as it is in the image
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/clusterdns ./cmd/clusterdns

test: ## the whole test suite
	go test ./...

race: ## the same under the race detector
	go test -race ./...

lint: ## linters
	bash .ci/run format vet staticcheck lint

ci: ## everything that has to pass before a change lands
	bash .ci/run

demo: ## the demo cluster on 127.0.0.1:1053
	go run ./cmd/clusterdns -conf deploy/demo/Corefile

e2e: ## the shipped manifests in a real one-node cluster (Linux, root)
	go -C test/e2e test -count=1 ./cluster
	go -C test/e2e test -count=1 -timeout 2h -v .

fuzz: ## every fuzz target for a minute
	bash test/fuzz/run.sh 60

vuln: ## known vulnerabilities in what the binary calls
	bash test/vuln/run.sh

soak: ## an hour of load, churn, reloads and malformed packets
	go test -count=1 -v -timeout 2h ./test/soak -minutes 60 -rate 10000

freshness: ## from a change in the API to the answer under load, and what changes do to queries; for a quiet machine
	go test -count=1 -v -timeout 30m ./test/freshness -changes 2000 -seconds 60 -rate 10000 -judge

memory: ## what 8,000 Services, 75,000 endpoints and as many Pods take, lists streamed and in pages
	go test -count=1 -v -timeout 30m ./test/memory -services 8000 -endpoints 75000 -pods 75000 -judge

steady: ## 20,000 queries a second through reloads, a bad Corefile, an API restart, a stop, and the replacement of replicas: nothing is lost
	STEADY_RATE=20000 go test -count=1 -v ./test/steady

screenshots: ## the pictures of the documentation, in Chromium
	SCREENSHOTS=$(CURDIR)/docs/images go -C test/page test -count=1 -timeout 15m -run TestScreenshots -v ./...
