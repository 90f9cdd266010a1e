# `make demo` and `make test` do everything on a fresh machine with Python >= 3.11, make and a
# C++20 compiler. The rest is for development.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet

NATIVE := CMakeLists.txt pyproject.toml $(shell find native -name '*.cpp' -o -name '*.h' -o -name '*.inc')

.PHONY: help demo test test-native test-full lint docs bench bench-labels bench-tokens bench-train bench-grow bench-features bench-cluster bench-radius bench-gpu bench-scaling bench-default bench-default-time bench-paper clean
help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 16

# ---- set-up ------------------------------------------------------------------------------------
# One virtual environment; a stamp per group of packages, so that the demo need not wait for them all.
$(VENV)/.tools: constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -c constraints.txt scikit-build-core nanobind cmake ninja
	@touch $@

$(VENV)/.core: $(VENV)/.tools $(NATIVE)
	$(PIP) install -c constraints.txt --no-build-isolation -e .
	@touch $@

$(VENV)/.train: $(VENV)/.core
	$(PIP) install -c constraints.txt torch==2.13.0
	$(PIP) install -c constraints.txt --no-build-isolation -e '.[train]'
	@touch $@

$(VENV)/.test: $(VENV)/.train
	$(PIP) install -c constraints.txt --no-build-isolation -e '.[test]'
	@touch $@

$(VENV)/.browser: $(VENV)/.test
	$(PIP) install -c constraints.txt --no-build-isolation -e '.[browser]'
	@touch $@

$(VENV)/.lint: $(VENV)/.test
	$(PIP) install -c constraints.txt --no-build-isolation -e '.[lint]'
	@touch $@

$(VENV)/.dev: $(VENV)/.test
	$(PIP) install -c constraints.txt --no-build-isolation -e '.[dev]'
	@touch $@

# The reference documents what needs torch, too.
$(VENV)/.docs: $(VENV)/.test
	$(PIP) install -c constraints.txt --no-build-isolation -e '.[docs]'
	@touch $@

# ---- the two commands --------------------------------------------------------------------------
demo: $(VENV)/.train  ## the whole pipeline on an embedded graph
	$(BIN)/dhilgt demo

test: $(VENV)/.test  ## the test suite, a process per core
	$(BIN)/python -m pytest -n auto --dist worksteal

# ---- development -------------------------------------------------------------------------------
NATIVE_BUILDS := plain address,undefined thread

# The core's own tests: as they are, then under each group of sanitizers.
test-native: $(VENV)/.tools  ## the native tests, plain and under the sanitizers
	@for kind in $(NATIVE_BUILDS); do \
	  echo "== native tests: $$kind"; \
	  sanitize=$$(test $$kind = plain || echo $$kind); \
	  $(BIN)/cmake -S . -B build/native-$${kind%%,*} -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja \
	    -DDHILGT_TESTS=ON -DCMAKE_BUILD_TYPE=Release -DDHILGT_SANITIZE=$$sanitize > /dev/null && \
	  $(BIN)/cmake --build build/native-$${kind%%,*} && \
	  UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
	    $(BIN)/ctest --test-dir build/native-$${kind%%,*} --output-on-failure || exit 1; \
	done

test-full: test-native $(VENV)/.browser  ## everything: native tests, sanitizers, heavy tests, pages in a browser
	@command -v chromedriver > /dev/null || echo "no chromedriver: tests of pages are skipped; on Debian," \
	  "apt-get install chromium chromium-driver"
	$(BIN)/python -m pytest -n auto --dist worksteal -m "full or not full" --timeout=1800

lint: $(VENV)/.lint  ## format check, lint, types, the order of packages
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy

# Speed is judged here, as ratios inside one run. Real graphs are used where DHILGT_DATA names a folder
# with the datasets' raw files, generated ones otherwise; RESULTS gets the figures as JSON lines.
RESULTS ?= bench-results
$(VENV)/.bench: $(VENV)/.core
	$(PIP) install -c constraints.txt --no-build-isolation -e '.[bench]'
	@touch $@

bench: bench-labels bench-tokens bench-train bench-grow bench-features bench-radius  ## all benchmarks

bench-labels: $(VENV)/.bench  ## labels against Algorithm 1 and NetworKit: time, memory, disk, growth
	$(BIN)/python -m bench.labels --results $(RESULTS)

bench-tokens: $(VENV)/.bench  ## tokens: sampling, distances, disk, growth
	$(BIN)/python -m bench.tokens --results $(RESULTS)

bench-train: $(VENV)/.bench $(VENV)/.test  ## training on the CPU: loader, memory, step, epoch
	$(BIN)/python -m bench.train --results $(RESULTS)
	$(BIN)/python -m bench.epoch --results $(RESULTS)

bench-scaling: $(VENV)/.bench $(VENV)/.test  ## time and memory of all systems against nodes and edges
	$(BIN)/dhilgt bench scaling --budget 240 --resume -o $(RESULTS)/scaling.jsonl --into $(RESULTS)

# Long: 2,000 trainings. It goes on where it stopped; JOBS are trainings at once, MINUTES those of one call.
JOBS ?= 1
MINUTES ?= 480
bench-default: $(VENV)/.bench $(VENV)/.test  ## the default against every baseline on twelve graphs
	$(BIN)/dhilgt bench default --jobs $(JOBS) --minutes $(MINUTES) --resume -o $(RESULTS)/default.jsonl --into $(RESULTS)

bench-paper: $(VENV)/.bench $(VENV)/.test  ## all systems under one protocol: as they come, and after an equal search
	$(BIN)/dhilgt bench paper --jobs $(JOBS) --minutes $(MINUTES) --resume -o $(RESULTS)/paper.jsonl --into $(RESULTS)

bench-default-time: $(VENV)/.bench $(VENV)/.test  ## from files to predictions with nothing set: seconds
	$(BIN)/python -m bench.default_time --results $(RESULTS)

bench-grow: $(VENV)/.bench $(VENV)/.test  ## new nodes: quick labels against labelling again
	$(BIN)/python -m bench.grow --results $(RESULTS)

bench-radius: $(VENV)/.bench  ## labels with a radius against full ones: time, entries, bytes, exactness
	$(BIN)/python -m bench.radius --results $(RESULTS)

bench-features: $(VENV)/.bench $(VENV)/.test  ## averages of wide features: projected against exact
	$(BIN)/python -m bench.features --results $(RESULTS)

bench-cluster: $(VENV)/.bench $(VENV)/.test  ## labels and tokens on a cluster of this machine: time, memory, simulator
	$(BIN)/python -m bench.cluster --results $(RESULTS)
	$(BIN)/python -m bench.cluster_memory --results $(RESULTS)

bench-gpu: $(VENV)/.bench $(VENV)/.test  ## training and inference on a GPU: reference, SDPA, fused
	@mkdir -p $(RESULTS)
	$(BIN)/dhilgt bench speed --device cuda --batch 8192,1024,32768 --slots 32,12,60 --width 128,64,256 \
	  --also small,sparse,streamed -o $(RESULTS)/gpu.jsonl --table $(RESULTS)/gpu-table.md \
	  --plot $(RESULTS)/gpu-speed.png

docs: $(VENV)/.docs  ## the documentation as HTML, in docs/_build/html
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

clean:  ## remove everything that was built
	rm -rf $(VENV) build dist docs/_build
