# Everything a person or CI does here. `make demo` and `make test` need Python 3.11+ and nothing else.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
INPUTS := pyproject.toml constraints.txt

.PHONY: help demo test test-lavis lint docs screenshots bench bench-setup clean

help:  ## Show what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

# One stamp an extra: it is installed anew only when what it needs has changed.
$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("hsfiq needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.annotate: $(BIN)/python $(INPUTS)
	$(PIP) --editable '.[annotate]'
	@touch $@

$(VENV)/.test: $(BIN)/python $(INPUTS)
	$(PIP) --editable '.[test]'
	@touch $@ $(VENV)/.annotate

$(VENV)/.dev: $(BIN)/python $(INPUTS)
	$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.test $(VENV)/.annotate

demo: $(VENV)/.annotate  ## Serve a ready study at http://127.0.0.1:7860
	$(BIN)/hsfiq demo $(ARGS)

test: $(VENV)/.test  ## Run the test suite
	$(BIN)/python -m pytest --numprocesses auto $(ARGS)

# LAVIS lives in an environment outside the checkout, made when its versions change; it takes minutes.
LAVIS := $(PYTHON) benchmarks/lavis_venv.py

test-lavis:  ## Run the tests of the BLIP-2 encoder, with LAVIS (Python 3.11)
	venv=$$($(LAVIS)) && "$$venv/bin/python" -m pytest -c tests/lavis/pytest.ini \
		--confcutdir tests/lavis tests/lavis $(ARGS)

lint: $(VENV)/.dev  ## Check style, types and the doors between the rooms
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.annotate  ## Write the command line's reference
	$(BIN)/python -m hsfiq.cli.reference > docs/cli.md

screenshots: $(VENV)/.test  ## Take pictures of the pages into docs/
	$(BIN)/python -m docs.screenshots

bench: $(VENV)/.test  ## Run the benchmark NAME (make bench NAME=soak)
	$(BIN)/python -m benchmarks $(NAME) $(ARGS)

bench-setup: .venv-potato/bin/potato  ## Install what benchmarks compare with
	$(LAVIS)

# Potato is GPL-3.0 and runs as a process of its own: it is never installed beside hsfiq.
.venv-potato/bin/potato:
	$(PYTHON) -m venv .venv-potato
	.venv-potato/bin/python -m pip --disable-pip-version-check install --quiet potato-annotation==2.12.1

clean:  ## Remove what these commands made, but no data
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
