"""The process that opens a PDF: whatever a broken or hostile file does, it does here.

Run by `pdf.py` as a separate interpreter. Its first answer is the document (`pages`, `title`, `outline`) or an
`error`. It is then told the pages to read, and answers with one object a page, in that order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, TypedDict

from specextend_cli.documents import sandbox_worker, second_reader
from specextend_cli.documents.pdf_annotations import put_in, read_annotations
from specextend_cli.documents.pdf_lines import lines_of

MAX_CHARACTERS = 2_000_000
MAX_LINES = 5_000
MAX_OUTLINE = 5_000
SAMPLE = 400
"""Characters of a page that are asked whether their letters are known."""


class Job(TypedDict):
    """What to open: `reader` is "pdfium" or "pypdf"."""

    path: str
    password: str | None
    reader: str
    memory: int


def serve() -> None:
    """Answer the one job on stdin."""
    sandbox_worker.serve(answer)


def answer(job: Job) -> Iterator[dict[str, Any]]:
    """The document, then the pages asked for (1-based)."""
    if job["reader"] == "pypdf":
        return second_reader.answer(job["path"], job["password"], MAX_CHARACTERS)
    return _pdfium(job)


def _pdfium(job: Job) -> Iterator[dict[str, Any]]:
    import pypdfium2

    try:
        pdf = pypdfium2.PdfDocument(job["path"], password=job["password"])
    except pypdfium2.PdfiumError as error:
        yield {"error": "password" if "password" in str(error).lower() else "damaged", "detail": str(error)}
        return
    with suppress(pypdfium2.PdfiumError):  # without it the fields of a form are not read, and the rest is
        pdf.init_forms()
    outline = [_bookmark(item) for item in islice(pdf.get_toc(max_depth=6), MAX_OUTLINE)]
    yield {"pages": len(pdf), "title": pdf.get_metadata_dict().get("Title", ""), "outline": outline}
    for number in sandbox_worker.heard() or ():
        try:
            page = pdf[number - 1]
            text = page.get_textpage()
            if text.count_chars() > MAX_CHARACTERS:
                yield {"page": number, "error": "more text than a page can hold"}
                continue
            found = lines_of(text, page.get_cropbox())
            if len(found["lines"]) > MAX_LINES:
                yield {"page": number, "error": "more lines than a page can hold"}
                continue
            images = (
                0 if found["lines"] else sum(1 for _ in page.get_objects(filter=[pypdfium2.raw.FPDF_PAGEOBJ_IMAGE]))
            )
            beside = list(read_annotations(pdf, page))
            found["lines"] = put_in(found["lines"], beside)
            added = [(one.kind, one.text) for one in beside]
            label, unmapped = pdf.get_page_label(number - 1), _unmapped(text)
            yield {"page": number, "images": images, "added": added, "label": label, "unmapped": unmapped, **found}
            text.close()
            page.close()
        except (pypdfium2.PdfiumError, MemoryError) as error:
            yield {"page": number, "error": str(error) or "out of memory"}


def _unmapped(text: Any) -> float:
    """The share of characters whose font does not say which letters they are: PDFium then gives their codes."""
    from pypdfium2 import raw

    count = text.count_chars()
    places = range(0, count, max(count // SAMPLE, 1))
    found = sum(1 for at in places if raw.FPDFText_HasUnicodeMapError(text.raw, at) == 1)
    return found / max(len(places), 1)


def _bookmark(item: Any) -> tuple[str, int | None]:
    """Its title and the page (1-based) that it leads to.

    Bookmarks are dataclasses in pypdfium2 4 and objects with methods since 5.
    """
    if hasattr(item, "get_title"):
        target = item.get_dest()
        title, index = item.get_title(), None if target is None else target.get_index()
    else:
        title, index = item.title, item.page_index
    return title, None if index is None else index + 1
