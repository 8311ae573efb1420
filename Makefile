# Works from a clean clone with nothing but python3 (3.10 or newer) and make: every target makes and reuses .venv.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.installed

# Tests start hundreds of processes: where Python is told to write no bytecode, each compiles the whole package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test fuzz mutate bench calibrate lint docs

help:
	@echo "make demo    compile examples/attention.py: figures, source and timeline in build/demo"
	@echo "make test    lint, types and the test suite"
	@echo "make fuzz    random NumPy programs through the whole compiler (N=10000 of them, from SEED=, else fresh ones)"
	@echo "make mutate  faults put into lowering and the library of kernels: does the test suite find them?"
	@echo "make bench   the compiled corpus and the library of kernels beside their goals, and how long users wait"
	@echo "make calibrate  predicted against measured latencies (PUBLIC=folder: published kernels from checkouts too)"
	@echo "make docs    the documentation as a site in build/site"
	@echo "make lint    ruff check, ruff format --check, pyright"

demo: $(READY)
	$(BIN)/python examples/demo.py

# Types are checked while the tests run: alone, pyright would leave the other cores idle. With as many test processes as
# cores, threads of NumPy's matrix products would only wait for each other.
test: export OPENBLAS_NUM_THREADS = 1
test: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@mkdir -p build
	@$(BIN)/pyright > build/pyright.log 2>&1 & types=$$!; \
	$(BIN)/python -m pytest -q -n auto --maxprocesses 4 --dist worksteal; tests=$$?; \
	wait $$types; typed=$$?; cat build/pyright.log; exit $$((tests | typed))

fuzz: $(READY)
	$(BIN)/python -m tests.fuzzing --count $(or $(N),10000) $(if $(SEED),--seed $(SEED))
	$(BIN)/python -m tests.fuzzing --sizes large --count $$(($(or $(N),10000) / 20)) $(if $(SEED),--seed $(SEED))
	$(BIN)/python -m tests.fuzz --count $$(($(or $(N),10000) / 10)) --seed $(or $(SEED),0)

mutate: $(READY)
	$(BIN)/python -m tests.mutation
	$(BIN)/python -m tests.kernels.mutants

bench: $(READY)
	$(BIN)/python bench/run.py

calibrate: $(READY)
	$(BIN)/python -m bench.calibration.calibrate
	$(if $(PUBLIC),$(BIN)/python -m bench.calibration.public $(PUBLIC))

docs: $(READY)
	@$(BIN)/python -c 'import mkdocs, material' 2>/dev/null || $(BIN)/python -m pip install --disable-pip-version-check --editable '.[docs]'
	$(BIN)/python -m tests.reference
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("tilewright needs Python 3.10 or newer; try make PYTHON=python3.12" if sys.version_info < (3, 10) else 0)'
	@test -x $(BIN)/python || { echo "creating .venv"; $(PYTHON) -m venv .venv; }
	@echo "installing tilewright and its development tools into .venv"
	@$(BIN)/python -m pip install --progress-bar on --disable-pip-version-check --editable '.[dev]'
	@touch $@
