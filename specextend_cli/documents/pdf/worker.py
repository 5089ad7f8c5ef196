"""Reads a PDF inside the sandbox, by PDFium or pypdf: see `pdf.py`.

The first response is about the document (`pages`, `title`, `outline`), or an `error`. The one request is a list of
pages (1-based), and is answered by one response a page in that order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

from specextend_cli.documents.pdf.fonts import MappedPages, pypdf_errors
from specextend_cli.documents.pdf.forms import insert_annotations, read_annotations
from specextend_cli.documents.pdf.lines import page_lines

MAX_CHARACTERS = 2_000_000
MAX_LINES = 5_000
MAX_OUTLINE = 5_000

Job = dict[str, Any]
"""`path`, `password` and `reader`: "pdfium" or "pypdf"."""


def respond(job: Job, requests: Iterator[list[int]]) -> Iterator[dict[str, Any]]:
    """The responses about the document and its pages."""
    return (read_with_pypdf if job["reader"] == "pypdf" else read_with_pdfium)(job, requests)


def read_with_pdfium(job: Job, requests: Iterator[list[int]]) -> Iterator[dict[str, Any]]:
    """PDFium: lines with their positions."""
    import pypdfium2

    try:
        pdf = pypdfium2.PdfDocument(job["path"], password=job["password"])
    except pypdfium2.PdfiumError as error:
        yield {"error": "password" if "password" in str(error).lower() else "damaged", "detail": str(error)}
        return
    with suppress(pypdfium2.PdfiumError):  # without it the fields of a form are not read, but the rest is
        pdf.init_forms()
    outline = [_bookmark(item) for item in islice(pdf.get_toc(max_depth=6), MAX_OUTLINE)]
    yield {"pages": len(pdf), "title": pdf.get_metadata_dict().get("Title", ""), "outline": outline}
    maps = MappedPages(job["path"], job["password"])
    for number in next(requests, ()):
        try:
            page = pdf[number - 1]
            text = page.get_textpage()
            if text.count_chars() > MAX_CHARACTERS:
                yield {"error": "more text than a page can hold"}
                continue
            found = page_lines(page, text, number, maps)
            if len(found["lines"]) > MAX_LINES:
                yield {"error": "more lines than a page can hold"}
                continue
            pictures = () if found["lines"] else page.get_objects(filter=[pypdfium2.raw.FPDF_PAGEOBJ_IMAGE])
            images = sum(1 for _ in pictures)
            annotations = list(read_annotations(pdf, page))
            found["lines"] = insert_annotations(found["lines"], annotations, number)
            added = [(annotation.kind, annotation.text) for annotation in annotations]
            yield {"images": images, "added": added, "label": pdf.get_page_label(number - 1), **found}
            text.close()
            page.close()
        except (pypdfium2.PdfiumError, MemoryError) as error:
            yield {"error": str(error) or "out of memory"}


def _bookmark(item: Any) -> tuple[str, int | None]:
    """The title of a bookmark and the page (1-based) that it leads to.

    Bookmarks are dataclasses in pypdfium2 4 and objects with methods since 5.
    """
    if hasattr(item, "get_title"):
        target = item.get_dest()
        title, index = item.get_title(), None if target is None else target.get_index()
    else:
        title, index = item.title, item.page_index
    return str(title), None if index is None else index + 1


def read_with_pypdf(job: Job, requests: Iterator[list[int]]) -> Iterator[dict[str, Any]]:
    """pypdf: slower, pure Python, sometimes right where PDFium fails. Plain text, without positions."""
    from pypdf import PdfReader

    broken = pypdf_errors()
    try:
        reader = PdfReader(job["path"])
        if reader.is_encrypted and not reader.decrypt(job["password"] or ""):
            yield {"error": "password", "detail": ""}
            return
        yield {"pages": len(reader.pages), "title": "", "outline": []}
    except broken as error:
        yield {"error": "damaged", "detail": str(error)}
        return
    for number in next(requests, ()):
        try:
            text = reader.pages[number - 1].extract_text()
        except broken as error:
            yield {"error": str(error) or type(error).__name__}
            continue
        yield {"error": "more text than a page can hold"} if len(text) > MAX_CHARACTERS else {"text": text}
