"""The process that opens a PDF: whatever a broken or hostile file does, it does here.

Run by `pdf.py` as a separate interpreter. Its first answer is the document (`pages`, `title`, `outline`) or an
`error`; then comes one object a page, in the order asked for.
"""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Iterator
from typing import Any, TypedDict

from specextend_cli.documents import confined
from specextend_cli.documents.line import HYPHEN

MAX_CHARACTERS = 2_000_000
MAX_OUTLINE = 5_000
_NOTE_MARK = re.compile(r"(?:(?<=[^\W\d_])|(?<=[.,;:)\]”’\"'?!])|^[ ]*)(\d{1,3})(?!\d)", re.MULTILINE)
_LOOSE = 0.54  # a line whose average character is wider than this part of its size has gaps in it
_LABEL = re.compile(r"\(?\w{1,6}[.)]|\d{1,2}(?:\.\d{1,2})*|\W")  # of a heading or a list item: its gap is no column
_SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


class Job(TypedDict):
    """What to read: `reader` is "pdfium" or "pypdf", `pages` are 1-based and [] means none but the document."""

    path: str
    password: str | None
    reader: str
    pages: list[int]
    memory: int


def serve() -> None:
    """Answer the one job on stdin."""
    confined.serve(lambda job: _pdfium(job) if job["reader"] == "pdfium" else _pypdf(job))


def _pdfium(job: Job) -> Iterator[dict[str, Any]]:
    import pypdfium2

    try:
        pdf = pypdfium2.PdfDocument(job["path"], password=job["password"])
    except pypdfium2.PdfiumError as error:
        yield {"error": "password" if "password" in str(error).lower() else "damaged", "detail": str(error)}
        return
    outline: list[str] = []
    for item in pdf.get_toc(max_depth=6):
        if len(outline) == MAX_OUTLINE:
            break
        # Bookmarks are dataclasses with `title` in pypdfium2 4 and objects with `get_title()` since 5.
        outline.append(item.get_title() if hasattr(item, "get_title") else item.title)
    yield {"pages": len(pdf), "title": pdf.get_metadata_dict().get("Title", ""), "outline": outline}
    for number in job["pages"]:
        try:
            page = pdf[number - 1]
            text = page.get_textpage()
            if text.count_chars() > MAX_CHARACTERS:
                yield {"page": number, "error": "more text than a page can hold"}
                continue
            lines = list(_lines(text))
            images = 0 if lines else sum(1 for _ in page.get_objects(filter=[pypdfium2.raw.FPDF_PAGEOBJ_IMAGE]))
            yield {"page": number, "lines": lines, "images": images}
            text.close()
            page.close()
        except (pypdfium2.PdfiumError, MemoryError) as error:
            yield {"page": number, "error": str(error) or "out of memory"}


def _lines(page: Any) -> Iterator[list[Any]]:
    """[text, left, right, base, size, bold] of each line of a PDFium text page, in the order of the file."""
    glyphs = _Glyphs(page)
    # Replaced one by one, so that a position in the text stays PDFium's own. Since pypdfium2 5 a hyphen is U+FFFE.
    text = page.get_text_range().replace("\r", " ").replace("\ufffe", HYPHEN)
    text = _NOTE_MARK.sub(lambda match: _note_mark(glyphs, text, match), text)
    for match in re.finditer(rf"[^\n{HYPHEN}]*[^\n]?", text):
        body = match[0].strip(" \t\xa0")
        if not body or body == HYPHEN:
            continue
        first = match.start() + match[0].index(body)
        last = first + len(body.rstrip(HYPHEN)) - 1
        head, tail = glyphs.at(first), glyphs.at(last)
        size = max(head.size, tail.size)
        base = head.base if head.size >= tail.size else tail.base
        bold = glyphs.bold(first) and glyphs.bold(last)
        if tail.right - head.left > _LOOSE * size * len(body):
            body = _cells(glyphs, body, first, size)
        yield [body, *(round(value, 2) for value in (head.left, tail.right, base, size)), bold]


def _cells(glyphs: _Glyphs, body: str, first: int, size: float) -> str:
    """A line with its wide gaps as tabs: PDFium writes one space between the cells of a table as between words."""

    def gap(match: re.Match[str]) -> str:
        if _LABEL.fullmatch(body, 0, match.start()):
            return match[0]
        left, right = glyphs.at(first + match.start() - 1), glyphs.at(first + match.end())
        return "\t" if right.left - left.right > 0.9 * size else match[0]

    return re.sub(r"(?<=\S) (?=\S)", gap, body)


def _note_mark(glyphs: _Glyphs, text: str, match: re.Match[str]) -> str:
    """Small raised digits become superscript letters; others stay."""
    first, last = match.span(1)
    at_start = first == 0 or text[first - 1] in "\n "
    beside = last if at_start else first - 1
    while beside < len(text) and text[beside] in " \n" and at_start:
        beside += 1
    if beside >= len(text):
        return match[0]
    mark, word = glyphs.at(first), glyphs.at(beside)
    raised = mark.size < 0.85 * word.size and word.base + 0.1 * word.size < mark.base < word.base + word.size
    return match[0].translate(_SUPERSCRIPT) if raised else match[0]


class _Glyph:
    """Where one character stands, in points."""

    __slots__ = ("base", "left", "right", "size")

    def __init__(self, left: float, right: float, base: float, size: float) -> None:
        self.left, self.right, self.base, self.size = left, right, base, size


class _Glyphs:
    """Positions and weights of the characters of a PDFium text page, asked for one by one: most are never needed."""

    def __init__(self, page: Any) -> None:
        from pypdfium2 import raw

        self._raw, self._page = raw, page.raw
        self._box, self._matrix = raw.FS_RECTF(), raw.FS_MATRIX()
        self._x, self._y = ctypes.c_double(), ctypes.c_double()
        self._name, self._flags = ctypes.create_string_buffer(128), ctypes.c_int()

    def at(self, position: int) -> _Glyph:
        index = self._raw.FPDFText_GetCharIndexFromTextIndex(self._page, position)
        self._raw.FPDFText_GetLooseCharBox(self._page, index, self._box)
        self._raw.FPDFText_GetCharOrigin(self._page, index, self._x, self._y)
        self._raw.FPDFText_GetMatrix(self._page, index, self._matrix)
        scale = math.hypot(self._matrix.c, self._matrix.d)
        size = self._raw.FPDFText_GetFontSize(self._page, index) * scale
        return _Glyph(self._box.left, self._box.right, self._y.value, size)

    def bold(self, position: int) -> bool:
        index = self._raw.FPDFText_GetCharIndexFromTextIndex(self._page, position)
        length = self._raw.FPDFText_GetFontInfo(self._page, index, self._name, len(self._name), self._flags)
        name = self._name.raw[: min(max(length - 1, 0), len(self._name))].lower()
        return b"bold" in name or b"black" in name or b"heavy" in name or self._flags.value & (1 << 18) != 0


def _pypdf(job: Job) -> Iterator[dict[str, Any]]:
    """The second opinion: slower, pure Python, sometimes right where PDFium gives up. Lines have no positions."""
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    # A parser written for well-formed files meets a broken one: beyond its own errors it lets these through.
    broken = (
        *(PyPdfError, ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, NotImplementedError),
        *(OSError, RecursionError, TypeError, ValueError),
    )
    try:
        reader = PdfReader(job["path"])
        if reader.is_encrypted and not reader.decrypt(job["password"] or ""):
            yield {"error": "password", "detail": ""}
            return
        yield {"pages": len(reader.pages), "title": "", "outline": []}
    except broken as error:
        yield {"error": "damaged", "detail": str(error)}
        return
    for number in job["pages"]:
        try:
            text = reader.pages[number - 1].extract_text()
        except broken as error:
            yield {"page": number, "error": str(error) or type(error).__name__}
            continue
        if len(text) > MAX_CHARACTERS:
            yield {"page": number, "error": "more text than a page can hold"}
        else:
            yield {"page": number, "text": text, "images": 0}
