# Every target makes the virtual environment first if it is missing or older than its requirements.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.installed
PIP_INSTALL := -m pip install -qq --disable-pip-version-check -c constraints.txt
PYTEST := $(BIN)/python -m pytest
BENCH ?= --growth --training --save
SEED ?= $(shell date +%s)
TORCH ?= 2.13.0
SUITE ?= core

# Where no bytecode is kept, each of the processes that tests start compiles the package anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow fuzz lint bench docs dist extras compat pins check-pins clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

setup: $(READY) ## make the virtual environment .venv, with pinned versions

demo: $(READY) ## does it help? gaf compare on digits, five minutes, ends with a page (again: rm -r runs/demo)
	@$(BIN)/gaf compare --out runs/demo

test: $(READY) ## run the tests and the examples in docstrings, README and examples/
	@$(PYTEST) -n 2 --dist worksteal -m "not slow and not install"

# pytest exits with 5 when it finds nothing to run, and there may be no slow test.
test-slow: $(READY) ## run the tests marked slow
	@$(PYTEST) -n 2 --dist worksteal -m "slow and not install" --durations=30 || { code=$$?; test $$code -eq 5 && echo "There are no slow tests."; }

fuzz: $(READY) ## run the property tests on new random examples (SEED=1: on those of that seed)
	@echo "seed $(SEED)"
	@$(PYTEST) -q -n 2 --dist worksteal -m "hypothesis and not install" --hypothesis-profile=fuzz --hypothesis-seed=$(SEED) tests

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
# are installed, away from this folder's src/. `make test` has run the tests of the same code; these show that the wheel
# holds all of it, with the kernels that were built. Python compiles what is imported, a tenth of torch, and not all.
CLEAN := build/clean
WHEEL_TESTS := tests/functions/test_values.py tests/optim/test_single_foreach.py tests/kernels/test_native.py
dist: $(READY) ## build the sdist and the wheel, install it in a clean environment, try it there
	@rm -rf dist $(CLEAN)
	@$(BIN)/python -m build
	@$(PYTHON) -m venv $(CLEAN)
	@$(CLEAN)/bin/python $(PIP_INSTALL) --no-compile dist/*.whl
	@cd build && clean/bin/python -c 'import gaf; print("gaf", gaf.__version__, "from", gaf.__file__)'
	@$(CLEAN)/bin/python $(PIP_INSTALL) --no-compile pytest pytest-xdist hypothesis numpy rich typer
	@$(CLEAN)/bin/python -m pytest -q -n 2 --dist worksteal -m "not slow" $(WHEEL_TESTS)

extras: dist ## install the wheel with each extra alone and use it (minutes)
	@$(PYTEST) -m install -n 0 -v tests/test_extras.py

compat: $(READY) ## the core tests on another Python and torch of PyPI (PYTHON=python3.12 TORCH=2.6.0)
	@$(PYTHON) tests/compat.py $(TORCH) $(SUITE) $(RECORD)

# `uv` reads the metadata of the package index, so that torch's own requirements are those that a Linux machine gets.
COMPILE := $(BIN)/uv pip compile -q --no-annotate --all-extras pyproject.toml
pins: $(READY) ## write constraints.txt anew, keeping the versions that still fit (UPGRADE=--upgrade: the newest)
	@mkdir -p build && echo "torch==$(TORCH)" > build/torch.txt
	@$(COMPILE) --universal --python-version 3.10 -c build/torch.txt $(UPGRADE) \
		--custom-compile-command "make pins" -o constraints.txt

SYSTEMS ?= x86_64-manylinux_2_28
PYTHONS ?= 3.10 3.11 3.12 3.13 3.14
check-pins: $(READY) ## the pins have a solution in wheels on every Python, as the package index has torch
	@mkdir -p build
	@for system in $(SYSTEMS); do for version in $(PYTHONS); do \
		MACOSX_DEPLOYMENT_TARGET=14.0 $(COMPILE) --no-header --only-binary :all: -c constraints.txt \
			--python-version $$version --python-platform $$system -o build/pins-$$version.txt || exit 1; \
		echo "$$system, Python $$version: $$(grep -c == build/pins-$$version.txt) packages"; \
		rm build/pins-$$version.txt; \
	done; done

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
	@$(BIN)/python $(PIP_INSTALL) -e '.[dev]'
	@$(BIN)/python -c 'from gaf.kernels import available; print("Native kernels:", ", ".join(available()["native"]) or "none (no C compiler was found), torch operations serve")'
	@touch $@
