# Every target makes the virtual environment first if it is missing or older than its requirements.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest
BENCH ?= --growth --training --save

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow lint bench docs dist clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

demo: $(READY) ## does it help? gaf compare on digits, two minutes, ends with a page (again: rm -r runs/demo)
	@$(BIN)/gaf compare --out runs/demo

test: $(READY) ## run the tests and the examples in docstrings, README and examples/
	@$(PYTEST) -n 2 -m "not slow"

# pytest exits with 5 when it finds nothing to run, and there may be no slow test.
test-slow: $(READY) ## run the tests marked slow
	@$(PYTEST) -n 2 -m slow --durations=30 || { code=$$?; test $$code -eq 5 && echo "There are no slow tests."; }

lint: $(READY) ## check style (ruff) and types (pyright)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/pyright

bench: $(READY) ## time the optimizers against torch's own (BENCH="--quick": under a minute)
	@$(BIN)/gaf bench $(BENCH)

docs: $(READY) ## build the site in docs/_build/html; links resolve, commands exist, Python blocks run
	@$(BIN)/python -m sphinx -W --keep-going -q docs docs/_build/html
	@$(BIN)/python docs/check.py
	@$(BIN)/python docs/blocks.py

# The wheel is built from the sdist, so that a file missing there is missed here. Only the core and what the tests import
# are installed, away from this folder's src/.
CLEAN := build/clean
CORE_TESTS := tests/functions tests/optim tests/kernels
dist: $(READY) ## build the sdist and the wheel, install it in a clean environment, run the core tests there
	@rm -rf dist $(CLEAN)
	@$(BIN)/python -m build
	@$(PYTHON) -m venv $(CLEAN)
	@$(CLEAN)/bin/python -m pip install -qq --disable-pip-version-check -c constraints.txt dist/*.whl
	@cd build && clean/bin/python -c 'import gaf; print("gaf", gaf.__version__, "from", gaf.__file__)'
	@$(CLEAN)/bin/python -m pip install -qq --disable-pip-version-check -c constraints.txt pytest pytest-xdist hypothesis numpy rich typer
	@$(CLEAN)/bin/python -m pytest -q -n 2 -m "not slow" $(CORE_TESTS)

clean: ## remove the virtual environment, builds and caches
	rm -rf $(VENV) build dist docs/_build src/*.egg-info .pytest_cache .ruff_cache .hypothesis
	find src tests examples benchmarks docs -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

$(READY): pyproject.toml constraints.txt setup.py $(wildcard src/gaf/kernels/csrc/*)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || \
		{ echo "error: $(PYTHON) is missing or older than Python 3.10; try make PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "error: $(PYTHON) cannot make virtual environments; on Debian or Ubuntu: apt install python3-venv" >&2; exit 1; }
	@echo "Installing activated-gradients and its tools into $(VENV) (a minute or two the first time) ..."
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -e '.[dev]' -c constraints.txt
	@$(BIN)/python -c 'from gaf.kernels import available; print("Native kernels:", ", ".join(available()["native"]) or "none (no C compiler was found), torch operations serve")'
	@touch $@
