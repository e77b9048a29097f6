# Two commands do everything: `make demo` and `make test`. Both set up their own virtual environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CORE_SOURCES := $(shell find cpp src/bitgrove/kernels/shared src/bitgrove/kernels/growth -name "*.cpp" -o -name "*.h") CMakeLists.txt pyproject.toml
C_SOURCES = $(shell find cpp src/bitgrove/kernels tests/emulated_gpu -name "*.cpp" -o -name "*.h" -o -name "*.cu")

.PHONY: demo test test-cuda test-asan test-tsan test-allocation test-clang test-aarch64 test-lowest fuzz fuzz-guided fuzz-train soak soak-kill faults reliability lint unit ranks emulated docs site notebooks wheel reproducible sbom audit paper bench same-bits clean

demo: $(STAMP)
	$(BIN)/python -m bitgrove demo

# Two at a time, the longest first; those beside the second say what they found when they end. Tests of ranks mostly
# wait for each other.
test: lint
	$(MAKE) --jobs=2 emulated-beside unit ranks-beside

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror $(C_SOURCES)

unit: $(STAMP)
	$(BIN)/python -m pytest --ignore=tests/distributed --ignore=tests/cuda --ignore=tests/emulated_gpu

ranks: $(STAMP)
	$(BIN)/python -m pytest tests/distributed

# The tests of the GPU on one that the processor emulates: kernels are compiled for it, and a stand-in for CuPy
# comes before a real one. ORDER: forward, backward or mixed, of the threads of a block.
emulated: $(STAMP)
	PYTHONPATH=tests/emulated_gpu EMULATED_ORDER=$(ORDER) $(BIN)/python -m pytest tests/cuda tests/emulated_gpu

%-beside:
	mkdir -p build
	$(MAKE) $* > build/$*.txt 2>&1; status=$$?; cat build/$*.txt; exit $$status

# Needs an NVIDIA GPU; without one every test says why it was skipped.
test-cuda: $(STAMP)
	$(BIN)/pip install --quiet -e '.[cuda]'
	$(BIN)/python -m pytest tests/cuda -rs

# Unit and parity tests of a core that is built with sanitizers, which end the process at the first find. More
# words for pytest in ARGS. Leaks are not looked for: Python's own objects live until the process ends.
SANITIZED := tests/backends tests/arithmetic tests/model tests/objectives tests/data tests/parity tests/distributed/test_messages.py
test-asan: $(STAMP)
	tests/sanitized.sh address,undefined $(BIN)/python $(SANITIZED) $(ARGS)

# What works in threads. Not with it: LightGBM, which has races of its own, Arrow and Polars, whose allocators crash.
THREADED := tests/backends tests/parity tests/data/test_binning.py tests/data/test_sampling.py tests/data/test_tile_layout.py \
  tests/model/test_predict_kernels.py tests/model/explain/test_shap.py tests/objectives/test_panels.py tests/distributed/test_messages.py
test-tsan: $(STAMP)
	tests/sanitized.sh thread $(BIN)/python $(THREADED) $(ARGS)

# Every allocation of the core fails once, in training, binning, prediction, explanation and between ranks.
ALLOCATING := bin train train_threads train_features train_ranking predict explain ranks
test-allocation: $(STAMP)
	mkdir -p build
	$${CXX:-c++} -std=c++20 -O1 -fPIC -shared -o build/failing_new.so tests/allocation/failing_new.cpp
	for work in $(ALLOCATING); do \
	  LD_PRELOAD=$(abspath build/failing_new.so) $(BIN)/python tests/allocation/walk.py $$work > build/allocation.log || \
	    { tail -n 1 build/allocation.log; exit 1; }; \
	  tail -n 1 build/allocation.log; \
	done

# What compilers of other systems see: the core without vector code, read by clang as strict C++20.
test-clang: $(STAMP)
	packaging/clang.sh $(BIN)/python

# The committed digests, and the parity tests, on another instruction set: 64-bit ARM, under emulation.
AARCH64 := tests/golden tests/parity tests/arithmetic
test-aarch64: $(STAMP)
	packaging/aarch64.sh $(BIN)/python $(AARCH64) $(ARGS)

# The oldest Python and the oldest version of each dependency that pyproject.toml allows.
LOWEST_PYTHON ?= python3.10
LOWEST := tests/golden tests/data tests/doors/test_estimators.py tests/doors/test_scikit_learn.py tests/training
test-lowest: $(STAMP)
	packaging/lowest.sh $(BIN)/python $(LOWEST_PYTHON) $(LOWEST) $(ARGS)

# Random files, messages and tables, and random trainings on reference, CPU and ranks; SECONDS=600, SEED=the time. What
# is found is printed with the command that repeats it.
SECONDS ?= 600
FUZZ = PYTHONPATH=tests:tests/model:tests/backends:tests/cli:tests/streams $(BIN)/python -m tests.fuzz --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))
fuzz: $(STAMP)
	$(FUZZ) models bins imports messages forests tables

# The same readers, but inputs that reach new code are kept, and the core has sanitizers; needs clang.
fuzz-guided: $(STAMP)
	$(BIN)/pip install --quiet -e '.[fuzz]'
	tests/fuzz/guided.sh $(BIN)/python $(SECONDS) models bins imports messages forests

fuzz-train: $(STAMP)
	$(FUZZ) train

# Trainings that are killed at random moments and go on from their checkpoints: alone, as three MPI ranks, on Dask.
RUNS ?= 50
soak-kill: $(STAMP)
	$(BIN)/python tests/soak/kills.py --runs $(RUNS)
	PATH=$(abspath $(BIN)):$$PATH $(BIN)/python tests/soak/kills.py --runs $(RUNS) --ranks 3
	$(BIN)/python tests/soak/kills.py --runs $(RUNS) --dask

# Trains, saves, loads, predicts, explains, exports and streams at random; digests are checked, memory must be flat.
# One arena: ranks that are threads would each leave one of glibc's behind that is not full.
soak: SECONDS = 1200
soak: $(STAMP)
	MALLOC_ARENA_MAX=1 $(BIN)/python tests/soak/cycles.py --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

# One rank of MPI or Dask fails in every way: a table of what the others say, and how soon. Root has namespaces, too.
faults: $(STAMP)
	$(BIN)/python -m lab bench faults

# The same damaged files, wrong inputs, kills and Ctrl-C for bitgrove and the libraries beside it.
reliability: $(STAMP)
	$(BIN)/pip install --quiet -e '.[peers]'
	$(BIN)/python -m lab bench reliability $(ARGS)

docs: $(STAMP)
	$(BIN)/python -m bitgrove.params > docs/parameters.md

# Runs the notebooks in Jupyter and keeps what they show.
notebooks: $(STAMP)
	$(BIN)/pip install --quiet -e '.[site]'
	$(BIN)/jupyter-execute --inplace docs/notebooks/*.ipynb

# The documentation as a static site, to be opened without a server; a warning is an error.
site: $(STAMP)
	$(BIN)/pip install --quiet -e '.[site]'
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/site
	@echo "open build/site/index.html"

# A source archive and a wheel in dist/, the same bytes each time; then the wheel is installed in a fresh environment
# and tested there. Wheels for other systems: `pipx run cibuildwheel --platform linux` (macos, windows).
INSTALLED := tests/golden
MOST_BYTES := 1000000
wheel: $(STAMP)
	rm -rf dist
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m build
	test $$(uname) != Linux || PATH=$(abspath $(BIN)):$$PATH SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/auditwheel repair --wheel-dir dist/repaired dist/*.whl
	$(BIN)/python packaging/smaller.py "$$(ls dist/repaired/*.whl 2> /dev/null || ls dist/*.whl)"
	ls -l dist/*
	test $$(cat "$$(ls dist/repaired/*.whl 2> /dev/null || ls dist/*.whl)" | wc -c) -lt $(MOST_BYTES)
	packaging/installed.sh $(BIN)/python "$$(ls dist/repaired/*.whl 2> /dev/null || ls dist/*.whl)" $(INSTALLED)

# What is compiled into the wheel and installed with it, as a CycloneDX file beside it.
sbom: $(STAMP)
	$(BIN)/python packaging/sbom.py "$$(ls dist/repaired/*.whl 2> /dev/null || ls dist/*.whl)"

# Two builds of the last commit in different folders, compared byte by byte.
reproducible: $(STAMP)
	packaging/reproducible.sh $(BIN)/python

# Known weaknesses of what is installed with bitgrove and its extras.
audit: $(STAMP)
	packaging/audit.sh $(PYTHON)

# One table or figure, `make paper WHAT=fig7`; more words in ARGS. `.venv/bin/python -m lab list` has all.
WHAT ?= table2
paper: $(STAMP)
	$(BIN)/python -m lab $(WHAT) $(ARGS)

same-bits: $(STAMP)
	$(BIN)/python -m lab bench same_bits

bench: $(STAMP)
	$(BIN)/pip install --quiet -e '.[peers]'
	$(BIN)/python -m lab bench versus_peers $(ARGS)

clean:
	rm -rf $(VENV) build dist bitgrove_demo

# A warning in the C++ core fails the build here (BITGROVE_WERROR); users' builds only show it.
$(STAMP): $(CORE_SOURCES)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet -e '.[dev]' --config-settings=cmake.define.BITGROVE_WERROR=ON
	cp $(VENV)/lib/python3*/site-packages/bitgrove/_core.pyi src/bitgrove/  # where mypy looks
	touch $(STAMP)
