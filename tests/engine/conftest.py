"""Which kernels a test runs with: torch's own, unless it asks for both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from specextend_cli.engine import native
from specextend_cli.engine.native import CannotCompileError, Library
from specextend_cli.engine.native.compiler import compiler
from tests.helpers.once import compiled_files


def _why_not_ours() -> str:
    """What this machine lacks to compile our kernels; else nothing."""
    try:
        Library.within(Path())
        compiler()
    except CannotCompileError as error:
        return str(error)
    return ""


WHY_NOT_OURS = _why_not_ours()


@pytest.fixture(scope="session")
def library(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Library:
    """Our kernels, compiled. Skipped where nobody could: where one can, failing to is a failure."""
    if WHY_NOT_OURS:
        pytest.skip(WHY_NOT_OURS)
    with compiled_files(pytestconfig, tmp_path_factory, "kernels") as directory:
        library = Library.within(directory)
        if not library.is_made:
            library.make()
    return library


@pytest.fixture(scope="module", params=[pytest.param("torch", marks=() if WHY_NOT_OURS else pytest.mark.full), "ours"])
def kernels(request: pytest.FixtureRequest) -> Iterator[str]:
    """The kernels that a model made in the test will use."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "ours":
            request.getfixturevalue("library").load()
        else:
            patch.setattr(native, "is_loaded", lambda: False)
        yield request.param


@pytest.fixture(autouse=True)
def without(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another test has loaded stays loaded; those that do not ask for it do not see it."""
    if "kernels" not in request.fixturenames:
        monkeypatch.setattr(native, "is_loaded", lambda: False)
