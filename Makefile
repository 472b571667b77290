# Every target that needs the environment creates it first; `make smoke` or `make test` is enough.
# Settings, given as in `make test CORES=4`:
#   PYTHON       the Python (3.11 or newer) that the environment is made with
#   VENV         the folder of the environment
#   CORES        processes at the same time; each one runs on one thread
#   CONFIG       the study that `make smoke` runs
#   TORCH_INDEX  a package index for torch alone, such as PyTorch's index of CPU wheels
#   ALLOW_CUDA   1: install a CUDA build of torch even where no GPU is found
#   PYTEST_ARGS  further arguments for pytest

PYTHON ?= python3
VENV ?= .venv
# nproc answers OMP_NUM_THREADS where that is set, and 1 thread a process is not 1 core.
CORES ?= $(shell env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)
CONFIG ?= config/smoke.yaml
TORCH_INDEX ?=
ALLOW_CUDA ?=
PYTEST_ARGS ?=

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# A small model is faster on one thread than on two; the cores go to whole processes.
export OMP_NUM_THREADS := 1
export MKL_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1

BIN := $(abspath $(VENV))/bin
STAMP := $(VENV)/.installed
IN_ENV := PATH="$(BIN):$$PATH"

.PHONY: help setup smoke lab test lint lint-python lint-types lint-workflow format docs bench clean distclean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP) ## create the environment and install the pinned packages
	@echo "$(VENV) holds $$(cat $(STAMP)); to install another build: make distclean setup"

$(STAMP): pyproject.toml constraints.txt
	@command -v "$(PYTHON)" >/dev/null || { echo "setup: found no '$(PYTHON)'; install Python 3.11 or newer, or name one: make setup PYTHON=..." >&2; exit 1; }
	@"$(PYTHON)" tools/install.py --venv "$(VENV)" --stamp "$@" --torch-index "$(TORCH_INDEX)" $(if $(filter 1 yes true,$(ALLOW_CUDA)),--allow-cuda)

smoke: $(STAMP) ## run the whole experiment on a tiny model; ends with the path of its report
	$(IN_ENV) snakemake --cores $(CORES) --configfile $(CONFIG) --profile profiles/smoke
	@$(IN_ENV) driftlaw config path $(CONFIG)

lab: $(STAMP) ## measure every estimator against exact gradients, at full size; ends with the path of the page
	$(IN_ENV) driftlaw lab --config config/lab.yaml --cores $(CORES)
	@$(IN_ENV) driftlaw config path config/lab.yaml

test: $(STAMP) ## run the tests, except those marked slow
	$(IN_ENV) pytest -n $(CORES) -q -m "not slow" $(PYTEST_ARGS)

lint: lint-python lint-types lint-workflow ## check style, types and the workflow; changes nothing

lint-python: $(STAMP) ## ruff: rules and format
	$(IN_ENV) ruff check
	$(IN_ENV) ruff format --check

lint-types: $(STAMP) ## mypy on src/
	$(IN_ENV) mypy

lint-workflow: $(STAMP) ## snakefmt and snakemake --lint
	$(IN_ENV) snakefmt --check Snakefile workflow
	$(IN_ENV) snakemake --lint

format: $(STAMP) ## rewrite the sources in the style that lint checks
	$(IN_ENV) ruff check --fix-only
	$(IN_ENV) ruff format
	$(IN_ENV) snakefmt Snakefile workflow

docs: $(STAMP) ## regenerate the files that come from the settings classes
	$(IN_ENV) driftlaw config schema --write
	$(IN_ENV) driftlaw config reference --write

bench: $(STAMP) ## measure speed; writes JSON under benchmarks/results/
	$(IN_ENV) python benchmarks/run.py

clean: ## remove caches, build products and the results of smoke; keeps the environment
	rm -rf build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis results/smoke
	find $(wildcard src tests tools workflow benchmarks) -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## clean, and remove the environment too
	@if [ -e "$(VENV)" ] && [ ! -e "$(VENV)/pyvenv.cfg" ]; then echo "distclean: $(VENV) is no virtual environment; not removed" >&2; exit 1; fi
	rm -rf "$(VENV)"
