# Every target sets up what it needs in .venv: a machine with Python 3.11 and make is enough.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test lint format bench docs clean

demo: .venv/installed
	$(BIN)/cosmic demo

test: .venv/tested
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

lint: .venv/linted
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/linted
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .venv/tested
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/steps.py

docs: .venv/documented
	$(BIN)/mkdocs build --strict --site-dir site

clean:
	rm -rf .venv site build dist

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "cosmic-tta needs Python 3.11 or later: make PYTHON=/path/to/python")'
	$(PYTHON) -m venv .venv
	$(PIP) --editable .
	touch $@

.venv/tested: .venv/installed
	$(PIP) --editable '.[test]'
	touch $@

.venv/linted: .venv/tested
	$(PIP) --editable '.[test,lint]'
	touch $@

.venv/documented: .venv/installed
	$(PIP) --editable '.[docs]'
	touch $@
