"""What stands on a PDF page without being its text: the values of form fields, text boxes, and notes of reviewers.

Runs in the worker that parses, over PDFium.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

MAX_ANNOTATIONS = 1_000
MAX_TEXT = 100_000
"""Characters of one annotation that are read."""
_MAX_BUFFER = 16 << 20  # bytes

Kind = Literal["form field", "text box", "note"]

_UNSEEN = 2 | 32  # flags: hidden, and not to be viewed
_PASSWORD = 1 << 13
_CHECKED = "[x]"
_LEAST, _USUAL = 4.0, 10.0  # sizes of type, in points


@dataclass(frozen=True, slots=True)
class Annotation:
    """`text` and where it stands, in points; `name` is the label that a form gives the field, for readers to hear."""

    kind: Kind
    text: str
    name: str
    left: float
    bottom: float
    right: float
    top: float


def read_annotations(pdf: Any, page: Any) -> Iterator[Annotation]:
    """Those of an open page that can be seen and have text. `pdf.init_forms()` makes the form fields readable."""
    from pypdfium2 import raw

    form = pdf.formenv.raw if pdf.formenv else None
    for index in range(min(raw.FPDFPage_GetAnnotCount(page.raw), MAX_ANNOTATIONS)):
        annotation = raw.FPDFPage_GetAnnot(page.raw, index)
        if not annotation:
            continue
        try:
            kind, text, name = _said(raw, form, annotation)
            box = raw.FS_RECTF()
            seen = not raw.FPDFAnnot_GetFlags(annotation) & _UNSEEN
            if text and seen and raw.FPDFAnnot_GetRect(annotation, box):
                edges = [value if math.isfinite(value) else 0.0 for value in (box.left, box.bottom, box.right, box.top)]
                left, right = sorted((edges[0], edges[2]))
                bottom, top = sorted((edges[1], edges[3]))
                yield Annotation(kind, text, name, left, bottom, right, top)
        finally:
            raw.FPDFPage_CloseAnnot(annotation)


def _said(raw: Any, form: Any, annotation: Any) -> tuple[Kind, str, str]:
    """The kind, text and name of an annotation; no text for kinds that are not read."""
    subtype = raw.FPDFAnnot_GetSubtype(annotation)
    if subtype == raw.FPDF_ANNOT_WIDGET:
        return ("form field", *_field(raw, form, annotation)) if form else ("form field", "", "")
    if subtype == raw.FPDF_ANNOT_FREETEXT:
        return "text box", _value(raw.FPDFAnnot_GetStringValue, annotation, b"Contents"), ""
    if subtype in (
        *(raw.FPDF_ANNOT_TEXT, raw.FPDF_ANNOT_HIGHLIGHT, raw.FPDF_ANNOT_UNDERLINE, raw.FPDF_ANNOT_SQUIGGLY),
        *(raw.FPDF_ANNOT_STRIKEOUT, raw.FPDF_ANNOT_CARET, raw.FPDF_ANNOT_STAMP),
    ):
        return "note", _value(raw.FPDFAnnot_GetStringValue, annotation, b"Contents"), ""
    return "note", "", ""


def _field(raw: Any, form: Any, annotation: Any) -> tuple[str, str]:
    """The value of a form field and its name: "[x]" for a box that is ticked, "" for what is empty or secret."""
    kind = raw.FPDFAnnot_GetFormFieldType(form, annotation)
    name = _value(raw.FPDFAnnot_GetFormFieldAlternateName, form, annotation) or _value(
        raw.FPDFAnnot_GetFormFieldName, form, annotation
    )
    if kind in (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON):
        return _CHECKED if raw.FPDFAnnot_IsChecked(form, annotation) else "", name
    readable = (raw.FPDF_FORMFIELD_TEXTFIELD, raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX)
    if kind not in readable or raw.FPDFAnnot_GetFormFieldFlags(form, annotation) & _PASSWORD:
        return "", name
    return _value(raw.FPDFAnnot_GetFormFieldValue, form, annotation), name


def _value(ask: Any, *subject: Any) -> str:
    """What one of PDFium's functions writes into a buffer, in UTF-16, whose size in bytes it says beforehand."""
    size = ask(*subject, None, 0)
    if not 2 < size <= _MAX_BUFFER:
        return ""
    buffer = ctypes.create_string_buffer(size)
    ask(*subject, ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort)), size)
    text = buffer.raw[: 2 * MAX_TEXT].decode("utf-16-le", "replace").partition("\0")[0]
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()


def put_in(lines: list[list[Any]], found: list[Annotation]) -> list[list[Any]]:
    """The lines of a page (see `pdf_lines.Found`) with the annotations where they stand, notes at the end.

    A form field follows the text to the left of it on one height, and a box precedes the text to its right: then they
    are one row. A field without text beside it is called by its name.
    """
    before: dict[int, list[list[Any]]] = {}
    after: dict[int, list[list[Any]]] = {}
    end: list[list[Any]] = []
    for one in sorted(found, key=lambda one: (-one.top, one.left)):
        if one.kind == "note":
            end += (_line(f"Note: {part}" if at == 0 else part, one, at) for at, part in _parts(one))
            continue
        ticked = one.text == _CHECKED
        at = _beside(lines, one, right=ticked)
        if at is not None:
            (first, *more), (base, size, bold) = _parts(one), lines[at][3:6]
            right = max(min(one.right, one.left + 0.5 * size * len(first[1])), one.left + 1)
            beside = [first[1], one.left, right, base, size, bold, False, [], 0]
            (before if ticked else after).setdefault(at, []).append(beside)
            after.setdefault(at, []).extend(_line(part, one, below) for below, part in more)
            continue
        label = f"{one.name}: " if one.kind == "form field" and one.name else ""
        made = [_line(f"{label}{part}" if below == 0 else part, one, below) for below, part in _parts(one)]
        above = _above(lines, one)
        if above is None:
            before.setdefault(0, []).extend(made) if lines else end.extend(made)
        else:
            after.setdefault(above, []).extend(made)
    placed: list[list[Any]] = []
    for at, line in enumerate(lines):
        placed += (*before.get(at, ()), line, *after.get(at, ()))
    return placed + end


def _parts(one: Annotation) -> list[tuple[int, str]]:
    """Its lines that are not blank, numbered."""
    return list(enumerate(part.strip() for part in one.text.split("\n") if part.strip()))


def _line(text: str, one: Annotation, below: int) -> list[Any]:
    height = max(one.top - one.bottom, _LEAST)
    size = min(height, _USUAL)
    return [text, one.left, max(one.right, one.left + 1), one.top - size * (1 + 1.2 * below), size, False, False, [], 0]


def _beside(lines: list[list[Any]], one: Annotation, *, right: bool) -> int | None:
    """The nearest line at the height of an annotation, to the left of it (or to the right)."""
    best, least = None, math.inf
    for at, (_, start, end, base, size, _, slanted, _, turn) in enumerate(lines):
        gap = start - one.right if right else one.left - end
        level = not slanted and not turn
        if level and one.bottom - 0.3 * size < base < one.top and -size < gap < least:
            best, least = at, gap
    return best if least < (5 if right else 40) * _USUAL else None


def _above(lines: list[list[Any]], one: Annotation) -> int | None:
    """The lowest line above an annotation: what it follows."""
    best, least = None, math.inf
    for at, line in enumerate(lines):
        if 0 <= line[3] - one.bottom < least:
            best, least = at, line[3] - one.bottom
    return best
