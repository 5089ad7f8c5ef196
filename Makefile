# make demo    install, then summarize a real PDF with the embedded pair
# make test    install for development, then run the tests
# make lint    ruff, clang-format and mypy
# make docs    what is generated in docs/: the command reference and the pictures
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
LONGEST := engine cli bench
ROOMS := $(LONGEST) $(filter-out $(LONGEST) __pycache__,$(notdir $(patsubst %/,%,$(wildcard tests/*/))))
CPP := $(wildcard specextend_cli/engine/native/*.h specextend_cli/engine/native/*.cpp)

.PHONY: demo test $(ROOMS:%=test-%) test-settings test-slow test-oldest lint format docs clean

demo: $(VENV)/.installed
	$(BIN)/specextend summarize docs/samples/flood-warning.pdf

test: $(ROOMS:%=test-%)

# A room at a time, so that `make --jobs` can run several.
$(ROOMS:%=test-%): test-%: $(VENV)/.developing
	$(BIN)/python -m pytest tests/$*

# The demo without AVX-512, without a compiler, with one that fails, and beside two busy programs.
test-settings: $(VENV)/.developing
	tests/scripts/demo_settings.sh

test-slow: $(VENV)/.developing
	$(BIN)/python -m pytest -m slow

# The engine on the oldest transformers that pyproject.toml admits, where it has to do with transformers.
APART := attention budget cache compiled compiled_head decoding_threads graphed memory native ngram retrieval sampling \
	thread_governor tree triton triton_on_gpu
test-oldest:
	$(PYTHON) -m venv $(VENV)-oldest
	$(VENV)-oldest/bin/python -m pip install --quiet --constraint constraints-oldest.txt --editable .[dev]
	$(VENV)-oldest/bin/python -m pytest tests/engine $(APART:%=--ignore tests/engine/test_%.py)

lint: $(VENV)/.developing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(CPP)
	$(BIN)/mypy

format: $(VENV)/.developing
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP)

docs: $(VENV)/.developing
	$(BIN)/python docs/make_cli.py
	$(BIN)/python docs/make_pictures.py
	$(BIN)/python docs/make_panel.py

clean:
	rm -rf $(VENV) $(VENV)-oldest build dist

# Stamps, so that an installed checkout asks nothing of the network.
$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

$(VENV)/.developing: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .[dev]
	touch $@
