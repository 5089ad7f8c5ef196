"""Sandbox targets that hang or crash, to be put in place of the real ones."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

from specextend_cli.documents import structured
from specextend_cli.documents.html import article
from specextend_cli.documents.pdf import worker as pdf_worker


def slow_pdf(job: Any, requests: Iterator[Any]) -> Iterator[dict[str, Any]]:
    """Neither reader finishes a page."""

    def slow_pages(job: Any, requests: Iterator[Any]) -> Iterator[dict[str, Any]]:
        yield {"pages": 2, "title": "", "outline": []}
        next(requests)
        time.sleep(60)

    pdf_worker.lines_of = lambda *_: time.sleep(60)
    pdf_worker.read_with_pypdf = slow_pages
    return pdf_worker.respond(job, requests)


def deadly_pdf(job: Any, requests: Iterator[Any]) -> Iterator[dict[str, Any]]:
    """PDFium crashes on page 2 of a report."""
    lines_of = pdf_worker.lines_of

    def lines(*parameters: Any) -> Any:
        found = lines_of(*parameters)
        if any("page 2 of" in line.text for line in found["lines"]):
            os.abort()
        return found

    pdf_worker.lines_of = lines
    return pdf_worker.respond(job, requests)


def deadlier_pdf(job: Any, requests: Iterator[Any]) -> Iterator[dict[str, Any]]:
    """So does the second reader."""
    pdf_worker.read_with_pypdf = pdf_worker.read_with_pdfium
    return deadly_pdf(job, requests)


def slow_article(job: Any, requests: Iterator[Any]) -> Iterator[dict[str, Any]]:
    """The article of a web page is never found."""
    article._extracted = lambda _: time.sleep(60)
    return structured.respond(job, requests)
