"""Shared by all tests: which of them run, on how many threads, with which kernels, a tiny pair and the command."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Generator, Iterator
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from tests.helpers.once import compiled_files
from tests.helpers.triton_marks import INTERPRETED, INTERPRETER

if TYPE_CHECKING:
    from pathlib import Path

    from specextend_cli.engine.native import Library
    from tests.helpers.pretend_device import PretendDevice

# Tiny models gain nothing from a second thread, and threads that wait for each other on a busy machine lose a lot.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.hookimpl(tryfirst=True)  # before tests are selected by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`gpu` runs only where there is one; of kernels the quick tests run ours for the best instructions, or torch's."""
    if any("gpu" in item.keywords for item in items) and not _has_gpu():
        for item in items:
            if "gpu" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="no CUDA device"))
    items.sort(key=lambda item: INTERPRETER not in item.nodeid)  # a minute each: at the end, processes would wait
    for item in items:
        parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        kernels = parameters.get("kernels", "ours")
        if kernels not in ("ours", "torch") or (kernels == "torch" and not _why_not_ours()):
            item.add_marker(pytest.mark.full)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What imports make stays: no collection of garbage goes through it, now or later (captures begin with one)."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Triton's kernels are tested in a process of its own, by one test: say if it did not run."""
    reports = {outcome: terminalreporter.stats.get(outcome, []) for outcome in ("passed", "failed", "skipped")}
    kernels = [report for report in reports["skipped"] if INTERPRETED in str(report.longrepr)]
    own = [outcome for outcome, some in reports.items() for report in some if INTERPRETER in report.nodeid]
    if kernels and own in ([], ["skipped"]):
        why = "the installed triton cannot interpret them" if own else "make test-full runs them"
        terminalreporter.write_line(f"Triton's kernels did not run in its interpreter: {len(kernels)} tests; {why}")


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


@cache
def _why_not_ours() -> str:
    """What this machine lacks to compile our kernels; else nothing. It imports torch, which most tests do not need."""
    from specextend_cli.engine.native import CannotCompileError
    from specextend_cli.engine.native.shared_library import compiler

    try:
        compiler()
    except CannotCompileError as error:
        return str(error)
    return ""


@pytest.fixture(scope="session")
def library(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Library:
    """Our kernels for the best instructions. Skipped where no compiler is: where one is, failing is a failure."""
    return compiled_library(pytestconfig, tmp_path_factory)


@pytest.fixture(scope="module", params=["torch", "ours"])
def kernels(
    request: pytest.FixtureRequest, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The kernels that a model made in the test will use: torch's, ours, or ours for an instruction set by its name."""
    from specextend_cli.engine import native
    from specextend_cli.engine.native import shared_library as module

    with pytest.MonkeyPatch.context() as patch:
        if request.param == "torch":
            patch.setattr(native, "is_loaded", lambda: False)
        else:
            if request.param != "ours":
                patch.setenv(module.VARIABLE, request.param)
            patch.setattr(module, "_loaded", None)
            compiled_library(pytestconfig, tmp_path_factory).load()
        yield request.param


def compiled_library(config: pytest.Config, factory: pytest.TempPathFactory) -> Library:
    """The library for the instructions in use, compiled once for all tests, if no run of the program has done so."""
    from specextend_cli.engine.native import CannotCompileError, Library
    from specextend_cli.models.store import cache_root

    if why := _why_not_ours():
        pytest.skip(why)
    with compiled_files(config, factory, "kernels") as directory:
        try:
            of_program, library = Library.within(cache_root() / "programs"), Library.within(directory)
        except CannotCompileError as error:
            pytest.skip(str(error))
        if of_program.is_made:
            return of_program
        if not library.is_made:
            library.make()
    return library


@pytest.fixture(scope="session")
def presets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Files of presets of a tiny pair, by their names."""
    from tests.summarize import tiny_preset

    return tiny_preset.make(tmp_path_factory.mktemp("presets"))


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., SimpleNamespace]:
    """The command line in this process: the same exit code and output, without starting Python."""
    from specextend_cli.cli.main import run

    def call(*arguments: object) -> SimpleNamespace:
        code = run([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return SimpleNamespace(returncode=code, stdout=out, stderr=err)

    return call


@pytest.fixture
def pretend() -> Iterator[PretendDevice]:
    """A device that says it is `cuda:0`, and counts what the host reads from it."""
    from tests.helpers.pretend_device import pretend_device

    with pretend_device() as device:
        yield device


@pytest.fixture(autouse=True)
def hidden_kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels that a test has loaded stay loaded; those that do not ask for any, in whatever package, do not see them.

    Otherwise a test's logits would depend on which tests ran before it in the same process: our kernels round unlike
    torch's, and every model that is loaded after them uses them.
    """
    native = sys.modules.get("specextend_cli.engine.native")
    if native is not None and "kernels" not in request.fixturenames:
        monkeypatch.setattr(native, "is_loaded", lambda: False)
