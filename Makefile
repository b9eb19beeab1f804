# Everything runs in .venv, made on first use from the pins in constraints.txt. Needs Python >= 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Tests start hundreds of processes, and each would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test coverage fuzz lint docs wheels bench clean

demo: $(READY)
	$(BIN)/biasgp demo --out demo --force

# Processes enough for all cores (tests/conftest.py says how many), so that BLAS needs no threads of its own.
test: $(READY)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

# What the tests reach, of processes that they start too; lines and branches apart at the end.
coverage: $(READY)
	rm -f .coverage .coverage.*
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal --cov --cov-report= $(TESTS)
	$(BIN)/coverage report --skip-covered --sort=miss
	$(BIN)/python benchmarks/coverage_bars.py

# Generated data sets, tables, model files and expressions, for as long as you like: make fuzz MINUTES=60 SEED=2.
MINUTES ?= 10
SEED ?= 1
fuzz: $(READY)
	$(BIN)/python tests/fuzz/drive.py --minutes $(MINUTES) --seed $(SEED)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --config-file tests/mypy.ini tests
	$(BIN)/mypy --config-file= --strict --ignore-missing-imports tests/typing/consumer.py
	$(BIN)/basedpyright --project tests/typing --pythonpath $(BIN)/python
	$(BIN)/lint-imports

# Every warning is an error; what comes out is docs/_build/html, of which links and accessibility are tested.
docs: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,docs]"
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html
	BIASGP_SITE=docs/_build/html $(BIN)/python -m pytest -q tests/docs/test_built_site.py

wheels: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check build twine
	rm -rf dist build
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*

# What the tables of the docs are made of is kept in docs/results.
KEPT := docs/results
bench: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,bench]"
	$(BIN)/python benchmarks/accuracy.py --save $(KEPT)/accuracy.json
	$(BIN)/python benchmarks/speed.py --save $(KEPT)/speed.json
	$(BIN)/python benchmarks/stress.py --save $(KEPT)/stress.json
	$(BIN)/python benchmarks/calibration.py --save $(KEPT)/calibration.json
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/student_t.py --save $(KEPT)/student-t.json
	$(BIN)/python benchmarks/scale_mixture.py
	$(BIN)/python benchmarks/memory.py --save $(KEPT)/memory.json
	$(BIN)/python benchmarks/command.py
	$(BIN)/python benchmarks/runner.py
	$(BIN)/python benchmarks/fleet.py
	$(BIN)/python benchmarks/large.py --save $(KEPT)/large.json
	$(BIN)/python benchmarks/state_space.py --save $(KEPT)/state-space.json
	$(BIN)/python benchmarks/faults.py --save $(KEPT)/faults.json
	$(BIN)/python benchmarks/shapes.py --save $(KEPT)/shapes.json
	$(BIN)/python benchmarks/shapes.py --only sizes --others --draws 30 --save $(KEPT)/shapes-sizes.json
	$(BIN)/python benchmarks/kills.py
	$(BIN)/python benchmarks/tables.py
	$(BIN)/python benchmarks/app.py
	$(BIN)/python docs/benchmark_tables.py

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "biasgp needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) build dist demo docs/_build docs/gallery .coverage .coverage.* src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
