"""Fixtures that make PDFs on the spot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from made_pdfs import Sheets, report_bytes


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
