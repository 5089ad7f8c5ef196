"""Sentences that a figure or a table interrupts go on above it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import Line
from specextend_cli.documents.repairs.repair import Pages, Repaired

_MOST = 1_000  # lines on a page: with more it is a list
_LONGEST = 60  # lines of a figure or a table
_PROSE = 24  # characters of a line of text
_CLOSE = 1.6  # sizes from line to line of a paragraph
_CAPTION = re.compile(
    r"(?-i:(?=[A-ZÄ-Ü]))(?:figure|fig|table|chart|exhibit|box|map|graph|diagram|illustration|plate|photo|abbildung|abb|tabelle|tableau"
    r"|graphique|figura|tabla|cuadro|gráfico|tabela|tabella|grafico)\b[ .]*(?:\d|[IVX]+\b|[A-Z][.-]?\d)",
    re.IGNORECASE,
)
_ENDED = re.compile(r"[.!?:;。！？…][\"'”’)\]]*[⁰¹²³⁴-⁹,ᵃ-ᶻ]*$")


def captions(pages: Pages) -> Repaired:
    """Where a figure or table stands between a line without an end and one that goes on in small letters, it follows.

    The rest of the paragraph moves above it, on its own page: the figure may stand at the head of a page whose first
    sentence began on the page before.
    """
    edits: list[Edit] = []
    sizes = Counter[float]()
    for page in pages:
        for line in page:
            sizes[line.size] += len(line.text)
    body = sizes.most_common(1)[0][0] if sizes else 1.0
    fixed: list[list[Line]] = []
    open_line: Line | None = None  # the last line of text, where its sentence goes on
    for page in pages:
        lines = list(page)
        if body != 1 and len(lines) <= _MOST:
            at = 0
            while at < len(lines):
                if open_line and (found := _rest(lines, at, open_line, body)):
                    first, last = found
                    rest = _below(open_line, lines[first:last])
                    lines[at:last] = rest + lines[at:first]
                    edits += [Edit("moved", line.page, line.text, line.text) for line in rest]
                goes_on = at > 0 and lines[at - 1] is open_line and _follows(lines[at - 1], lines[at])
                if goes_on or _is_prose(lines[at], body):
                    open_line = None if _ENDED.search(lines[at].text) else lines[at]
                at += 1
        fixed.append(lines)
    return fixed, edits


def _below(line: Line, rest: Sequence[Line]) -> list[Line]:
    """The rest of its paragraph, set closely below a line of the same page."""
    if rest[0].page != line.page:
        return list(rest)
    step = rest[0].base - rest[1].base if len(rest) > 1 else 1.2 * line.size
    up = line.base - step - rest[0].base
    return [replace(other, base=other.base + up) for other in rest]


def _rest(lines: Sequence[Line], at: int, open_line: Line, body: float) -> tuple[int, int] | None:
    """Which lines go on from an open one behind the figure or table that begins here; None where none do."""
    captioned = False
    if _follows(open_line, lines[at]):
        return None
    for first in range(at, min(at + _LONGEST, len(lines))):
        line = lines[first]
        captioned = captioned or _CAPTION.match(line.text) is not None
        if not _is_prose(line, body):
            continue
        beside = line.page == open_line.page and abs(line.left - open_line.left) > 2
        runs_on = first == at or _follows(lines[first - 1], line)
        if not captioned or runs_on or beside or not line.text[0].islower():
            return None
        last = first + 1
        while last < len(lines) and _follows(lines[last - 1], lines[last]):
            last += 1
        return first, last
    return None


def _is_prose(line: Line, body: float) -> bool:
    """Whether it is a line of running text: in the usual type, and no row of a table."""
    usual = abs(line.size - body) < 0.04 * body and not line.bold and not line.gaps
    return usual and len(line.text) >= _PROSE and "  " not in line.text and not _CAPTION.match(line.text)


def _follows(a: Line, b: Line) -> bool:
    """Whether `b` is set closely below `a`, and alike."""
    alike = a.page == b.page and abs(a.size - b.size) < 0.04 * a.size and a.bold == b.bold and not b.gaps
    return alike and abs(a.left - b.left) < 2 and 0 < a.base - b.base < _CLOSE * b.size
