# `make demo` and `make test` need Python 3.11 or newer and nothing else.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --no-compile --constraint constraints.txt
HASHED := $(BIN)/python -m pip --disable-pip-version-check install --quiet --no-compile --no-deps --require-hashes
INPUTS := pyproject.toml constraints.txt

# The installation holds no bytecode. Without this, each process compiles all that it imports again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo arena test coverage test-lavis lint docs lock screenshots bench bench-setup clean

help:  ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

# One stamp for each extra, so that an extra is installed again only when its inputs have changed.
$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("hsfiq needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.annotate: $(BIN)/python $(INPUTS)
	$(PIP) --editable '.[annotate]'
	@touch $@

$(VENV)/.arena: $(BIN)/python $(INPUTS)
	$(PIP) --editable '.[annotate,analysis,model]'
	@touch $@ $(VENV)/.annotate

$(VENV)/.test: $(BIN)/python $(INPUTS)
	$(PIP) --editable '.[test]'
	@touch $@ $(VENV)/.annotate $(VENV)/.arena

# First all but torch and what it brings along for GPUs, each file with its hash (make lock).
$(VENV)/.dev: $(BIN)/python $(INPUTS) requirements-dev.txt
	$(HASHED) --requirement requirements-dev.txt
	$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.test $(VENV)/.annotate $(VENV)/.arena

# Node.js only checks the question page's JavaScript.
node_modules/.installed: package.json package-lock.json
	npm ci --silent --no-audit --no-fund
	@touch $@

demo: $(VENV)/.annotate  ## Serve a ready study at http://127.0.0.1:7860
	$(BIN)/hsfiq demo $(ARGS)

arena: $(VENV)/.arena  ## Serve an arena of three retrieval systems that are trained first
	$(BIN)/hsfiq demo --arena $(ARGS)

# Groups of tests run in one worker each, which makes their shared fixtures once (tests/conftest.py).
PARALLEL := --numprocesses auto --dist loadgroup --no-loadscope-reorder

test: $(VENV)/.test  ## Run the test suite
	$(BIN)/python -m pytest $(PARALLEL) $(ARGS)

coverage: $(VENV)/.test  ## Run the test suite and print line and branch coverage
	$(BIN)/python -m pytest $(PARALLEL) --cov --cov-report=term:skip-covered $(ARGS)

# LAVIS has an environment outside the checkout. It is built when its versions change, which takes minutes.
LAVIS := $(PYTHON) benchmarks/lavis_venv.py

test-lavis:  ## Run the tests of the encoders that need LAVIS or open_clip (Python 3.11)
	venv=$$($(LAVIS)) && "$$venv/bin/python" -m pytest -c tests/lavis/pytest.ini \
		--confcutdir tests/lavis tests/lavis $(ARGS) && \
	PYTHONPATH="$$venv/open_clip" "$$venv/bin/python" -m pytest -c tests/openclip/pytest.ini \
		--confcutdir tests/openclip tests/openclip $(ARGS)

lint: $(VENV)/.dev node_modules/.installed  ## Check style, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	npm run --silent lint

docs: $(VENV)/.dev  ## Build the documentation in build/site; broken links and anchors are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	$(BIN)/python -W ignore -m pdoc --docformat google --output-directory build/site/api hsfiq '!hsfiq.model.encoders.lavis_model'

# Of the public index, whatever mirror this machine has. hatchling makes the wheel of hsfiq where it is installed.
LOCK := $(BIN)/uv pip compile --quiet --no-config --default-index https://pypi.org/simple \
	--universal --python-version 3.11 --generate-hashes --no-annotate --custom-compile-command 'make lock' \
	--constraint constraints.txt

# torch is another file on machines without a GPU, and its libraries for GPUs take gigabytes.
OF_TORCH := torch triton cuda-bindings cuda-pathfinder cuda-toolkit nvidia-cublas nvidia-cuda-cupti \
	nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cudnn-cu13 nvidia-cufft nvidia-cufile nvidia-curand \
	nvidia-cusolver nvidia-cusparse nvidia-cusparselt-cu13 nvidia-nccl-cu13 nvidia-nvjitlink \
	nvidia-nvshmem-cu13 nvidia-nvtx

lock: $(VENV)/.dev  ## Write the packages of a server, and those of development, with their hashes (requirements-*.txt)
	echo hatchling | $(LOCK) --extra annotate --extra postgres --extra stores pyproject.toml - --output-file requirements-server.txt
	$(LOCK) --extra dev $(addprefix --no-emit-package ,$(OF_TORCH)) pyproject.toml --output-file requirements-dev.txt

screenshots: $(VENV)/.test  ## Take screenshots of the pages for docs/
	$(BIN)/python -m docs.screenshots

bench: $(VENV)/.test  ## Run the benchmark NAME (make bench NAME=soak)
	$(BIN)/python -m benchmarks $(NAME) $(ARGS)

bench-setup: .venv-potato/bin/potato  ## Install what the benchmarks compare with
	$(LAVIS)

# Potato is GPL-3.0: it has its own environment and runs as a separate process.
.venv-potato/bin/potato:
	$(PYTHON) -m venv .venv-potato
	.venv-potato/bin/python -m pip --disable-pip-version-check install --quiet potato-annotation==2.12.1

clean:  ## Remove what these targets built; keeps all data
	rm -rf $(VENV) node_modules build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
