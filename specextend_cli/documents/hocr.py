"""hOCR, the output of OCR programs, to lines with their positions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from statistics import median
from typing import Any

from specextend_cli.documents.line import Line
from specextend_cli.documents.markup import xml_root

_LINES = ("ocr_line", "ocr_caption", "ocr_header", "ocr_textfloat")
_WIDE = 2.0  # of the size: a space between columns of a table
_SAME_SIZE = 0.25  # relative difference of measured sizes of one type
_MIN_CONFIDENCE = 30.0  # percent; a line with less confidence is part of a picture, or a stain


@dataclass(frozen=True, slots=True)
class Recognized:
    """The lines of one page, and the confidence in percent."""

    lines: list[Line]
    confidence: float


def read_hocr(data: bytes, points: float, number: int = 1) -> list[Recognized]:
    """The pages, the first with this number; `points` is the size of a pixel. MarkupError where it is no hOCR."""
    root = xml_root(data)
    pages = [page for page in root.iter() if page.get("class") == "ocr_page"]
    return [_page(page, points, number + at) for at, page in enumerate(pages)]


def _page(page: Any, points: float, number: int) -> Recognized:
    height = _numbers(page.get("title", ""), "bbox", 4)[3]
    lines, confidence = [], list[float]()
    for element in page.iter():
        if element.get("class") in _LINES:
            line, words = _line(element, points, height, number)
            if words and sum(words) / len(words) >= _MIN_CONFIDENCE:
                lines.append(line)
                confidence += words
    return Recognized(_even_sizes(lines), round(sum(confidence) / len(confidence), 1) if confidence else 0.0)


def _line(element: Any, points: float, height: float, number: int) -> tuple[Line, list[float]]:
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
    confidence: list[float] = []
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
        confidence.append(_numbers(word.get("title", ""), "x_wconf", 1)[0])
    left, right, base, size = (round(value * points, 2) for value in (left, right, base, size))
    return Line("".join(parts), number, left, right, base, size, gaps=gaps), confidence


def _even_sizes(lines: list[Line]) -> list[Line]:
    """The lines with one size for all that are close to the body size: measured sizes vary from line to line."""
    if not lines:
        return lines
    body = median(line.size for line in lines for _ in range(min(len(line.text), 200)))
    return [
        line._replace(size=round(body, 1) if abs(line.size - body) <= _SAME_SIZE * body else round(line.size))
        for line in lines
    ]


def _numbers(title: str, key: str, count: int) -> list[float]:
    """The numbers of a property; zeros where it is missing."""
    found = re.search(rf"(?:^|;)\s*{key}((?:\s+-?\d{{1,9}}(?:\.\d+)?){{{count}}})", title)
    return [float(number) for number in found[1].split()] if found else [0.0] * count
