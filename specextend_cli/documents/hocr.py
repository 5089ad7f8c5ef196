"""hOCR, which OCR engines write, to lines with their places, as other readers produce them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from statistics import median
from typing import Any

from specextend_cli.documents.markup import xml_root

_LINES = ("ocr_line", "ocr_caption", "ocr_header", "ocr_textfloat")
_WIDE = 2.0  # of the size: a space between columns of a table
_ALIKE = 0.25  # how far measured sizes of one type lie apart, as a part of it
_UNSURE = 30.0  # percent; a line read with less confidence is a picture or a stain


@dataclass(frozen=True, slots=True)
class Recognized:
    """One page: [text, left, right, base, size, bold, slanted, gaps] of each line, and the confidence in percent."""

    lines: list[list[Any]]
    confidence: float


def read_hocr(data: bytes, points: float) -> list[Recognized]:
    """The pages; `points` is the size of a pixel. MarkupError where it is no hOCR."""
    root = xml_root(data)
    return [_page(page, points) for page in root.iter() if page.get("class") == "ocr_page"]


def _page(page: Any, points: float) -> Recognized:
    height = _numbers(page.get("title", ""), "bbox", 4)[3]
    lines, sure = [], []
    for element in page.iter():
        if element.get("class") in _LINES:
            line, words = _line(element, points, height)
            if words and sum(words) / len(words) >= _UNSURE:
                lines.append(line)
                sure += words
    if lines:
        _even_out(lines)
    return Recognized(lines, round(sum(sure) / len(sure), 1) if sure else 0.0)


def _line(element: Any, points: float, height: float) -> tuple[list[Any], list[float]]:
    """A line, and the confidence in each of its words."""
    title = element.get("title", "")
    left, top, right, bottom = _numbers(title, "bbox", 4)
    angle = _numbers(title, "textangle", 1)[0]
    size = _numbers(title, "x_size", 1)[0] or (right - left if angle in (90, 270) else bottom - top)
    base = height - bottom - _numbers(title, "baseline", 2)[1]
    turned = {
        90.0: (height - bottom, height - top, -right),
        180.0: (-right, -left, top - height),
        270.0: (top - height, bottom - height, left),
    }
    left, right, base = turned.get(angle, (left, right, base))
    parts: list[str] = []
    gaps: list[tuple[float, float]] = []
    sure: list[float] = []
    end = 0.0
    for word in element.iter():
        text = " ".join("".join(word.itertext()).split()) if word.get("class") == "ocrx_word" else ""
        if not text:
            continue
        box = _numbers(word.get("title", ""), "bbox", 4)
        if parts:
            wide = angle == 0 and box[0] - end > _WIDE * size
            parts.append("\t" if wide else " ")
            gaps += [(round(end * points, 2), round(box[0] * points, 2))] * wide
        parts.append(text)
        end = box[2]
        sure.append(_numbers(word.get("title", ""), "x_wconf", 1)[0])
    measures = (round(value * points, 2) for value in (left, right, base, size))
    return ["".join(parts), *measures, False, False, gaps], sure


def _even_out(lines: list[list[Any]]) -> None:
    """Measured sizes vary from line to line: what is like the body of the page has the size of the body."""
    body = median(line[4] for line in lines for _ in range(min(len(line[0]), 200)))
    for line in lines:
        line[4] = round(body, 1) if abs(line[4] - body) <= _ALIKE * body else round(line[4])


def _numbers(title: str, key: str, count: int) -> list[float]:
    """The numbers of a property, 0 where it is missing."""
    found = re.search(rf"(?:^|;)\s*{key}((?:\s+-?\d{{1,9}}(?:\.\d+)?){{{count}}})", title)
    return [float(number) for number in found[1].split()] if found else [0.0] * count
