# Two for newcomers: `make demo`, `make test`. For contributors: `make check`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: setup dev demo check test test-slow bench clean

setup: $(VENV)/.installed  ## the environment, with the command in it
dev: $(VENV)/.developing   ## … and what the tests and checks need

$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "adk-confirm needs Python 3.11 or newer; say which one: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.developing: $(VENV)/.installed
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable . --group dev
	@touch $@

demo: setup
	@$(BIN)/adk-confirm demo

check: dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

test: dev
	@$(BIN)/pytest -m "not slow" -n auto --dist loadfile

test-slow: dev
	@$(BIN)/pytest -m slow --timeout 600

bench: dev
	@$(BIN)/python -m bench.approvals

clean:
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
