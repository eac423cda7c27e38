# Every target does its own set-up: Python >= 3.11, make and pip's registry are all it needs.
#
#   PYTHON=python3.12 make test    the interpreter that .venv is made from
#   make test PY=/path/to/python   use this interpreter as it is, install nothing
#   make test ARGS="-k softmax"    extra arguments for the command that the target runs
#   make gpu CUDA=12               the CUDA major version of the driver (13 unless told)
#   make gpu OUT=folder            where its benchmark writes bench.json, bench.md and bench.svg
#   make gpu BUDGET=300            seconds for its benchmark (150 unless told)
#   make gpu DEVICE=cuda-emulated  the same steps without a GPU, on the emulated device

PYTHON ?= python3
CUDA ?= 13
OUT ?= build/gpu
DEVICE ?= cuda
BUDGET ?= 150
ARGS ?=

ifeq ($(origin PY), undefined)
PY := .venv/bin/python
stamp = .venv/.installed-$(1)
else
stamp =
endif

.DEFAULT_GOAL := help
.PHONY: help demo test check format bench gpu clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(call stamp,base) ## trace, fuse, compile and time softmax, GELU and Black-Scholes (10 s)
	$(PY) -m minijit demo $(ARGS)

test: $(call stamp,test) ## run the tests
	$(PY) -m pytest -n auto $(ARGS)

check: $(call stamp,dev) ## lint, format, types, architecture
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) -m pytest -q tests/test_architecture.py

format: $(call stamp,dev) ## apply the formatter and the lint fixes that are safe
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

bench: $(call stamp,base) ## compare with eager NumPy (and JAX, where it is installed) in one run
	$(PY) -m minijit bench $(ARGS)

# Says what a Python of one's own lacks; the doctor itself cannot be imported without these.
missing = import importlib.util as u, sys; \
	names = [n for n in "numpy numba networkx optree platformdirs pytest".split() if not u.find_spec(n)]; \
	sys.exit("%s lacks %s: install them, or name a folder that has them in PYTHONPATH" \
	% (sys.executable, ", ".join(names)) if names else 0)

# The doctor comes first: without a GPU this ends here, before gigabytes of wheels are fetched.
gpu: $(call stamp,test) ## on a machine with an NVIDIA GPU: its tests and benchmark
	$(if $(filter cuda cuda-emulated,$(DEVICE)),,$(error DEVICE is cuda or cuda-emulated, not $(DEVICE)))
	@$(PY) -c '$(missing)'
	$(PY) -m minijit doctor --device $(DEVICE:cuda=driver)
	$(MAKE) --no-print-directory gpu-run

# With another Python or CuPy than ours a warning is no fault (-W default). Tests wait for compilers
# most of the time: several processes share the GPU where pytest-xdist is installed. The sanitizer
# runs where it is installed, last since it is slow; without CuPy's pool every buffer has bounds of
# its own. A toolkit in its usual place is found without a variable of its own.
workers = import importlib.util as u, os; \
	print("-n %d" % min(4, os.cpu_count() or 1) if u.find_spec("xdist") else "")
.PHONY: gpu-run
ifneq ($(wildcard /usr/local/cuda),)
gpu-run: export CUDA_HOME ?= /usr/local/cuda
endif
ifeq ($(DEVICE), cuda)
chosen = -m gpu
gpu-run: $(call stamp,cuda$(CUDA))
else
chosen = -k $(DEVICE)
endif
gpu-run:
	$(PY) -m minijit doctor --device $(DEVICE)
	$(PY) -m pytest $(chosen) -W default $$($(PY) -c '$(workers)') $(ARGS)
	$(PY) -m minijit bench --device $(DEVICE) --seconds 0.1 --budget $(BUDGET) --out $(OUT)
	@if [ $(DEVICE) != cuda ]; then echo "compute-sanitizer needs a GPU: skipped"; \
	elif command -v compute-sanitizer > /dev/null; then set -ex; \
		MINIJIT_TEST_POOL=off compute-sanitizer --error-exitcode 9 $(PY) -m pytest -m gpu -W default \
		-q tests/gpu/test_gpu.py -k program; \
	else echo "compute-sanitizer is not installed: skipped"; fi

clean: ## remove .venv and everything that was built
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One environment for all targets; a stamp says which extra went in, and pyproject.toml outdates it.
.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("minijit needs Python >= 3.11, this is %d.%d: set PYTHON=python3.x" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv

.venv/.installed-base: pyproject.toml | .venv/bin/python
	.venv/bin/python -m pip install --quiet --editable .
	@touch $@

.venv/.installed-%: pyproject.toml | .venv/bin/python
	.venv/bin/python -m pip install --quiet --editable ".[$*]"
	@touch $@
