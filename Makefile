# Every target sets itself up: all it needs is Python 3.11 or newer.
# `make demo ARGS="--help"` hands arguments on to the command behind a target.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
INSTALLED_GPU := $(VENV)/.installed-gpu
INSTALLED_VIEWER := $(VENV)/.installed-viewer
PIP_INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check --no-input --prefer-binary --no-compile

.DEFAULT_GOAL := help
.PHONY: help install demo play bench test lint format clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(INSTALLED)  ## set up .venv (the other targets do this themselves)

demo: $(INSTALLED)  ## train, evaluate and report on a small task
	@$(BIN)/skillfield demo $(ARGS)

play: $(INSTALLED_VIEWER)  ## play with the shipped policy in the browser
	@$(BIN)/skillfield play $(or $(ARGS),starter --open)

bench: $(INSTALLED)  ## measure samples per second on this machine
	@$(BIN)/skillfield bench $(ARGS)

test: lint $(INSTALLED_GPU)  ## lint, then run the tests
	@$(BIN)/python -m pytest -q $(ARGS)

lint: $(INSTALLED)  ## check style, formatting and types
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy

format: $(INSTALLED)  ## rewrite the code in the project's format
	@$(BIN)/ruff check --fix --quiet
	@$(BIN)/ruff format

clean:  ## remove .venv and caches (runs/ is kept)
	@rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .ruff_cache .mypy_cache
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "skillfield needs Python 3.11 or newer; '$(PYTHON)' was not found." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "skillfield needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "Setting up $(VENV) with $$($(PYTHON) -V): PyTorch, MuJoCo and the tools (once, a minute or two)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP_INSTALL) -c constraints.txt -e '.[dev]'
	@touch $@

$(INSTALLED_VIEWER): $(INSTALLED)
	@echo "Adding viser for the page in the browser"
	@$(PIP_INSTALL) -c constraints.txt -e '.[dev,viewer]'
	@touch $@

# The GPU engine is tested without a GPU too, on Warp's CPU device; exported files are run, and the page is opened.
$(INSTALLED_GPU): $(INSTALLED)
	@echo "Adding MuJoCo-Warp, ONNX and viser for the tests"
	@$(PIP_INSTALL) -c constraints.txt -e '.[dev,export,gpu,viewer]'
	@touch $@ $(INSTALLED_VIEWER)
