"""The second opinion on a PDF, pypdf: slower, pure Python, sometimes right where PDFium gives up.

It runs where PDFium does, in the worker. Its lines have no positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from specextend_cli.documents import sandbox_worker


def answer(path: str, password: str | None, most: int) -> Iterator[dict[str, Any]]:
    """The document, then the pages asked for, of `most` characters each at most."""
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    # A parser written for well-formed files meets a broken one: beyond its own errors it lets these through.
    broken = (
        *(PyPdfError, ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, NotImplementedError),
        *(OSError, RecursionError, TypeError, ValueError),
    )
    try:
        reader = PdfReader(path)
        if reader.is_encrypted and not reader.decrypt(password or ""):
            yield {"error": "password", "detail": ""}
            return
        yield {"pages": len(reader.pages), "title": "", "outline": []}
    except broken as error:
        yield {"error": "damaged", "detail": str(error)}
        return
    for number in sandbox_worker.heard() or ():
        try:
            text = reader.pages[number - 1].extract_text()
        except broken as error:
            yield {"page": number, "error": str(error) or type(error).__name__}
            continue
        if len(text) > most:
            yield {"page": number, "error": "more text than a page can hold"}
        else:
            yield {"page": number, "text": text, "images": 0}
