# Two for newcomers: `make demo`, `make test`. For contributors: `make check`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= auto
# How many examples Hypothesis tries: `quick`, or `thorough`, as CI does on every supported Python.
EXAMPLES ?= quick
# A test that hangs ends its worker: a signal does not reach one that hangs while it is torn down. Of xdist's ways to
# spread files over workers, only `load` and `worksteal` go on after that. The others run the same test again and again.
SPREAD := --dist worksteal --timeout-method thread
# What `make golden` writes.
GOLDEN := tests/blocks/golden docs/servers.md
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: help setup dev demo check test test-slow frameworks servers bench chaos storms mutants golden gallery picture wheel try-wheel lock clean

help: ## what there is to make
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:[^#]*## */\t/' | expand -t 12

setup: $(VENV)/.installed  ## the environment, with the command in it
dev: $(VENV)/.developing   ## … and what the tests and checks need

$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "adk-confirm needs Python 3.11 or newer; say which one: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@echo "Making the environment in $(VENV): a minute or so, this once."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }
	@$(PIP) --editable .
	@touch $@

$(VENV)/.developing: $(VENV)/.installed
	@$(PIP) --upgrade 'pip>=25.1' # the first that knows dependency groups
	@$(PIP) --editable . --group dev
	@touch $@

frameworks: dev ## LangGraph and the OpenAI Agents SDK, whose examples are tried at the door
	@$(PIP) --editable . --group frameworks

demo: setup ## try it, in a local workspace; AGENT=module:name or CONFIG=adk-confirm.toml for your own agent
	@$(BIN)/adk-confirm demo $(if $(AGENT),--agent $(AGENT)) $(if $(CONFIG),--config $(CONFIG)) $(if $(PORT),--port $(PORT))

check: dev ## lint, format, types, and whether each deliberate slip still applies
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/python -m bench.mutants --check
	@$(BIN)/mypy

test: dev ## the fast tests
	@$(BIN)/pytest -m "not slow" -n $(WORKERS) $(SPREAD) --hypothesis-profile $(EXAMPLES)

servers: dev ## builds the ADK servers of other languages for the slow tests, once: Go, Rust, Java, JavaScript
	@$(BIN)/python -m tests.support.programs

test-slow: dev ## the slow tests: killed and frozen processes, other people's servers, crowds
	@$(BIN)/pytest -m slow --timeout 400 --durations 15 -n $(WORKERS) $(SPREAD)

bench: dev ## measures what we claim, and writes docs/benchmarks.md: 15 minutes; ONLY="cycle start" for some parts
	@$(BIN)/python -m bench $(if $(ONLY),--only $(ONLY))

golden: dev ## writes again what tests compare with, and says what changed: read that diff
	@UPDATE_GOLDEN=1 $(BIN)/pytest -q tests/blocks/test_golden.py \
	  tests/bot/hosts/test_servers.py::test_the_table_in_the_documents_is_this_one
	@git status --short -- $(GOLDEN)
	@git diff --stat -- $(GOLDEN)

gallery: dev ## draws every face of the golden files, on a phone and at a desk, light and dark: gallery/index.html
	@$(BIN)/python -m tests.gallery

picture: dev ## the README's animated picture, made again from the demo's page, and its plot from docs/benchmarks.md
	@$(BIN)/python -m tests.pictures
	@$(BIN)/python -m bench.charts

wheel: ## builds the wheel, with tools whose hashes build.txt has
	@rm -rf dist
	@tools=$$(mktemp -d) && trap 'rm -rf "$$tools"' EXIT && $(PYTHON) -m venv "$$tools" && \
	  "$$tools/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes --requirement build.txt && \
	  "$$tools/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .

try-wheel: ## tries the wheel in an empty environment, outside the checkout
	@outside=$$(mktemp -d) && trap 'rm -rf "$$outside"' EXIT && \
	  $(PYTHON) -m venv "$$outside/venv" && \
	  "$$outside/venv/bin/python" -m pip install --quiet --disable-pip-version-check dist/*.whl && \
	  cd "$$outside" && venv/bin/adk-confirm --help >/dev/null && venv/bin/adk-confirm demo --check && \
	  venv/bin/python -W error -c 'from adk_confirm import Agent, FunctionTool, ToolContext, Runner' && \
	  ! venv/bin/python -c 'import bot' 2>/dev/null && \
	  echo "the wheel installs and runs outside the checkout"

lock: ## constraints.txt and build.txt: the exact versions and hashes that deployments and releases install
	@$(PYTHON) .ci/lock.py

chaos: dev ## three replicas under random faults: make chaos SECONDS=600 SEED=7; without a seed, another each time
	@$(BIN)/python -m bench.chaos $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED)) $(if $(POSTGRES),--postgres)

storms: dev ## thousands of faults in one process and virtual time: make storms SECONDS=600 SEED=7 POSTGRES=1
	@$(BIN)/python -m tests.storms $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED))

mutants: dev ## do the tests notice deliberate slips in the code? make mutants SLIPS="ledger voting" for some of them
	@$(BIN)/python -m bench.mutants $(SLIPS)

clean:
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
