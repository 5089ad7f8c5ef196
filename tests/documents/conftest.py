"""Fixtures that make PDFs on the spot, and one process for all parsers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.documents.made_pdfs import Sheets
from tests.documents.shared_worker import SharedWorker


@pytest.fixture
def sheets() -> Sheets:
    return Sheets()


@pytest.fixture(scope="session")
def _shared() -> Iterator[SharedWorker]:
    worker = SharedWorker()
    yield worker
    worker.close()


@pytest.fixture(autouse=True)
def _one_process(request: pytest.FixtureRequest, _shared: SharedWorker) -> Iterator[None]:
    """One process reads all documents of these tests, as to start one costs more than to read them.

    Tests marked with `own_processes` (for limits, crashes and replaced parsers) start the real ones.
    """
    with pytest.MonkeyPatch.context() as patch:
        if "own_processes" not in request.fixturenames:
            _shared.install(patch)
        yield


@pytest.fixture
def own_processes() -> None:
    """Every document gets processes of its own."""
