# `make` lists the targets. Everything runs in a virtual environment of the checkout's own (VENV), made on demand:
# no target needs another to be run first.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.flametap-dev
AGENT_STAMP := $(STAMP)-agent
# Arguments for pytest: make test ARGS="-k layers -x"
ARGS ?=
# Tests run three at a time, as they wait a lot; but for those that need a quiet machine: tests/support/parallel.py.
WORKERS := -n 3
# They start Python a thousand times: its modules are compiled once, whatever the environment asks for.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 16

# --- set up -----------------------------------------------------------------------------------------------------------

INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check
define MAKE_VENV
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "flametap needs Python 3.10 or newer: make PYTHON=python3.12")'
test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "no venv module: apt install python3-venv" >&2; exit 1; }
endef

.PHONY: dev
dev: $(AGENT_STAMP) ## make .venv with flametap (editable) and the development tools

$(STAMP): pyproject.toml
	@$(MAKE_VENV)
	$(INSTALL) --editable '.[dev]'
	@$(LAY_NAMES)
	@touch $@

# The installation builds the agent's machine code, from C and assembly; a change of them makes it stale.
AGENT := $(shell find agent -name '*.[chS]' -o -name '*.ld' -o -name '*.py')
$(AGENT_STAMP): $(STAMP) $(AGENT)
	@$(BIN)/python -m flametap.agent.build
	@touch $@

# The folders get their import names through a tree of links, which type checkers and editors read.
NAMES := build/types/flametap
LAY_NAMES = rm -rf build/types && mkdir -p $(NAMES) && ln -s $(addprefix ../../../,$(wildcard profiler/*) web agent) $(NAMES)/

# --- look -------------------------------------------------------------------------------------------------------------

DEMO := build/demo

.PHONY: demo
demo: $(DEMO)-stamp $(DEMO) ## attach to a busy sample program and open the live flame graph
	@$(DEMO) & pid=$$!; trap "kill $$pid 2>/dev/null" EXIT; $(BIN)/flametap live $$pid $(ARGS)

# It needs the package alone, without the development tools.
$(DEMO)-stamp: pyproject.toml $(AGENT)
	@$(MAKE_VENV)
	@test -e $(STAMP) || $(INSTALL) --no-compile --editable .
	@$(BIN)/python -m flametap.agent.build
	@mkdir -p $(@D)
	@touch $@

$(DEMO): tests/targets/demo.c
	@command -v gcc >/dev/null || { echo "the sample program needs a C compiler: apt install gcc libc6-dev" >&2; exit 1; }
	@mkdir -p $(@D)
	gcc -std=gnu11 -O2 -g -fomit-frame-pointer -Wall -Wextra -o $@ $< -pthread

# --- check ------------------------------------------------------------------------------------------------------------

.PHONY: fmt
fmt: $(STAMP) ## format, and fix what ruff can fix
	$(BIN)/ruff check --quiet --fix-only .
	$(BIN)/ruff format .

.PHONY: fmt-check
fmt-check: $(STAMP)
	$(BIN)/ruff format --check .

.PHONY: lint
lint: $(STAMP) ## ruff; node's syntax check of the page's scripts
	$(BIN)/ruff check .
	@if command -v node >/dev/null; then \
		for file in $$(find web/static tests -name '*.js' -o -name '*.mjs'); do node --check $$file || exit 1; done; \
	else echo "no node: the page's scripts were not checked"; fi

# The links are made anew each time, so that they are never stale.
.PHONY: types
types: $(STAMP)-types ## mypy: strict on the package, lenient on tests; pyright, as editors do
	@$(LAY_NAMES)
	$(BIN)/mypy
	$(BIN)/mypy tests bench
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright --warnings

# Pinned: another release finds other things. With a node of its own it has 200 MB, so `make dev` does without.
$(STAMP)-types: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pyright[nodejs]==1.1.414'
	@touch $@

.PHONY: test
test: $(STAMP) ## the tests for each change; a part of them: make test ARGS="tests/unit -k layers"
	$(BIN)/pytest $(or $(ARGS),$(WORKERS))

.PHONY: test-all
test-all: $(STAMP) $(STAMP)-audit ## these and the long ones, for each night and before a release
	FLAMETAP_TEST_CYCLES=$${FLAMETAP_TEST_CYCLES:-8} $(BIN)/pytest -m "" $(or $(ARGS),$(WORKERS))

# The same tests in an environment of their own.
.PHONY: test-floor
test-floor: ## the tests with the oldest dependencies that pyproject.toml allows
	@mkdir -p build
	@sed -n '/^dependencies = \[/,/^]/s/^ *"\([a-z0-9-]*\)>=\([0-9.]*\).*/\1==\2/p' pyproject.toml > build/floor.txt
	PIP_CONSTRAINT=$(CURDIR)/build/floor.txt $(MAKE) VENV=build/floor-venv test

.PHONY: test-unit test-c test-attach test-page
test-unit: ; @$(MAKE) test ARGS="tests/unit $(WORKERS) $(ARGS)" ## without targets or browser, in seconds
test-c: ; @$(MAKE) test ARGS="tests/agent_c $(WORKERS) $(ARGS)" ## the agent's C under gcc and sanitizers
test-attach: ; @$(MAKE) test ARGS="tests/integration $(WORKERS) $(ARGS)" ## attach to real programs
test-page: ; @$(MAKE) test ARGS="tests/browser $(WORKERS) $(ARGS)" ## the page in headless Chromium

# Minutes; an hour of sampled target time, in pieces: make stress ARGS="--until 3600 --results hour.jsonl"
SECONDS ?= 5
.PHONY: stress
stress: $(AGENT_STAMP) ## real programs recorded at 1 000 Hz while they live and die; see tests/stress/README.md
	PYTHONPATH=tests/support:tests/stress $(BIN)/python tests/stress/runner.py --seconds $(SECONDS) $(ARGS)

# About an hour; one animal again and again: make zoo ARGS="zoo-erlang --rounds 50"
.PHONY: zoo
zoo: $(AGENT_STAMP) ## small programs in some fifty runtimes, each attached to 21 times; see tests/stress/README.md
	PYTHONPATH=tests/support:tests/stress $(BIN)/python tests/stress/runner.py --seconds 30 --results build/zoo.jsonl \
		$(if $(findstring zoo-,$(ARGS)),,'zoo-*') $(ARGS)

# The processor is emulated: minutes for each kernel. Another one: make kernels ARGS=6.12
.PHONY: kernels
kernels: $(AGENT_STAMP) ## Debian's kernels 5.10 and 6.1 in a virtual machine; see tests/kernels/README.md
	nice -n 10 $(BIN)/python tests/kernels/run.py $(ARGS)

# One core, lowest priority. All of them: make fuzz RUNS=10000000
RUNS ?= 0
TARGETS ?=
.PHONY: fuzz
fuzz: $(STAMP) ## the agent's C under libFuzzer and sanitizers, seconds each; see tests/fuzz/README.md
	nice -n 19 $(BIN)/python tests/fuzz/run.py --runs $(RUNS) $(TARGETS)

# A part of them: make fuzz-host ARGS="elf query --runs 1000000"
.PHONY: fuzz-host
fuzz-host: $(STAMP) ## the parsers of flametap's own process on damaged input; see tests/fuzz/README.md
	nice -n 19 $(BIN)/python tests/fuzz/run_host.py $(ARGS)

.PHONY: check
check: fmt-check lint types installed test ## all that CI runs

# Asks PyPI's database; part of `make test-all`.
.PHONY: audit
audit: $(STAMP)-audit ## known vulnerabilities of the dependencies
	$(BIN)/pytest -m "" tests/test_dependencies.py $(ARGS)

$(STAMP)-audit: $(STAMP)
	-$(INSTALL) --editable '.[audit]'
	@touch $@

# --- measure, build, clean --------------------------------------------------------------------------------------------

.PHONY: bench
bench: $(STAMP)-bench ## what flametap costs, next to other profilers: lists the benches; see bench/README.md
	@$(BIN)/python bench/suite.py $(ARGS)

# The profilers that come from PyPI. Without them the benches run, too.
$(STAMP)-bench: $(AGENT_STAMP)
	-$(INSTALL) --editable '.[bench]'
	@touch $@

# Through the source distribution, so that a wheel never holds what a clean checkout does not.
.PHONY: wheel
wheel: $(STAMP) ## the wheel, which needs no compiler, and the sdist, in dist/
	@rm -rf dist build/lib
	@mkdir -p build
	$(BIN)/python -m build --outdir dist . >build/log 2>&1 || { cat build/log; exit 1; }

.PHONY: installed
installed: wheel ## the built wheel, installed by itself in a second environment
	@rm -rf build/wheel-venv
	$(PYTHON) -m venv build/wheel-venv
	build/wheel-venv/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl 'pytest>=8.2'
	FLAMETAP_EXPECT_WHEEL=1 build/wheel-venv/bin/pytest -p no:cacheprovider tests/test_installed.py

.PHONY: clean
clean: ## remove all that was built, and .venv
	rm -rf build dist .venv .mypy_cache .ruff_cache .pytest_cache agent/machine_code.bin
	find . -name __pycache__ -prune -exec rm -rf {} +
	find . -name '*.egg-info' -prune -exec rm -rf {} +
