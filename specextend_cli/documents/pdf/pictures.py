"""Pages that are pictures: scans, of which a stamp may be the only text, and slides that were drawn elsewhere."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

from specextend_cli.documents.line import Line

_LETTERS = 400  # a page with more has a text of its own
_STAMP = 150  # letters; a stamp may be anywhere, and a longer text of a scan stands in the margin
_MARGIN = 0.1  # of the height of a page
_TEXT, _PICTURES = 0.08, 0.5  # of the area of a page: most that its text, least that its pictures cover
_MOST = 500  # pictures of a page, as scans may be in strips


class Pictures(NamedTuple):
    """The number of pictures on a page with little text, and a digest of them where they cover the page; else "".

    `has_margin_only`: its text is in the upper or lower margin.
    """

    number: int
    covering: str = ""
    has_margin_only: bool = False


def pictures_of(page: Any, lines: Sequence[Line]) -> Pictures:
    """The pictures of a PDFium page with these lines; none where it has a text of its own."""
    from pypdfium2 import raw

    if sum(line.weight for line in lines) > _LETTERS:
        return Pictures(0)
    pictures = list(islice(page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE]), _MOST))
    width, height = page.get_size()
    text = sum((line.right - line.left) * line.size for line in lines)
    if sum(map(_area, pictures)) < _PICTURES * width * height or text > _TEXT * width * height:
        return Pictures(len(pictures))
    inside = [line for line in lines if _MARGIN * height < line.base < (1 - _MARGIN) * height]
    if inside and sum(line.weight for line in lines) > _STAMP:
        return Pictures(len(pictures))
    digest = hashlib.sha256()
    for picture in pictures:
        size = raw.FPDFImageObj_GetImageDataRaw(picture.raw, None, 0)
        data = ctypes.create_string_buffer(size)
        raw.FPDFImageObj_GetImageDataRaw(picture.raw, data, size)
        digest.update(data.raw)
    return Pictures(len(pictures), digest.hexdigest(), not inside)


def _area(picture: Any) -> float:
    """The area of what a picture covers, in square points; 0 where it is not known."""
    from pypdfium2 import raw

    left, bottom, right, top = (ctypes.c_float() for _ in range(4))
    if not raw.FPDFPageObj_GetBounds(picture.raw, left, bottom, right, top):
        return 0.0
    return (right.value - left.value) * (top.value - bottom.value)
