# Copyright The cluster-api-provider-remedy Authors.
# SPDX-License-Identifier: Apache-2.0

# Everything here runs as an ordinary user and needs Go, git and make. What needs more says so and names it.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

MODULE := github.com/cluster-api-remedy/cluster-api-provider-remedy
# fieldsv1string: less memory for managed fields; Cluster API builds with the same tag.
# One set of flags for every build, so that each package is compiled once; no C compiler is needed.
TAGS := fieldsv1string
export GOFLAGS := $(GOFLAGS) -trimpath -tags=$(TAGS)
export CGO_ENABLED ?= 0
VERSION ?=
LDFLAGS := -s -w $(if $(VERSION),-X $(MODULE)/internal/version.released=$(VERSION))

# Tests whose dependencies the product must not have are modules of their own.
TEST_MODULES := test/packaging test/differential test/site test/world

# Behind 'go build -v': how far a cold build is. Where everything is cached it says nothing; what is no package's name is a complaint, and passes.
PROGRESS := 2>&1 | awk '/^[A-Za-z0-9._\/~-]+$$/ {if (++n % 100 == 0) {print n " packages compiled"; fflush()} next} {print; fflush()}'

# What 'make generate' runs.
GENERATORS := bin/controller-gen bin/crd-ref-docs
CRD_REF_DOCS := bin/crd-ref-docs --config=hack/crd-ref-docs.yaml --renderer=markdown --templates-dir=hack/crd-ref-docs

##@ Start here

.PHONY: help
help: ## This list. The minutes are for two cores: everything cached / empty caches.
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: controlplane-all clusterapi bin/manager bin/kubectl-remedy bin/kustomize ## Shows what the product does, with the real Cluster API: Nodes break, and it prints what happens. 3 / 18 min. KEEP=1 keeps it up to look around, STRICT=1 fails if Remedy is late.
	@cd test/world && go build -v -o "$(CURDIR)/bin/demo" ./cmd/demo $(PROGRESS)
	@cd test/world && REMEDY_WORLD_PLUGIN="$(CURDIR)/bin/kubectl-remedy" exec "$(CURDIR)/bin/demo" -manager "$(CURDIR)/bin/manager" $(if $(KEEP),-keep) $(if $(STRICT),-strict)

.PHONY: demo-nodes
demo-nodes: controlplane bin/manager bin/kubectl-remedy ## The same in a cluster without Cluster API: a NodeHealthCheck and a remediator. 1 / 12 min. KEEP=1 as above.
	@go build -v -o bin/demo-nodes ./test/demo/nodes $(PROGRESS)
	@exec bin/demo-nodes -manager bin/manager -plugin bin/kubectl-remedy $(if $(KEEP),-keep)

.PHONY: demo-fencing
demo-fencing: controlplane-all clusterapi bin/manager bin/kubectl-remedy ## Restarts machines through real fence agents and IPMI, requested by each kind of check and by hand. Needs packages of 'make deps-debian'. 2 / 18 min. KEEP=1 as above.
	@go build -v -o bin/demo-fencing ./test/demo/fencing $(PROGRESS)
	@exec bin/demo-fencing -manager bin/manager -plugin bin/kubectl-remedy $(if $(KEEP),-keep)

.PHONY: demo-kept
demo-kept: controlplane bin/manager bin/kubectl-remedy ## Ends 'make demo-nodes' by Ctrl-C, also with KEEP=1, and verifies that nothing is left. 1 / 12 min. DEMO=demo does so with 'make demo', in 4 min.
	@hack/demo-kept.sh $(or $(DEMO),demo-nodes)

##@ Check

# The tests of the engine run with Machines and with Nodes. Without the race detector, they run with Machines only.
WITH_MACHINES := $(if $(FULL),,-skip '/^Nodes$$|//^Nodes$$')
# RACE=1: as at a landing. Packages with goroutines run under the race detector, with both kinds, and the others without it. What only 'make proof'
# has to run is left out: the simulation, and the comparison with the in-tree reconciler.
RACE ?=

.PHONY: test
test: controlplane $(if $(RACE),compiler) ## Proves the product: unit tests, properties, a simulated world, the real API server. 4 / 20 min. RACE=1 runs it as .ci/run does, under the race detector.
ifeq ($(RACE),)
	$(SHARED) env REMEDY_ATTACKS="$(ATTACKS)" go test $(WITH_MACHINES) -timeout 30m ./...
	cd test/differential && go test -timeout 30m -run '^TestSwitches_Random_OneControllerActsOnEachMachine$$' .
else
	$(SHARED) env REMEDY_ATTACKS="$(ATTACKS)" go test -timeout 30m $$(go list ./... | grep -vxF -e "$$($(RACED))" | grep -v /test/sim$$)
	$(SHARED) env CGO_ENABLED=1 RAPID_CHECKS=100 go test -race -parallel 6 -count=1 -timeout 60m $$($(RACED))
endif
	cd test/packaging && go test -timeout 30m ./...
	@cat "$(ATTACKS)" 2>/dev/null || echo "nothing changed since the attacks were performed: 'make attacks' repeats them"

.PHONY: attacks
attacks: controlplane ## Performs the attacks of the threat model again, and prints the outcome of each in one line. 2 / 9 min
	@REMEDY_ATTACKS="$(ATTACKS)" go test -count=1 -timeout 30m ./test/attacks
	@cat "$(ATTACKS)"

.PHONY: check
check: lint drift tidy commits site ## Lint (go vet is one of the linters), generated files, go.mod, commit subjects, the house rules, the links of the pages. 2 / 7 min
	GOLANGCI_LINT="$(CURDIR)/bin/golangci-lint" go test -tags=$(TAGS),houserules -count=1 ./test/houserules

# The depth of 'make proof'. What .ci/run runs has to fit into an hour with everything else. FULL=1 is for a release, and for a change of anything
# that decides: it takes about an hour by itself.
FULL ?=
export FULL
# DRAWS: cases that each property draws in proof-draws. SIM_STEPS: steps of all simulated histories. SWITCHES: changes of hands between Cluster API's controller and
# Remedy; SWITCHES_SEED decides which. SHELL_PART: which third of the mutants outside the deciding packages. E2E_PART: which third of the scenarios of
# 'make e2e' that do not run at each landing. The commit's hash chooses both.
DRAWS ?= 10000
ifeq ($(FULL),)
  SIM_STEPS ?= 1000000
  SWITCHES ?= 80
  PART := $(shell echo $$(( 0x$$(git rev-parse --short=7 HEAD 2>/dev/null || echo 0) % 3 )))
else
  SIM_STEPS ?= 10000000
  SWITCHES ?= 240
  PART := all
endif
SHELL_PART ?= $(PART)
E2E_PART ?= $(PART)
# Packages without a goroutine: under the race detector their ten thousand draws take eight times as long, and it has nothing to find.
PURE := ./internal/explain ./internal/health ./internal/remediation ./internal/adoption ./exp/fencing/lifecycle ./exp/fencing/profile ./exp/fencing/jobs ./exp/fencing/pods
# Prints what runs under the race detector at each landing: the packages with goroutines. The root package and test/admission talk to processes that
# are built without it.
RACED := go list ./cmd/... ./controllers/... ./exp/... ./internal/... ./test/controlplane/... ./test/faults ./test/procgroup ./test/profile ./test/remediator | grep -v $(PURE:.%=-e %$$)
# What runs under it at full depth: all but the simulated worlds, which have no goroutines.
RACE_ALL := $$(go list ./... | grep -v -e /test/sim$$ -e /test/modelcheck$$)
# Where the tests of attacks write the outcome of each: go test hides what packages that pass print. If go test uses its cache, the file is that of
# the run in the cache.
ATTACKS := $(CURDIR)/out/attacks.txt
# Packages that can share API servers do so below this.
SHARED := go run ./test/controlplane/cmd/share --
# The names of the tests that only the tag 'long' brings, for -run.
LONG := awk 'FNR == 1 {long = /^\/\/go:build long$$/} long && match($$0, /^func Test[A-Za-z0-9_]+/) {print substr($$0, 6, RLENGTH - 5)}' internal/healthcheck/*_test.go | paste -sd'|'

# The suites of 'make proof'. Each waits about half of its time, so two run at the same time. test/README.md says which question each answers.
SUITES := proof-long proof-mutants proof-differential proof-sim $(if $(FULL),proof-draws)

.PHONY: proof
proof: controlplane ## The long arguments: crashes, crowds, simulated histories, mutants, the comparison with Cluster API. FULL=1 is deeper and takes an hour. 7 / 12 min.
	@$(MAKE) --no-print-directory -j2 --output-sync=target $(SUITES)

.PHONY: proof-sim proof-mutants proof-differential proof-draws proof-long
proof-long:
	long=$$($(LONG)); test -n "$$long"; go test -tags=$(TAGS),long -count=1 -timeout 60m -run "^($$long)$$" ./internal/healthcheck

proof-sim:
	SIM_STEPS=$(SIM_STEPS) go test -count=1 -timeout 60m ./test/sim

proof-mutants:
	cd test/mutants && SHELL_PART=$(SHELL_PART) go test -tags=$(TAGS),proof -count=1 -timeout 40m

proof-differential:
	cd test/differential && SWITCHES=$(SWITCHES) RAPID_CHECKS=1000 go test -count=1 -timeout 30m ./...

proof-draws:
	RAPID_CHECKS=$(DRAWS) go test -count=1 -timeout 60m $(PURE)
	$(SHARED) env CGO_ENABLED=1 RAPID_CHECKS=$(DRAWS) go test -race -count=1 -timeout 60m $$(go list ./... | grep -v -e /test/sim$$ -e /test/modelcheck$$ $(PURE:.%=-e %$$))

PROFILED ?= check test $(SUITES) e2e
.PHONY: profile-tests
profile-tests: controlplane-all clusterapi compiler ## Where the minutes of .ci/run go: per suite and package, compiling, starting API servers, working, waiting. PROFILED="test e2e" measures some. 26 min
	@mkdir -p bin out && rm -rf out/profile && go build -o bin/profile ./test/profile
	@for suite in $(PROFILED); do REMEDY_PROFILE="$(CURDIR)/out/profile" bin/profile suite $$suite $(MAKE) --no-print-directory RACE=1 $$suite || exit 1; done
	@REMEDY_PROFILE="$(CURDIR)/out/profile" bin/profile table

# The scenarios of 'make e2e' and 'make soak-e2e', as a regular expression for their names; all of them if empty.
SCENARIOS ?=
# GOGC: the processes spend less time on garbage collection, and need more memory.
.PHONY: e2e
e2e: controlplane-all clusterapi bin/manager bin/kubectl-remedy bin/kustomize ## The real Cluster API: a management cluster, workload clusters, faults, moves, upgrades, adoption and uninstall. One scenario for each capability, and a third of the others by the commit's hash: E2E_PART=0, 1 or 2 chooses another third, SCENARIOS=regexp selects by name, FULL=1 runs all and breaks 20 clusters at once instead of 5. Then those of fencing, which need packages of 'make deps-debian'. 8 / 18 min
	@cd test/world && go build -v ./... $(PROGRESS)
	cd test/world && GOGC=200 E2E_PART=$(E2E_PART) REMEDY_WORLD_MANAGER="$(CURDIR)/bin/manager" REMEDY_WORLD_PLUGIN="$(CURDIR)/bin/kubectl-remedy" \
	  go test -count=1 -timeout 60m -v $(if $(SCENARIOS),-run '$(SCENARIOS)') .
	@$(MAKE) --no-print-directory e2e-fencing SCENARIOS='$(SCENARIOS)'

.PHONY: e2e-fencing
e2e-fencing: controlplane-all bin/manager ## Fences machines with real agents, BMCs and controllers; BMCs fail, and the manager is killed. Needs packages of 'make deps-debian'. SCENARIOS as above. 3 / 12 min
	REMEDY_WORLD_MANAGER="$(CURDIR)/bin/manager" go test -tags=$(TAGS),fencing -count=1 -timeout 30m -v $(if $(SCENARIOS),-run '$(SCENARIOS)') ./test/fencing/...

JOBS ?= 1
.PHONY: soak-e2e
soak-e2e: controlplane-all clusterapi bin/manager bin/kubectl-remedy bin/kustomize ## Each scenario of 'make e2e' alone ten times, then all of them twice. 9 hours. SCENARIOS=regexp selects some, JOBS=3 runs as many at the same time. soak-e2e.txt has the results.
	@cd test/world && go test -c -o "$(CURDIR)/bin/world.test" .
	@cd test/world && JOBS=$(JOBS) REMEDY_WORLD_MANAGER="$(CURDIR)/bin/manager" REMEDY_WORLD_PLUGIN="$(CURDIR)/bin/kubectl-remedy" ../../hack/soak-e2e.sh '$(SCENARIOS)'

SOAK ?= 120
.PHONY: soak
soak: controlplane compiler soak-e2e ## Looks for flaky tests and rare draws for hours, by hand: 'make soak-e2e', and then SOAK=120 minutes of everything else.
	@end=$$(( $$(date +%s) + 60 * $(SOAK) )); round=0; \
	while [ $$(date +%s) -lt $$end ]; do \
	  round=$$((round + 1)); echo "round $$round"; \
	  $(SHARED) env CGO_ENABLED=1 RAPID_CHECKS=100000 go test -race -count=1 -timeout 180m -shuffle=on $(RACE_ALL) || exit 1; \
	  SIM_SEED=$$((round * 1000000 + 7919)) SIM_STEPS=20000000 go test -count=1 -timeout 60m ./test/sim || exit 1; \
	done

# The benchmarks to run, for example BENCH=B1,B2; all of them if empty. ROUNDS=1 is a quick look.
BENCH ?=
ROUNDS ?=
.PHONY: bench
bench: controlplane bin/manager ## Measures Remedy and the in-tree reconciler side by side. BENCH=B2 runs one. out/bench.json has all values. Nothing else should run on the machine. 120 min
	@mkdir -p out
	cd test/differential && go build -o "$(CURDIR)/bin/bench" ./cmd/bench && go build -o "$(CURDIR)/bin/intree" ./cmd/intree
	bin/bench -out out/bench.json $(if $(BENCH),-run $(BENCH)) $(if $(ROUNDS),-rounds $(ROUNDS))

.PHONY: bench-page
bench-page: ## Writes the tables of out/bench.json, and the pictures of the curves, to docs/performance.md. 0 / 2 min
	cd test/differential && go run ./cmd/bench -out "$(CURDIR)/out/bench.json" -page "$(CURDIR)/docs/performance.md"

.PHONY: bench-world
bench-world: controlplane-all clusterapi bin/manager bin/kustomize ## The same with the real Cluster API: how long until a Machine is replaced, and 100 lost Nodes. Then the Go benchmarks. 8 / 22 min
	cd test/world && REMEDY_WORLD_MANAGER="$(CURDIR)/bin/manager" go test -run '^$$' -bench . -benchtime 1x -timeout 30m .
	go test -run '^$$' -bench . -benchmem ./...

# The packages with tests that count costs.
GUARDED := ./test/attacks ./internal/health ./internal/workload ./internal/healthcheck

.PHONY: bench-guard
bench-guard: controlplane ## Rejects a change that makes events, targets or remediations more expensive: counts reconciles, allocations and API requests, which do not depend on the machine. 2 / 4 min
	go test -p 1 -tags=$(TAGS),benchguard -count=1 -timeout 15m -v -run '^TestGuard_' $(GUARDED) | grep -E '^(=== RUN|---|ok|FAIL|PASS| +[a-z_]+\.go)'

.PHONY: compiler
compiler:
	@command -v $${CC:-cc} >/dev/null || { echo "the race detector needs a C compiler: none found (Debian: make deps-debian)"; exit 1; }

.PHONY: lint
lint: bin/golangci-lint ## The linter alone. 1 / 4 min
	bin/golangci-lint run ./...
	for module in $(TEST_MODULES); do (cd $$module && ../../bin/golangci-lint run --config ../../.golangci.yml ./...); done

.PHONY: drift
drift: $(GENERATORS) ## Generated files are what the generators make of the sources. 0 / 1 min
	@./hack/drift.sh

.PHONY: tidy
tidy: ## Every go.mod is tidy. 0 / 1 min
	@./hack/tidy.sh

.PHONY: commits
commits: ## The subjects of the new commits have the form "area: imperative summary". 0 min
	@./hack/commits.sh

##@ Build and generate

.PHONY: generate
generate: $(GENERATORS) ## Makes all generated files anew. 1 / 2 min
	bin/controller-gen object:headerFile=hack/boilerplate.go.txt paths=./api/... paths=./exp/fencing/api/...
	bin/controller-gen crd:headerFile=hack/boilerplate.yaml.txt paths=./api/... output:crd:dir=config/crd/bases
	bin/controller-gen crd:headerFile=hack/boilerplate.yaml.txt paths=./exp/fencing/api/... output:crd:dir=config/fencing/crd/bases
	bin/controller-gen rbac:roleName=remedy-system-manager,fileName=role.yaml,headerFile=hack/boilerplate.yaml.txt paths=. paths=./internal/... paths=./controllers/... output:rbac:dir=config/rbac
	bin/controller-gen rbac:roleName=remedy-system-fencing-manager,fileName=role.yaml,headerFile=hack/boilerplate.yaml.txt paths=./exp/fencing/controller paths=./exp/fencing/noderemedy paths=./exp/fencing/checks output:rbac:dir=config/fencing/rbac
	$(CRD_REF_DOCS) --source-path=api/v1alpha1 --template-value=source=api/v1alpha1 --template-value="title=API reference" --output-path=docs/api.md >/dev/null
	$(CRD_REF_DOCS) --source-path=exp/fencing/api/v1alpha1 --template-value=source=exp/fencing/api/v1alpha1 --template-value="title=API reference of fencing" --output-path=docs/api-fencing.md >/dev/null
	go test ./internal/explain -run TestDocs -update
	go test ./internal/metrics -run TestDocs -update

.PHONY: format
format: bin/golangci-lint ## Formats all Go files. 0 / 3 min
	bin/golangci-lint fmt ./...

bin/manager: FORCE
	@go build -v -ldflags "$(LDFLAGS)" -o $@ . $(PROGRESS)

bin/kubectl-remedy: FORCE
	@go build -v -ldflags "$(LDFLAGS)" -o $@ ./cmd/kubectl-remedy $(PROGRESS)

# What the kubectl plugin is built for.
PLUGIN_PLATFORMS := linux-amd64 linux-arm64 darwin-amd64 darwin-arm64 windows-amd64

.PHONY: plugins
plugins: ## Writes the kubectl plugin for every platform to out/. VERSION=v0.1.0 puts the version in, and adds a krew manifest. 3 / 9 min
	@mkdir -p out
	@for platform in $(PLUGIN_PLATFORMS); do \
	  suffix=; case $$platform in windows-*) suffix=.exe ;; esac; \
	  GOOS=$${platform%-*} GOARCH=$${platform#*-} go build -v -ldflags "$(LDFLAGS)" -o "out/kubectl-remedy-$$platform$$suffix" ./cmd/kubectl-remedy $(PROGRESS) || exit 1; \
	done
	$(if $(VERSION),@./hack/krew.sh out $(VERSION))
	@ls -l out

.PHONY: release
release: ## Writes out/: what clusterctl and kubectl apply need ('make plugins' adds the kubectl plugin). VERSION=v0.1.0 puts the version in. 0 / 1 min
	./hack/release.sh out $(VERSION)
	@ls -l out

# The one place where the image is named.
IMAGE = $(shell sed -n 's/^ *image: \(.*\):dev$$/\1/p' config/manager/deployment.yaml)

# ko prints one reference, that of the index; --image-refs would list the image of each architecture, too.
.PHONY: image
image: bin/ko ## Builds and pushes the image for two architectures with an SBOM, without Docker; needs VERSION, BASE=<image>@sha256:<digest> and permission to push. 2 / 8 min
	@test -n "$(VERSION)" || { echo "make image: set the version, for example VERSION=v0.1.0"; exit 1; }
	@echo "$(BASE)" | grep -Eq '^[^@[:space:]]+@sha256:[0-9a-f]{64}$$' || { echo "make image: set the base image with its digest of 64 digits, for example BASE=gcr.io/distroless/static@sha256:..."; exit 1; }
	@mkdir -p out
	VERSION=$(VERSION) KO_DEFAULTBASEIMAGE=$(BASE) KO_DOCKER_REPO=$(IMAGE) bin/ko build --bare --platform=linux/amd64,linux/arm64 --sbom=spdx --tags=$(VERSION) . >out/.image

# The SBOM of the image is made by ko.
.PHONY: release-files
release-files: bin/cyclonedx-gomod ## Writes to out/ all that a release publishes: components, metadata, plugins with SBOMs, krew manifest, checksums. Empties out/ before that. Needs VERSION. 3 / 10 min
	@test -n "$(VERSION)" || { echo "make release-files: set the version, for example VERSION=v0.1.0"; exit 1; }
	@rm -rf out
	$(MAKE) --no-print-directory release plugins VERSION=$(VERSION)
	@for platform in $(PLUGIN_PLATFORMS); do \
	  bin/cyclonedx-gomod bin -json -std -noserial -notimestamp -version $(VERSION) -output out/kubectl-remedy-$$platform.cdx.json out/kubectl-remedy-$$platform$$([[ $$platform = windows-* ]] && echo .exe) || exit 1; \
	done
	./hack/checksums.sh out

.PHONY: release-dry-run
release-dry-run: bin/ko bin/govulncheck ## What the workflow of a release does and needs no network: its files, and the image for both architectures, in a registry of a test. 4 / 15 min
	$(MAKE) --no-print-directory release-files VERSION=$(or $(VERSION),v0.1.0-dry-run)
	cd test/packaging && go test -tags=$(TAGS),image -count=1 -timeout 30m -run '^TestImage_' .
	cd out && sha256sum --check --quiet checksums.txt

# The parts of a release that need a network and permissions. The workflow calls them.
.PHONY: image-login image-subject sign publish vulnerabilities
image-login: bin/ko
	@printf %s "$$REGISTRY_PASSWORD" | bin/ko login "$(firstword $(subst /, ,$(IMAGE)))" --username "$$REGISTRY_USER" --password-stdin

image-subject:
	@sed -E 's|^(.*/[^/:@]+)(:[^/@]+)?@(.*)$$|name=\1\ndigest=\3|' out/.image

sign:
	cosign sign --yes --recursive "$$(cat out/.image)"
	cosign sign-blob --yes --bundle out/checksums.txt.bundle out/checksums.txt

publish:
	gh release create "$(VERSION)" --verify-tag --generate-notes $(if $(findstring -,$(VERSION)),--prerelease) out/*

# Only this module is released. The other ones are tests and tools, which read only the files of this repository.
vulnerabilities: bin/govulncheck
	bin/govulncheck ./...

.PHONY: build
build: bin/manager bin/kubectl-remedy ## Builds bin/manager and the kubectl plugin. VERSION=v0.1.0 makes them a release. 1 / 3 min

# The pages of the checkout as a site. The theme is in hack/site: nothing of another host is loaded.
HUGO := HUGO_PARAMS_REPOSITORY=https://$(MODULE) bin/hugo

.PHONY: site
site: bin/hugo ## Builds the documentation as a site in out/site, and checks its links and anchors. 0 / 2 min
	@rm -rf out/site
	@$(HUGO) build --config hack/site/hugo.yaml --destination out/site --noBuildLock --panicOnWarning >/dev/null
	@cd test/site && REMEDY_SITE="$(CURDIR)/out/site" REMEDY_SITE_REPOSITORY=https://$(MODULE) go test -count=1 .
	@echo "the site is in out/site/index.html"

.PHONY: site-serve
site-serve: bin/hugo ## Serves the site on localhost and rebuilds it when a page changes, until Ctrl-C. 0 / 2 min
	@$(HUGO) server --config hack/site/hugo.yaml --baseURL http://localhost:1313 --renderToMemory --noBuildLock

##@ Look around

WORLD ?=
.PHONY: world
world: controlplane-all clusterapi bin/manager bin/kubectl-remedy bin/kustomize ## Keeps a management cluster with Cluster API and a workload cluster up until Ctrl-C. WORLD="-workers=5 -class". 1 / 17 min
	@cd test/world && go build -v -o "$(CURDIR)/bin/world" ./cmd/world $(PROGRESS)
	@cd test/world && REMEDY_WORLD_PLUGIN="$(CURDIR)/bin/kubectl-remedy" exec "$(CURDIR)/bin/world" -manager "$(CURDIR)/bin/manager" $(WORLD)

##@ Parts

.PHONY: controlplane
controlplane: ## etcd, kube-apiserver and kubectl, cached outside of the checkout. 0 / 8 min
	@go run ./test/controlplane/cmd/provide >/dev/null

.PHONY: controlplane-all
controlplane-all: ## The same and kube-controller-manager. 0 / 9 min
	@go run ./test/controlplane/cmd/provide -all >/dev/null

.PHONY: clusterapi
clusterapi: ## Cluster API's managers and clusterctl, cached outside of the checkout. 0 / 6 min
	@go run ./test/controlplane/cmd/provide -cluster-api >/dev/null

SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
.PHONY: deps-debian
deps-debian: ## What some targets need of Debian's packages (as root, or with sudo). 1 min
	$(SUDO) apt-get update -q
	$(SUDO) apt-get install -qy --no-install-recommends gcc libc6-dev fence-agents openipmi ipmitool

.PHONY: clean
clean: ## Removes what was built here. Caches outside of the checkout stay. 0 min
	rm -rf bin out

# Tools are pinned, each in a module of its own, so that none of them decides the versions of another or of the product.
bin/golangci-lint: PACKAGE := github.com/golangci/golangci-lint/v2/cmd/golangci-lint
bin/controller-gen: PACKAGE := sigs.k8s.io/controller-tools/cmd/controller-gen
bin/crd-ref-docs: PACKAGE := github.com/elastic/crd-ref-docs
bin/cyclonedx-gomod: PACKAGE := github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod
bin/govulncheck: PACKAGE := golang.org/x/vuln/cmd/govulncheck
bin/hugo: PACKAGE := github.com/gohugoio/hugo
bin/ko: PACKAGE := github.com/google/ko
bin/kustomize: PACKAGE := sigs.k8s.io/kustomize/kustomize/v5
bin/promtool: PACKAGE := github.com/prometheus/prometheus/cmd/promtool
# Without the service discoveries, promtool compiles no library of a cloud.
bin/promtool: TOOL_TAGS := remove_all_sd
bin/golangci-lint bin/controller-gen bin/crd-ref-docs bin/cyclonedx-gomod bin/govulncheck bin/hugo bin/ko bin/kustomize bin/promtool: bin/%: hack/tools/%/go.mod
	@echo "building $*"
	@cd hack/tools/$* && GOFLAGS="-trimpath -buildvcs=false" go build -tags="$(TOOL_TAGS)" -o "$(CURDIR)/$@" $(PACKAGE)

FORCE:
