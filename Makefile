# Everything that is done to this repository by command. `make` alone lists the targets.

GO ?= go
# Flags of `plexsphere-demo up`, as in: make demo DEMO_FLAGS='--replicas 3'
DEMO_FLAGS ?=
# How long `make fuzz` stays with each function.
FUZZTIME ?= 30s

# `make chaos` and `make chaos-simulated` strike for so long, and again in the same way with a seed that an earlier run printed.
SECONDS ?= 60
HOURS ?= 1000
SEED ?=

# The versions of PostgreSQL that `make test-matrix` fetches: the oldest that is supported and the newest, where npm has them.
PG_MAJORS ?= $(shell tools/postgres.sh --majors)

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -X github.com/prometheus/common/version.Version=$(VERSION)

# A target that prints its wall time: @$(TIMED) command
TIMED = tools/timed.sh $@

# The parts of `make test`, in the order in which they run: what fails soonest comes first.
TESTS := test-setup test-lint test-unit test-faults test-chaos test-soak-and-plugin test-load test-pages-and-bench test-matrix

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: demo-setup build ## Bring up PostgreSQL, replicas, exporter, Prometheus, and Alertmanager on this machine
	bin/plexsphere-demo up $(DEMO_FLAGS)

.PHONY: demo-setup
demo-setup:
	@tools/setup.sh go postgresql prometheus alertmanager

.PHONY: build
build: ## Build the commands into bin/
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

.PHONY: setup
setup: ## Install what the tests and the demo need, or say what to install
	@tools/setup.sh go cc git postgresql pgbouncer psql prometheus promtool alertmanager amtool chromium curl npm $(BENCH_NEEDS)

# One make each: the parts must run in this order, under -j too.
.PHONY: test
test: ## Run set-up, linters, and every test
	@set -e; for part in $(TESTS); do $(MAKE) --no-print-directory $$part; done

.PHONY: $(TESTS)
test-setup:
	@$(TIMED) $(MAKE) --no-print-directory setup

test-lint:
	@$(TIMED) $(MAKE) --no-print-directory lint-root

# The race detector needs cgo. Examples and fuzz seeds are tests and run here too. Pictures of pages stay in .cache/artefacts.
test-unit:
	@LEADER_EXPORTER_ARTEFACTS=$(CURDIR)/.cache/artefacts CGO_ENABLED=1 $(TIMED) $(GO) test -race -shuffle=on -count=1 -skip '$(FAULT_TESTS)|$(CHAOS_TESTS)|$(SOAK_TESTS)|$(LOAD_TESTS)|$(PAGES_TESTS)' ./...

# The tests of package leader that measure have the machine for themselves and print their figures, which go test shows when it
# is called in the package's folder.
FAULT_TESTS = ^Test(Fault|Cost)
CHAOS_TESTS = ^TestChaos
SOAK_TESTS = ^TestSoak
LOAD_TESTS = ^TestLoad
PAGES_TESTS = ^TestPages

test-faults: ## Run the faults on real parts; print measured against allowed
	@CGO_ENABLED=1 $(TIMED) $(GO) -C leader test -race -shuffle=on -count=1 -run '$(FAULT_TESTS)'

test-chaos:
	@CGO_ENABLED=1 LEADER_CHAOS_SECONDS=30 tools/timed.sh "$@ on real parts" \
		$(GO) -C leader test -race -count=1 -run '^TestChaosReal$$'
	@LEADER_CHAOS_HOURS=500 tools/timed.sh "$@ simulated" $(GO) -C leader test -count=1 -run '^TestChaosSimulated$$'

# Three reference replicas whose leader is killed every five seconds.
test-soak:
	@LEADER_SOAK_SECONDS=120 $(TIMED) $(GO) -C cmd/plexsphere-demo test -count=1 -v -run '$(SOAK_TESTS)'

# The replicas of the soak wait nearly all the time. What they leave of the machine serves the tests of the plugin, or else its compiler.
test-soak-and-plugin:
	@$(TIMED) $(MAKE) --no-print-directory -j 2 --output-sync=target test-soak test-plugin-behind

# What runs behind other tests has the lowest priority.
.PHONY: test-soak test-plugin test-plugin-behind test-bench-behind
test-plugin-behind test-bench-behind: %-behind:
	@nice -n 19 $(MAKE) --no-print-directory $*

# What loads a server or the exporter has the machine for itself: beside it the tests of package leader would miss their checks.
test-load:
	@CGO_ENABLED=1 $(TIMED) $(GO) test -race -p 1 -count=1 -run '$(LOAD_TESTS)' ./lockwatch ./alerts ./api ./dashboards ./cmd/leader-exporter

# Prometheus and its rules wait nearly all the time. What they leave of the machine serves client-go's compilation and the smoke run.
test-pages-and-bench:
	@$(TIMED) $(MAKE) --no-print-directory -j 2 --output-sync=target test-pages test-bench-behind

.PHONY: test-pages test-bench
# Every part of the benchmarks works; figures of so short a run say nothing.
test-bench:
	@tools/timed.sh "$@ lint" $(MAKE) --no-print-directory lint-bench
	@tools/timed.sh "$@ tests" $(GO) -C $(BENCH) test -count=1 ./...
	@tools/timed.sh "$@ smoke" $(GO) -C $(BENCH) run . -smoke

# What breaks, in a dozen deployments under one Prometheus and one Alertmanager, pages once; nothing else pages.
test-pages:
	@$(TIMED) $(GO) -C cmd/plexsphere-demo test -count=1 -v -run '$(PAGES_TESTS)'

.PHONY: chaos
chaos: setup ## Strike five real replicas at random for SECONDS (60), with SEED
	@LEADER_CHAOS_SECONDS=$(SECONDS) LEADER_CHAOS_SEED=$(SEED) $(GO) -C leader test -count=1 -timeout 0 -run '^TestChaosReal$$'

.PHONY: chaos-simulated
chaos-simulated: ## Strike five replicas on the scripted server for HOURS (1000) of its time, with SEED
	@LEADER_CHAOS_HOURS=$(HOURS) LEADER_CHAOS_SEED=$(SEED) $(GO) -C leader test -count=1 -timeout 0 -run '^TestChaosSimulated$$'

# The packages whose tests depend on what the server does. pgtest compares the server's version with the variable.
MATRIX_PACKAGES = $(wildcard ./collector ./internal/pgserver ./leader ./lockwatch)

# What the matrix leaves out, to fit. All of it: make test-matrix MATRIX_SKIP='^$$'
MATRIX_SKIP = $(FAULT_TESTS)|$(CHAOS_TESTS)|$(LOAD_TESTS)

test-matrix: ## Run the tests that need a server on the oldest and on the newest PostgreSQL
	@[ -n "$(PG_MAJORS)" ] || echo "$@: left out: PG_MAJORS is empty, as it is where npm has no PostgreSQL for the machine"
	@set -e; for major in $(PG_MAJORS); do \
		bin=$$(tools/postgres.sh $$major); \
		"$$bin/postgres" --version; \
		LEADER_EXPORTER_PG_BIN=$$bin LEADER_EXPORTER_PG_MAJOR=$$major CGO_ENABLED=1 tools/timed.sh "$@ on $$major" \
			$(GO) test -race -shuffle=on -count=1 -skip '$(MATRIX_SKIP)' $(MATRIX_PACKAGES:=/...); \
	done

# The plugin for Grafana is a module of its own, which knows the exporter's API alone. Its folders are named, since node_modules has Go code too. One set of
# flags for linter, tests and binaries, so that the SDK, which takes minutes, is compiled once for this machine.
PLUGIN = grafana-plugin
PLUGIN_PACKAGES = ./pkg/... ./pack
# What runs a second time under the race detector: what does without the SDK, to fit. All of it: make test-plugin PLUGIN_RACE=./pkg/...
PLUGIN_RACE = ./pkg/exporter
PLUGIN_ENV = CGO_ENABLED=0 GOFLAGS='-tags=arrow_json_stdlib -trimpath -buildvcs=false -p=2'
PLUGIN_MACHINES = linux/amd64 linux/arm64 darwin/arm64
PLUGIN_VERSION = $(shell sed -n 's/^  "version": "\(.*\)",/\1/p' $(PLUGIN)/package.json)
PLUGIN_LDFLAGS = -s -w -X github.com/grafana/grafana-plugin-sdk-go/build/buildinfo.buildInfoJSON={"pluginID":"plexsphere-leader-datasource","version":"$(PLUGIN_VERSION)"}

$(PLUGIN)/node_modules/.package-lock.json: $(PLUGIN)/package.json $(PLUGIN)/package-lock.json $(PLUGIN)/.npmrc
	cd $(PLUGIN) && npm ci --prefer-offline --loglevel=error
	@touch $@

# SOURCE_DATE_EPOCH is the time of the commit: the same commit gives the same bytes.
.PHONY: plugin
plugin: $(PLUGIN)/node_modules/.package-lock.json ## Build the Grafana plugin into grafana-plugin/dist, and its zip
	cd $(PLUGIN) && SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null || echo 0) npm run --silent build
	@set -e; for machine in $(PLUGIN_MACHINES); do \
		echo "building the plugin for $$machine"; \
		$(PLUGIN_ENV) GOOS=$${machine%/*} GOARCH=$${machine#*/} $(GO) -C $(PLUGIN) build -ldflags '$(PLUGIN_LDFLAGS)' \
			-o dist/gpx_leader_$${machine%/*}_$${machine#*/} ./pkg; \
	done
	$(PLUGIN_ENV) $(GO) -C $(PLUGIN) run ./pack

# Binaries for this machine alone: compiling the SDK takes minutes for each. go vet is the linter's.
test-plugin: ## Run the tests of the Grafana plugin, and build it
	@tools/timed.sh "$@ npm ci" $(MAKE) --no-print-directory $(PLUGIN)/node_modules/.package-lock.json
	@tools/timed.sh "$@ lint" $(MAKE) --no-print-directory lint-plugin
	@tools/timed.sh "$@ frontend" $(MAKE) --no-print-directory plugin-frontend
	@tools/timed.sh "$@ package" $(MAKE) --no-print-directory plugin-package
	@tools/timed.sh "$@ backend" $(MAKE) --no-print-directory plugin-backend

.PHONY: plugin-frontend plugin-package plugin-backend
plugin-frontend:
	cd $(PLUGIN) && npm run --silent typecheck && npm run --silent lint && npm run --silent test

plugin-package:
	@$(MAKE) --no-print-directory plugin PLUGIN_MACHINES=$$($(GO) env GOOS)/$$($(GO) env GOARCH)
	cd $(PLUGIN) && npm run --silent test:package

plugin-backend:
	$(PLUGIN_ENV) $(GO) -C $(PLUGIN) test -vet=off -shuffle=on -count=1 $(PLUGIN_PACKAGES)
	$(PLUGIN_ENV) CGO_ENABLED=1 $(GO) -C $(PLUGIN) test -race -vet=off -shuffle=on -count=1 $(PLUGIN_RACE)

# GRAFANA_URL, GRAFANA_USER, GRAFANA_PASSWORD, and as that server reaches them LEADER_EXPORTER_URL and PROMETHEUS_URL. The plugin must be installed there.
.PHONY: test-grafana
test-grafana: ## Look at each panel on the Grafana server at GRAFANA_URL, or say that this was not run
	@$(GO) run ./internal/testgrafana

# One make each, under -j too: golangci-lint refuses to run twice at once.
.PHONY: lint lint-root lint-plugin lint-bench
lint: ## Check formatting, go.mod, vet, and the linters of .golangci.yml
	@$(MAKE) --no-print-directory lint-root
	@$(MAKE) --no-print-directory lint-plugin
	@$(MAKE) --no-print-directory lint-bench

lint-root: bin/golangci-lint
	$(GO) mod tidy -diff
	$(GO) vet ./...
	bin/golangci-lint fmt --diff
	bin/golangci-lint run ./...

lint-plugin: bin/golangci-lint
	$(GO) -C $(PLUGIN) mod tidy -diff
	cd $(PLUGIN) && $(PLUGIN_ENV) ../bin/golangci-lint run $(PLUGIN_PACKAGES)

lint-bench: bin/golangci-lint
	$(GO) -C $(BENCH) mod tidy -diff
	cd $(BENCH) && ../bin/golangci-lint run ./...

# Tools are pinned in tools/go.mod, a module of its own that keeps their needs out of ours. The first build of the linter
# takes minutes; -p 2 leaves it a machine to share.
bin/golangci-lint: tools/go.mod tools/go.sum
	@echo "building golangci-lint: once, and it takes some minutes"
	$(GO) -C tools build -p 2 -o ../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@

bin/benchstat: tools/go.mod tools/go.sum
	$(GO) -C tools build -o ../$@ golang.org/x/perf/cmd/benchstat
	@touch $@

.PHONY: format
format: bin/golangci-lint ## Rewrite the sources in the form that lint asks for
	bin/golangci-lint fmt

.PHONY: fuzz
fuzz: ## Fuzz each Fuzz function for FUZZTIME (30s)
	@tools/fuzz.sh $(FUZZTIME)
	@cd $(PLUGIN) && $(PLUGIN_ENV) ../tools/fuzz.sh $(FUZZTIME) $(PLUGIN_PACKAGES)

# Only a package whose tests import internal/golden has the flag -update.
GOLDEN_PACKAGES = $(shell $(GO) list -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' ./... | \
	sed -n '/internal\/golden/s/ .*//p')

.PHONY: golden
golden: ## Rewrite the golden files; read the diff as you would read code
	@set -- $(GOLDEN_PACKAGES); if [ $$# -eq 0 ]; then echo "no golden files"; else $(GO) test -count=1 "$$@" -update; fi
	$(PLUGIN_ENV) $(GO) -C $(PLUGIN) test -vet=off -count=1 -run '^TestFramesAreThoseOfTheGoldenFiles$$' ./pkg/plugin -update

# The comparison with what a user would pick instead, in twenty minutes on a machine that does nothing else: docs/performance.md.
BENCH = bench
BENCH_NEEDS = prometheus-sql-exporter prometheus-postgres-exporter
# As in: make bench BENCH_FLAGS='-update ../docs/performance.md'
BENCH_FLAGS ?=

.PHONY: bench
bench: ## Measure beside sql_exporter, postgres_exporter and client-go, and print the table of docs/performance.md
	@tools/setup.sh go git postgresql $(BENCH_NEEDS)
	@$(GO) -C $(BENCH) run . $(BENCH_FLAGS)

.PHONY: bench-go
bench-go: bin/benchstat ## Run the Go benchmarks; compare two outputs with bin/benchstat
	$(GO) test -run '^$$' -bench . -benchmem ./...
	$(PLUGIN_ENV) $(GO) -C $(PLUGIN) test -vet=off -run '^$$' -bench . -benchmem $(PLUGIN_PACKAGES)

.PHONY: clean
clean: ## Remove what make built
	rm -rf bin .cache coverage.out $(PLUGIN)/node_modules $(PLUGIN)/dist $(PLUGIN)/*.zip
