# Everything lives in .venv; nothing global is touched. `make demo` and `make test` set it up themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WORKERS ?= 2
# The tests start hundreds of processes; without bytecode on disk each would compile this project anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo test test-all test-gpu check docs goldens bench clean

help:
	@echo "make demo     convert a script, show the diff and the launch config, and compare the runs"
	@echo "make test     everything CI runs: lint, types, tests"
	@echo "make test-all also the exhaustive tests, of which CI runs a part"
	@echo "make test-gpu what only a GPU of NVIDIA's can show"
	@echo "make check    lint and types only"
	@echo "make docs     write docs/rules and docs/check.md from the rules and lints"
	@echo "make goldens  convert the fixtures anew (read the diff before you commit it)"
	@echo "make bench    the figures that the documents quote"
	@echo "make clean    remove what the above have made"

demo: $(READY)
	@$(BIN)/python -m fixtures.demo

test: check
	@echo "==> tests"
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -q

test-all: check
	@echo "==> tests, also the exhaustive ones"
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -q -m 'not gpu'

test-gpu: $(READY)
	@echo "==> tests that need a GPU"
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -q -m gpu tests/gpu

check: $(READY)
	@echo "==> lint and format (ruff)"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@echo "==> types (mypy --strict)"
	@$(BIN)/mypy

docs: $(READY)
	@$(BIN)/python -m accelift_codemod.handbook docs/rules
	@$(BIN)/python -m accelift_codemod.handbook_lints docs/check.md

goldens: $(READY)
	@$(BIN)/python -m fixtures.goldens

bench: $(READY)
	@$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .demo .mypy_cache .ruff_cache .pytest_cache

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "Accelift needs Python 3.10 or newer; $(PYTHON) is older. Try: make PYTHON=python3.11 ..." >&2; exit 1; }
	@echo "==> setting up $(VENV): torch, the tools and this project (once; some minutes)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $(READY)
