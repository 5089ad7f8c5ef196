"""Sandbox targets that hang or crash, to be put in place of the real one."""

from __future__ import annotations

import os
import time
from typing import Any

from specextend_cli.documents import worker
from specextend_cli.documents.html import article
from specextend_cli.documents.pdf import read as pdf
from specextend_cli.documents.sandbox import Send


def slow_pdf(job: dict[str, Any], send: Send) -> None:
    """No page is finished."""
    pdf.lines_of = lambda *_: time.sleep(60)  # type: ignore[assignment]
    worker.respond(job, send)


def deadly_pdf(job: dict[str, Any], send: Send) -> None:
    """PDFium crashes on page 2 of a report."""
    lines_of = pdf.lines_of

    def lines(*parameters: Any) -> Any:
        found = lines_of(*parameters)
        if any("page 2 of" in line.text for line in found["lines"]):
            os.abort()
        return found

    pdf.lines_of = lines
    worker.respond(job, send)


def slow_order(job: dict[str, Any], send: Send) -> None:
    """The text is never put in order."""
    worker.clean = lambda _: time.sleep(60)  # type: ignore[assignment]
    worker.respond(job, send)


def slow_article(job: dict[str, Any], send: Send) -> None:
    """The article of a web page is never found."""
    article._extracted = lambda _: time.sleep(60)
    worker.respond(job, send)
