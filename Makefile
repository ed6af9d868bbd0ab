# make setup | demo | reproduce | test | test-rest | lint | docs | labels | bench | test-cluster | test-faults | test-differential
# Every target sets up what it needs in .venv; after that nothing wants the network.

PYTHON ?= python3
BIN := .venv/bin
OUT := runs/out
STAMP := .venv/.complete
EXTRAS := mpi-local,plot,report,frames,test
# One thread a process: the tests run two processes side by side.
ONE_THREAD := NUMBA_NUM_THREADS=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore
export PIP_NO_INPUT := 1

.PHONY: setup demo reproduce test test-rest lint docs labels bench test-cluster test-faults test-differential clean

setup: $(STAMP)
	@:

# Without build isolation a changed setup.cfg is taken up offline too, as long as it asks for nothing new.
$(STAMP): setup.cfg pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python >= 3.11 is needed; make PYTHON=/path/to/python3 ..." >&2; exit 2; }
	@echo "setting up .venv (about a minute) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install -q 'setuptools>=70.1'
	@$(BIN)/python -m pip uninstall -q -y dmft 2>/dev/null
	@$(BIN)/python -m pip install -q --no-build-isolation -e '.[$(EXTRAS)]'
	@touch $@

lint: $(STAMP)
	@$(BIN)/ruff check -q --output-format concise .
	@$(BIN)/mypy --no-error-summary

SUITE := $(ONE_THREAD) $(BIN)/python -m pytest -q -n 2 --dist loadfile -p tests.warm tests --ignore tests/slurm --ignore tests/faults

test: lint
	@$(SUITE) -m "not slow and not long and not gpu"

# What `make test` leaves out so that it stays at eight minutes: cases of two seconds and more, and the sources of cards on the host.
test-rest: $(STAMP)
	@$(SUITE) -m "(long or gpu) and not slow"

demo: $(STAMP)
	@$(BIN)/dmft solve runs/demo.toml -o $(OUT)/demo.theory.h5 --force
	@$(BIN)/sgd-sim run runs/demo.toml -o $(OUT)/demo.simulation.h5 --force
	@$(BIN)/dmft compare $(OUT)/demo.theory.h5 $(OUT)/demo.simulation.h5 --plot $(OUT)/demo.png
	@echo "picture: $(CURDIR)/$(OUT)/demo.png"

# The site, in docs/_build/html: pictures of the gallery, notebooks and pages; a warning is an error. Needs no network.
DOCS := .venv/.docs
$(DOCS): $(STAMP)
	@$(BIN)/python -m pip install -q --no-build-isolation -e '.[docs]'
	@touch $@

docs: $(DOCS)
	@$(ONE_THREAD) $(BIN)/python docs/gallery/make.py
	@$(ONE_THREAD) $(BIN)/python -m sphinx -q -W --keep-going -b html -d docs/_build/doctrees docs docs/_build/html
	@echo "site: $(CURDIR)/docs/_build/html/index.html"

# What is written into pages from the code: the table of docs/equations.md from labels to lines, the tables of docs/run-files.md, the
# packages of docs/inside.md.
labels: $(STAMP)
	@$(BIN)/python docs/_ext/equation_labels.py
	@$(BIN)/python docs/_ext/run_file_tables.py
	@$(BIN)/python docs/_ext/structure.py

# The papers' figures at their own size. Finished pieces are kept as numbers in NUMBERS and skipped; make it again to continue. An hour of
# one card; SCALE=0.02 DEVICE=cpu NUMBERS=/tmp/numbers tries everything on a laptop. TIME=HH:MM:SS ends it sooner.
DEVICE ?= gpu
SCALE ?= 1
NUMBERS ?= docs/numbers
TIME ?= 24:00:00
reproduce: $(STAMP)
	@$(BIN)/dmft figure headline dimensions paper --full --device $(DEVICE) --scale $(SCALE) --numbers $(NUMBERS) \
		--no-companions --time-limit $(TIME)

# Each benchmark is a script that prints its own table.
bench: $(STAMP)
	@set -e; for script in benchmarks/bench_*.py; do $(BIN)/python $$script; done

# A real Slurm on this machine; skipped with a reason where Slurm is not installed.
test-cluster: $(STAMP)
	@$(ONE_THREAD) $(BIN)/python -m pytest -q tests/slurm

# SIGKILLs, full disks, damaged files. KILLS: how many at random moments.
KILLS ?= 50
test-faults: $(STAMP)
	@FAULT_KILLS=$(KILLS) $(ONE_THREAD) $(BIN)/python -m pytest -q -n 2 tests/faults

# Random runs over all features, each computed in two ways that must agree. PROCESSES: as many as there are cores.
CASES ?= 20
SEED ?= 1
PROCESSES ?= 2
test-differential: $(STAMP)
	@$(ONE_THREAD) $(BIN)/python -W ignore -m tests.differential --cases $(CASES) --seed $(SEED) --processes $(PROCESSES)

clean:
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build *.egg-info
