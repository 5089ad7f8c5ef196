"""Text on a PDF page outside of its content: values of form fields, and text boxes.

Runs in the sandbox, on PDFium.
"""

from __future__ import annotations

import ctypes
import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from specextend_cli.documents.line import Line

MAX_ANNOTATIONS = 1_000
MAX_TEXT = 100_000
"""Characters of one annotation that are read."""
_MAX_BUFFER = 16 << 20  # bytes

Kind = Literal["form field", "text box"]

_HIDDEN = 2 | 32  # flags: hidden, and not to be viewed
_PASSWORD = 1 << 13
_CHECKED = "[x]"
_MIN_SIZE, _USUAL_SIZE = 4.0, 10.0  # sizes of type, in points


class Annotation(NamedTuple):
    """`text` and its box in points; `name` is the accessible name or the name of a form field."""

    kind: Kind
    text: str
    name: str
    left: float
    bottom: float
    right: float
    top: float


def read_annotations(pdf: Any, page: Any) -> Iterator[Annotation]:
    """The visible annotations of an open page with their text. Form fields need `pdf.init_forms()`."""
    from pypdfium2 import raw

    form = pdf.formenv.raw if pdf.formenv else None
    for index in range(min(raw.FPDFPage_GetAnnotCount(page.raw), MAX_ANNOTATIONS)):
        annotation = raw.FPDFPage_GetAnnot(page.raw, index)
        if not annotation:
            continue
        try:
            kind, text, name = _content(raw, form, annotation)
            box = raw.FS_RECTF()
            seen = not raw.FPDFAnnot_GetFlags(annotation) & _HIDDEN
            if text and seen and raw.FPDFAnnot_GetRect(annotation, box):
                edges = [value if math.isfinite(value) else 0.0 for value in (box.left, box.bottom, box.right, box.top)]
                left, right = sorted((edges[0], edges[2]))
                bottom, top = sorted((edges[1], edges[3]))
                yield Annotation(kind, text, name, left, bottom, right, top)
        finally:
            raw.FPDFPage_CloseAnnot(annotation)


def _content(raw: Any, form: Any, annotation: Any) -> tuple[Kind, str, str]:
    """The kind, text and name of an annotation: "[x]" for a ticked box, "" for a password or what is not read."""
    subtype = raw.FPDFAnnot_GetSubtype(annotation)
    if subtype == raw.FPDF_ANNOT_FREETEXT:
        return "text box", _value(raw.FPDFAnnot_GetStringValue, annotation, b"Contents"), ""
    if subtype != raw.FPDF_ANNOT_WIDGET or not form:
        return "form field", "", ""
    kind = raw.FPDFAnnot_GetFormFieldType(form, annotation)
    accessible = _value(raw.FPDFAnnot_GetFormFieldAlternateName, form, annotation)
    name = accessible or _value(raw.FPDFAnnot_GetFormFieldName, form, annotation)
    if kind in (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON):
        return "form field", _CHECKED if raw.FPDFAnnot_IsChecked(form, annotation) else "", name
    readable = (raw.FPDF_FORMFIELD_TEXTFIELD, raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX)
    if kind not in readable or raw.FPDFAnnot_GetFormFieldFlags(form, annotation) & _PASSWORD:
        return "form field", "", name
    return "form field", _value(raw.FPDFAnnot_GetFormFieldValue, form, annotation), name


def _value(function: Any, *subject: Any) -> str:
    """The UTF-16 text that a PDFium function writes into a buffer after telling its size in bytes."""
    size = function(*subject, None, 0)
    if not 2 < size <= _MAX_BUFFER:
        return ""
    buffer = ctypes.create_string_buffer(size)
    function(*subject, ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort)), size)
    text = buffer.raw[: 2 * MAX_TEXT].decode("utf-16-le", "replace").partition("\0")[0]
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()


def insert_annotations(lines: list[Line], annotations: list[Annotation], page: int) -> list[Line]:
    """The lines of a page with the annotations at their positions.

    A form field follows the text to the left of it at the same height, and a checkbox precedes the text to its right:
    then they are one row. A field without text beside it is labelled with its name.
    """
    before, after = defaultdict[int, list[Line]](list), defaultdict[int, list[Line]](list)
    for annotation in sorted(annotations, key=lambda annotation: (-annotation.top, annotation.left)):
        ticked = annotation.text == _CHECKED
        at = _beside(lines, annotation, right=ticked)
        if at is not None:
            (first, *more), size = _lines(annotation, page), lines[at].size
            right = max(min(annotation.right, annotation.left + 0.5 * size * len(first.text)), annotation.left + 1)
            first = first._replace(right=right, base=lines[at].base, size=size, bold=lines[at].bold)
            (before if ticked else after)[at].append(first)
            after[at] += more
            continue
        label = f"{annotation.name}: " if annotation.kind == "form field" and annotation.name else ""
        above = [at for at, line in enumerate(lines) if line.base >= annotation.bottom]
        place = after[min(above, key=lambda at: lines[at].base)] if above else before[0]
        place += _lines(annotation, page, label)
    if not lines:
        return before[0]
    return [placed for at, line in enumerate(lines) for placed in (*before[at], line, *after[at])]


def _lines(annotation: Annotation, page: int, label: str = "") -> list[Line]:
    """The lines of an annotation from its top edge, the first after `label`."""
    size = min(max(annotation.top - annotation.bottom, _MIN_SIZE), _USUAL_SIZE)
    texts = [part.strip() for part in (label + annotation.text).split("\n") if part.strip()]
    left, right, top = annotation.left, max(annotation.right, annotation.left + 1), annotation.top
    return [Line(text, page, left, right, top - size * (1 + 1.2 * at), size) for at, text in enumerate(texts)]


def _beside(lines: list[Line], annotation: Annotation, *, right: bool) -> int | None:
    """The index of the nearest line at the height of an annotation, to the left of it (or to the right)."""
    best, least = None, math.inf
    for at, line in enumerate(lines):
        gap = line.left - annotation.right if right else annotation.left - line.right
        at_height = annotation.bottom - 0.3 * line.size < line.base < annotation.top
        if at_height and not line.slanted and not line.turn and -line.size < gap < least:
            best, least = at, gap
    return best if least < (5 if right else 40) * _USUAL_SIZE else None
