# Every target sets up what it needs in .venv: a machine with Python 3.11 and make is enough.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# Warnings of the C compiler are errors here; a user who only installs the package gets them as warnings.
export CFLAGS := $(CFLAGS) -Werror
KERNEL := setup.py $(wildcard kernel/*.[ch] kernel/*/*.[ch])

.PHONY: demo test test-plain test-scale torture torture-quick torture-service soak lint format bench results asan docs dist clean

demo: .venv/reported
	$(BIN)/cosmic demo

test: .venv/tested
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2
	$(MAKE) test-plain

# The same suite on the plain path, as on a machine without a C compiler; encoders and figures know nothing of paths.
test-plain: .venv/tested
	COSMIC_TTA_KERNEL=off OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m 'not torch and not pathless and not scale'

# Sweeps, extractions and streams on Ray, whose workers, drivers and nodes are killed.
test-scale: .venv/scaled
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m scale tests/distributed

# The kernel under AddressSanitizer and UndefinedBehaviorSanitizer: 10,000 random graphs, and its tests.
asan: .venv/tested
	sh tools/asan.sh $(BIN)/python

# Sessions and an extraction are killed at random moments and continued; a session's files are corrupted, its disk fails.
torture: .venv/tested
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python tools/kill_sessions.py --kills 500
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python tools/corrupt_sessions.py --flips 10000
	COSMIC_TTA_TORTURE=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest tests/sessions/test_faults.py
	$(BIN)/python tools/kill_extraction.py

# A few minutes of the same, for every change.
torture-quick: .venv/tested
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python tools/kill_sessions.py --kills 60
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python tools/corrupt_sessions.py --flips 600
	$(BIN)/python tools/kill_extraction.py
	$(BIN)/python tools/torture_service.py load --clients 16 --requests 50

lint: .venv/linted
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/code_figures.py

format: .venv/linted
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .venv/tested
	$(BIN)/cosmic bench --large

# The tables of docs/results, measured on the packs of a folder: make results PACKS=FOLDER. Takes about half an hour.
PACKS ?= packs
results: .venv/reported
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/cosmic benchmark $(PACKS) --seeds 0,1,2,3,4 --out build/results \
	  --streams shuffle,long-tailed,class-sequential,dirichlet,few-classes,switching,open-set,absent
	$(BIN)/python tools/result_pages.py build/results/results.csv

# The service: killed under load, many clients, corrupted images, conformance with OpenAPI.
torture: torture-service
torture-service: .venv/tested
	$(BIN)/python tools/torture_service.py kills
	$(BIN)/python tools/torture_service.py load
	$(BIN)/python tools/torture_service.py images
	$(BIN)/python tools/torture_service.py conformance

# The service, busy for ten minutes: its memory stays flat.
soak: .venv/tested
	$(BIN)/python tools/torture_service.py soak

docs: .venv/documented
	$(BIN)/mkdocs build --strict --site-dir site

clean:
	rm -rf .venv site build dist src/cosmic_tta/core/_kernel*

dist: .venv/installed
	$(PIP) build
	$(BIN)/python -m build

.venv/installed: pyproject.toml constraints.txt $(KERNEL)
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "cosmic-tta needs Python 3.11 or later: make PYTHON=/path/to/python")'
	$(PYTHON) -m venv .venv
	$(PIP) --editable .
	touch $@

.venv/reported: .venv/installed
	$(PIP) --editable '.[report]'
	touch $@

.venv/tested: .venv/installed
	$(PIP) --editable '.[test]'
	touch $@

.venv/scaled: .venv/tested
	$(PIP) --editable '.[test,ray]'
	touch $@

.venv/linted: .venv/tested
	$(PIP) --editable '.[test,lint]'
	touch $@

.venv/documented: .venv/installed
	$(PIP) --editable '.[docs]'
	touch $@
