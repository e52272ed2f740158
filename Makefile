# This file builds, checks and runs everything in this repository. `make help` lists the targets. Outside .local, only
# apt and running clusters (network namespaces, cgroups) leave anything on the machine.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The clusters that clusters-up starts, and the number of simulated nodes in each, besides the real node.
CLUSTERS ?= c1 c2
FAKE_NODES ?= 0
# The minor versions of Kubernetes of clusters, as in VERSIONS="c2=1.36". The others run that of hack/clusters/build.
VERSIONS ?=

MODULE := github.com/multicluster-scheduler/multicluster-scheduler
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X $(MODULE)/pkg/version.Version=$(VERSION)
CRDS := charts/multicluster-scheduler/crds
BIN := .local/bin

# VERSION holds the version. Go must not read it from git again: that fails in a checkout that another user owns.
export GOFLAGS := $(filter-out -buildvcs=false,$(GOFLAGS)) -buildvcs=false

# The settings of all builds. The linter uses them, too, so that it finds packages compiled: the dependencies are half
# of Kubernetes. For the same reason, all tests are built with -race, and vet is left to the linter.
STATIC := CGO_ENABLED=0 GOFLAGS="$(GOFLAGS) -trimpath"

##@ Start here

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: setup ## Show the product on two real clusters: elect, spread, drain, uncordon (20 minutes the first time)
	@$(MAKE) --no-print-directory clusters-up CLUSTERS="c1 c2"
	@$(MAKE) --no-print-directory deploy
	@hack/demo/demo.sh

.PHONY: setup
setup: ## Install and build everything that the other targets need: Debian packages, tools, Kubernetes
	@hack/setup.sh

##@ Build

.PHONY: build
build: ## Build the manager and the kubectl plug-in into .local/bin
	@mkdir -p $(BIN)
	@$(STATIC) go build -ldflags "$(LDFLAGS)" -o $(BIN)/ ./cmd/multicluster-scheduler ./cmd/kubectl-multicluster

.PHONY: image
image: build clusters-program ## Build the image localhost/multicluster-scheduler:dev from the Dockerfile
	@mkdir -p .local/image
	@cp $(BIN)/multicluster-scheduler .local/image/
	@$(BIN)/clusters image

.PHONY: generate
generate: ## Generate the deep copies in api
	hack/tools/build.sh controller-gen
	$(BIN)/controller-gen object:headerFile=hack/boilerplate.go.txt paths=./api/...

.PHONY: manifests
manifests: ## Generate the custom resource definitions of the chart
	hack/tools/build.sh controller-gen
	$(BIN)/controller-gen crd paths=./api/v1alpha1/... output:crd:dir=$(CRDS)

.PHONY: clusters-program
clusters-program:
	@mkdir -p $(BIN)
	@cd hack/clusters && $(STATIC) go build -o ../../$(BIN)/clusters .

# The end-to-end tests run cert-manager's controllers.
.PHONY: certmanager-program
certmanager-program:
	@mkdir -p $(BIN)
	@cd test/certmanager && $(STATIC) go build -ldflags "-s -w" -o ../../$(BIN)/cert-manager .

# The long end-to-end tests run metrics-server in both clusters.
.PHONY: metrics-server-image
metrics-server-image: clusters-program
	hack/tools/build.sh metrics-server
	@mkdir -p .local/metrics-server
	@cp hack/tools/metrics-server/Dockerfile $(BIN)/metrics-server .local/metrics-server/
	@$(BIN)/clusters image --context .local/metrics-server --reference localhost/metrics-server:dev \
		--archive metrics-server.tar

# The long end-to-end tests also run a cluster of etcd in pods.
.PHONY: etcd-image
etcd-image: clusters-program
	$(BIN)/clusters build etcd
	@mkdir -p .local/etcd
	@cp test/etcd/Dockerfile $(BIN)/etcd .local/etcd/
	@$(BIN)/clusters image --context .local/etcd --reference localhost/etcd:dev --archive etcd.tar

# The long end-to-end tests also mount volumes of a CSI driver.
.PHONY: csi-image
csi-image: clusters-program
	@mkdir -p .local/csi
	cd test/csi && $(STATIC) go build -o ../../.local/csi/csi .
	@cp test/csi/Dockerfile .local/csi/
	@$(BIN)/clusters image --context .local/csi --reference localhost/csi:dev --archive csi.tar

# The conformance suite also has a driver of devices.
.PHONY: devices-image
devices-image: clusters-program
	@mkdir -p .local/devices
	$(STATIC) go build -ldflags "-s -w" -o .local/devices/devices ./test/devices
	@cp test/devices/Dockerfile .local/devices/
	@$(BIN)/clusters image --context .local/devices --reference localhost/devices:dev --archive devices.tar

##@ Check

.PHONY: test
test: ## Run every check below but test-e2e-long, test-skew, test-dual-stack and vuln: THE test command, and what CI runs
	hack/test.sh

.PHONY: verify
verify: ## Check that generated code, formatting and go.mod files are up to date
	hack/verify.sh

.PHONY: lint
lint: ## Run golangci-lint, which also checks the imports between packages
	hack/tools/build.sh golangci-lint
	$(STATIC) $(BIN)/golangci-lint run --build-tags e2e,long,three,dualstack ./...
	$(STATIC) go vet -tags e2e ./test/e2e # Without the long tests, whose files the short ones must not need.
	cd hack/clusters && $(STATIC) ../../$(BIN)/golangci-lint run --config ../../.golangci.yaml --build-tags e2e ./...
	cd test/csi && $(STATIC) ../../$(BIN)/golangci-lint run --config ../../.golangci.yaml ./...

# Keeps what tests print, and shows after a failure what led to it.
kept = 2>&1 | { mkdir -p .local; tee .local/$(1).log; } || { hack/failures.sh .local/$(1).log; exit 1; }

.PHONY: test-unit
test-unit: ## Run the unit tests with the race detector
	go test -race -vet=off ./api/... ./cmd/... ./pkg/... ./hack/... ./test/performance/... ./test/quality/... \
		./test/simulation/... ./test/faults/... ./test/whoami/... ./test/conformance/... ./test/placement/... $(call kept,unit)
	cd hack/clusters && go test -race -vet=off ./...

.PHONY: test-simulation
test-simulation: ## Simulate 10,000 runs of clusters in which everything goes wrong: see docs/design/model.md
	SIMULATION_RUNS=10000 go test -count=1 -v -timeout 1h ./test/simulation

.PHONY: test-simulation-breakages
test-simulation-breakages: ## Break the product in many places, one at a time, and see how soon the simulation notices
	go run ./hack/breakages -page docs/design/breakages.md

# Three packages at a time, and up to 16 parallel tests in each, because they wait for clocks more than they compute.
# Hostile targets run alone: they burn CPU on purpose, and their tests measure.
.PHONY: test-integration
test-integration: clusters-program ## Run the integration tests against real API servers, one per cluster
	hack/tools/build.sh helm
	$(BIN)/clusters build etcd kube-apiserver kubectl
	{ go test -race -vet=off -p 3 -parallel 16 -timeout 40m $$(go list ./test/integration/... | grep -v '/hostile$$') && \
		go test -race -vet=off -timeout 40m ./test/integration/hostile; } $(call kept,integration)
	$(MAKE) bench-memory-short

.PHONY: test-integration-long
test-integration-long: ## Run the integration tests that have a longer form: 100,000 forgeries, 1,000 namespaces, real time
	$(MAKE) test-integration GOFLAGS="$(GOFLAGS) -tags=long"

.PHONY: test-chart
test-chart: ## Check the chart: lint, rendered variants against the Kubernetes schemas, values that it must refuse
	hack/tools/build.sh helm kubeconform
	hack/chart.sh

.PHONY: test-e2e
test-e2e: clusters-program certmanager-program ## Run the end-to-end tests on real clusters (started and stopped unless they run)
	cd hack/clusters && go test -vet=off -tags e2e -count=1 -timeout 10m ./e2e
	hack/e2e.sh

.PHONY: test-e2e-long
test-e2e-long: clusters-program certmanager-program metrics-server-image etcd-image csi-image ## Run the end-to-end tests, and those that take minutes each
	E2E_LONG=1 hack/e2e.sh

# What to draw and for how long: make test-faults FAULTS="-seed 7 -for 3h". `go run ./test/faults -h` lists the options.
FAULTS ?= -for 5m
.PHONY: test-faults
test-faults: clusters-program ## Break real clusters at random, and check what the product makes of it: FAULTS="-for 3h"
	hack/faults.sh $(FAULTS)

# What to run: make test-conformance CONFORMANCE="-run volume". `go run ./test/conformance -h` lists the options.
CONFORMANCE ?= -results .local/conformance.json -report docs/compatibility.md
.PHONY: test-conformance
test-conformance: clusters-program devices-image ## Compare elected pods with plain pods on real clusters: see docs/compatibility.md
	hack/conformance.sh $(CONFORMANCE)

# What to run: make test-skew SKEW= for all cases, which takes two hours.
SKEW ?= -short
.PHONY: test-skew
test-skew: clusters-program devices-image ## Compare them with two versions of Kubernetes, both ways round (builds the older one the first time)
	hack/skew.sh $(SKEW)

.PHONY: test-dual-stack
test-dual-stack: clusters-program ## Compare them with IPv4 and IPv6, and try Services of both
	hack/dual-stack.sh

.PHONY: test-faults-breakages
test-faults-breakages: ## Break the product in several places, one at a time, and see how soon test-faults notices (needs clusters)
	go run ./hack/breakages -clusters

# The packages that decide. MUTATE="pkg/engage pkg/translate" chooses others. docs/design/mutation.md has the results.
MUTATE ?= pkg/proxy/scheduling pkg/proxy/scheduling/attempts pkg/proxy/scheduling/placement pkg/proxy/feedback \
	pkg/proxy/fit pkg/proxy/admission pkg/proxy/ending pkg/translate pkg/delegate/chaperon pkg/delegate/endpoints \
	pkg/delegate/fence pkg/delegate/garbagecollection pkg/delegate/restriction pkg/connect/awake pkg/connect/chaperons \
	pkg/connect/hold pkg/connect/identity pkg/connect/responsive pkg/connect/source pkg/connect/source/grants \
	pkg/connect/target pkg/connect/token pkg/engage pkg/manager pkg/manager/uninstall pkg/vk/idle pkg/vk/node \
	pkg/follow/claims pkg/follow/objects pkg/follow/services pkg/follow/writer pkg/watch pkg/gate pkg/gate/addresses \
	pkg/gate/proof pkg/gate/wire

.PHONY: test-mutation
test-mutation: ## Break the deciding packages in small ways, and list what no unit test notices (long; not part of test)
	go run ./hack/mutation $(MUTATE)

# gremlins also tests the packages below each folder.
.PHONY: test-mutation-gremlins
test-mutation-gremlins: ## The same by gremlins, which compiles each mutant by itself (days): MUTATE=pkg/watch
	hack/mutation/run.sh $(MUTATE)

.PHONY: vuln
vuln: ## Look for known vulnerabilities in linked code (needs the Internet; not part of test)
	hack/tools/build.sh govulncheck
	@$(BIN)/govulncheck ./cmd/... || { echo "govulncheck found something, or could not reach its database (it needs the Internet)." >&2; exit 1; }

##@ Clusters on this machine

.PHONY: clusters-up
clusters-up: clusters-program ## Start real clusters: CLUSTERS="c1 c2" FAKE_NODES=0 VERSIONS="c2=1.36"
	@$(BIN)/clusters up --fake-nodes $(FAKE_NODES) $(addprefix --kubernetes=,$(VERSIONS)) $(CLUSTERS)

.PHONY: clusters-down
clusters-down: clusters-program ## Stop all clusters of this checkout and remove their state
	$(BIN)/clusters down

.PHONY: clusters-status
clusters-status: clusters-program ## Show the clusters of this checkout and their state
	$(BIN)/clusters status

.PHONY: deploy
deploy: image ## Install the chart in every running cluster and connect c1 to itself and to the others
	@hack/tools/build.sh helm
	@hack/deploy.sh

.PHONY: load-image
load-image: image ## Load a new image into every node and restart the manager with it
	hack/deploy.sh --only-image

##@ Measure

# BENCH_FLAGS chooses the measurements, as in BENCH_FLAGS="-scenarios burst -targets c2 -pods 300".
# `go run ./test/performance -help` lists the flags.
.PHONY: bench
bench: bench-memory bench-clusters bench-streams ## Measure everything and write docs/performance/report.md (50 minutes once built)
	$(STATIC) go run ./test/performance -report docs/performance/report.md $(BENCH_FLAGS)

.PHONY: bench-quick
bench-quick: bench-clusters ## Measure less and write .local/bench/report.md (about five minutes once built)
	$(STATIC) go run ./test/performance -pods 100,500 -targets "c2;c1,c2,c3" -scenarios burst,alone $(BENCH_FLAGS)

.PHONY: bench-changes
bench-changes: bench-clusters ## Measure feedback and changes of running pods, and write .local/bench/report.md (20 minutes once built)
	$(STATIC) go run ./test/performance -scenarios feedback,labels,in-place,rollout $(BENCH_FLAGS)

.PHONY: bench-memory
bench-memory: bench-memory-program ## Measure the manager with 10,000 proxies: 100 simulated targets; 10 to which objects follow
	$(STATIC) go run ./test/performance/memory $(MEMORY_FLAGS)
	$(STATIC) go run ./test/performance/memory -targets 10 -configmaps 2000 -secrets 2000 -services 500 \
		-result .local/bench/following.json $(MEMORY_FLAGS)

.PHONY: bench-memory-short
bench-memory-short: bench-memory-program ## The same in half a minute, to see that it works; part of test-integration
	$(STATIC) go run ./test/performance/memory -targets 3 -proxies 60 -configmaps 20 -secrets 20 -services 6 -window 5s \
		-result .local/bench/memory-short.json

.PHONY: bench-memory-program
bench-memory-program: build clusters-program
	$(BIN)/clusters build etcd kube-apiserver

.PHONY: bench-streams
bench-streams: bench-clusters ## Measure exec, attach, port-forward and logs by a virtual node, and directly in the target
	$(STATIC) go run ./test/performance/streams $(STREAMS_FLAGS)

# The clusters stay up for the next measurement.
.PHONY: bench-clusters
bench-clusters: setup
	$(MAKE) clusters-up CLUSTERS="c1 c2 c3" FAKE_NODES=30
	$(MAKE) deploy

##@ Clean up

.PHONY: clean
clean: ## Stop the clusters and remove everything that was built
	if [[ -x $(BIN)/clusters ]]; then $(BIN)/clusters down; fi
	rm -rf .local
