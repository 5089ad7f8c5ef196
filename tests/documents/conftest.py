"""Fixtures that make PDFs on the spot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.documents.made_pdfs import Sheets, report_bytes
from tests.documents.shared_worker import SharedWorker


@pytest.fixture
def sheets() -> Sheets:
    return Sheets()


@pytest.fixture
def report(tmp_path: Path) -> Callable[[int], Path]:
    def make(pages: int) -> Path:
        path = tmp_path / "report.pdf"
        path.write_bytes(report_bytes(pages))
        return path

    return make


@pytest.fixture(scope="session")
def _shared() -> Iterator[SharedWorker]:
    worker = SharedWorker()
    yield worker
    worker.close()


@pytest.fixture
def one_process(_shared: SharedWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    """One process reads all documents of these tests: to start one costs more than to read them."""
    _shared.install(monkeypatch)
