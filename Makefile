# `make demo` and `make test` do everything on a fresh machine with Python >= 3.11, make and a
# C++20 compiler. The rest is for development.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet

NATIVE := CMakeLists.txt pyproject.toml $(shell find native -name '*.cpp' -o -name '*.h' -o -name '*.inc')

.PHONY: help demo test lint docs clean
help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 16

# ---- set-up ------------------------------------------------------------------------------------
# One virtual environment; a stamp per group of packages so that the demo need not wait for torch.
$(VENV)/.tools: constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -c constraints.txt scikit-build-core nanobind cmake ninja
	@touch $@

$(VENV)/.core: $(VENV)/.tools $(NATIVE)
	$(PIP) install -c constraints.txt --no-build-isolation -e .
	@touch $@

$(VENV)/.test: $(VENV)/.core
	$(PIP) install -c constraints.txt torch==2.13.0
	$(PIP) install -c constraints.txt --no-build-isolation -e '.[test]'
	@touch $@

$(VENV)/.dev: $(VENV)/.test
	$(PIP) install -c constraints.txt --no-build-isolation -e '.[dev]'
	@touch $@

$(VENV)/.docs: $(VENV)/.core
	$(PIP) install -c constraints.txt --no-build-isolation -e '.[docs]'
	@touch $@

# ---- the two commands --------------------------------------------------------------------------
demo: $(VENV)/.core  ## the whole pipeline on an embedded graph
	$(BIN)/dhilgt demo

test: $(VENV)/.test  ## the test suite
	$(BIN)/python -m pytest

# ---- development -------------------------------------------------------------------------------
lint: $(VENV)/.dev  ## format check, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: $(VENV)/.docs  ## the documentation as HTML, in docs/_build/html
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

clean:  ## remove everything that was built
	rm -rf $(VENV) build dist docs/_build
