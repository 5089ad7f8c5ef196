"""Sandbox targets that hang or crash, to be put in place of the real one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

from specextend_cli.documents import worker
from specextend_cli.documents.pdf import read as pdf
from specextend_cli.documents.sandbox import Send

Target = Callable[[dict[str, Any], Send], None]


def _never(module: ModuleType, name: str) -> Target:
    """A worker in which a function does not return."""

    def target(job: dict[str, Any], send: Send) -> None:
        setattr(module, name, lambda *_: time.sleep(60))
        worker.respond(job, send)

    return target


slow_pdf = _never(pdf, "page_lines")
slow_order = _never(worker, "clean")


def deadly_pdf(job: dict[str, Any], send: Send) -> None:
    """PDFium crashes on page 2 of a report."""
    page_lines = pdf.page_lines

    def lines(*parameters: Any) -> Any:
        found = page_lines(*parameters)
        if any("page 2 of" in line.text for line in found.lines):
            os.abort()
        return found

    pdf.page_lines = lines
    worker.respond(job, send)
