# make demo          install, summarize a real PDF with the embedded pair, and decode it plainly and with SpecExtend
# make test          install for development, then run the quick tests of every part: 4 minutes on two cores
# make test-full     whole matrices, and what takes longer than a quick test may: about half an hour
# make test-pretend  of those, what a GPU and other processors would run: 8 minutes
# make test-oldest   the engine with the oldest transformers that pyproject.toml admits
# make lint          ruff, clang-format and mypy
# make format        ruff and clang-format, which write
# make docs          what is generated in docs/: the command reference and the pictures
# make wheels        wheels with the native library for every instruction set, x86-64 and (if it has the cross compiler) ARM
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
# One pool of processes, each of which takes a test from another when it has none left.
PYTEST := bin/python -m pytest --numprocesses logical --maxprocesses 8 --dist worksteal
PIP := $(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt
# Where the program looks for it, by pip's copy of platformdirs: nothing else is installed yet.
NATIVE := from pathlib import Path; from pip._vendor.platformdirs import user_cache_dir; \
	from specextend_cli.engine.native import Library; \
	library = Library.within(Path(user_cache_dir("specextend"), "programs"), shipped=False); \
	library.is_made or library.make()
CPP := $(wildcard specextend_cli/engine/native/*.h specextend_cli/engine/native/*.cpp tests/engine/*.cpp)

# Else each of the processes that tests start would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-full test-pretend test-oldest lint format docs wheels

demo: $(VENV)/.installed
	$(BIN)/specextend summarize docs/samples/flood-warning.pdf
	$(BIN)/specextend compare docs/samples/flood-warning.pdf

test: $(VENV)/.developing
	$(VENV)/$(PYTEST)

# The rest of every matrix (drafters, policies, back ends, models), Triton's interpreter, processes that are killed.
test-full: $(VENV)/.developing
	$(VENV)/$(PYTEST) -m full

# What a GPU would run, on a device that pretends to be one and in Triton's interpreter; the kernels for every instruction
# set that this machine has, or an emulator of (Debian: g++-aarch64-linux-gnu, qemu-user).
PRETEND := graph_rehearsal kernel_resources other_processors triton
test-pretend: $(VENV)/.developing
	$(VENV)/$(PYTEST) -m "full and not slow" tests/*/test_on_pretend_device.py tests/bench/test_gpu_script.py \
		$(PRETEND:%=tests/engine/test_%.py)

# Where the engine has to do with transformers. CI runs it if these files differ from those that it last passed with.
APART := attention draft_gate cache graph_check graph_rehearsal graphs \
	kernel_resources memory native ngram on_pretend_device ops other_processors retrieval sampling tree triton
test-oldest: $(VENV)-oldest/.developing
	$(VENV)-oldest/$(PYTEST) tests/engine $(APART:%=--ignore tests/engine/test_%.py)
	sha256sum pyproject.toml constraints.txt constraints-oldest.txt > tests/oldest.sha256

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

wheels: $(VENV)/.developing
	SPECEXTEND_WHEEL=x86_64 $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	! command -v aarch64-linux-gnu-g++ || SPECEXTEND_WHEEL=aarch64 CXX=aarch64-linux-gnu-g++ \
		$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

# Stamps, so that an installed checkout asks nothing of the network. The native library is compiled meanwhile; what speaks
# against it is said by the first run, which then tries again.
$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -c '$(NATIVE)' 2> /dev/null & $(PIP) --editable .; status=$$?; wait; exit $$status
	touch $@

$(VENV)/.developing: $(VENV)/.installed
	$(PIP) --editable .[dev]
	touch $@

# Over the packages of the development environment, so that pip installs only those that must be older.
$(VENV)-oldest/.developing: $(VENV)/.developing constraints-oldest.txt
	$(BIN)/python -m venv --clear --without-pip $(VENV)-oldest
	$(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))" \
		> $$(echo $(VENV)-oldest/lib/python3*/site-packages)/developing.pth
	$(VENV)-oldest/bin/python -m pip install --quiet --constraint constraints-oldest.txt --editable .[dev]
	touch $@
