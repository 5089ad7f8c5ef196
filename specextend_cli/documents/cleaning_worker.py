"""The process that cleans what was read: see `cleaning.py`. Its one answer is a `Cleaned`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from specextend_cli.documents import cleaning, sandbox_worker


def serve() -> None:
    """Answer the one job on stdin."""
    sandbox_worker.serve(answer)


def answer(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One answer."""
    yield cleaning.answer(job).to_json()
