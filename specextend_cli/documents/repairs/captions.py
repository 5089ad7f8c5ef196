"""Rejoin sentences that a figure or a table interrupts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import Line, Pages, Repaired, body_size

_MAX_LINES = 1_000  # on a page: with more it is a list
_MAX_FIGURE = 60  # lines of a figure or a table
_PROSE = 24  # characters of a line of text
_CLOSE = 1.6  # sizes: line spacing within a paragraph
_CAPTION = re.compile(
    r"(?-i:(?=[A-ZÄ-Ü]))(?:figure|fig|table|chart|exhibit|box|map|graph|diagram|illustration|plate|photo|scheme|algorithm|listing"
    r"|abbildung|abb|tabelle|algorithmus|tableau|graphique|algorithme"
    r"|figura|tabla|cuadro|gráfico|tabela|tabella|grafico)\b[ .]*(?:\d|[IVX]+\b|[A-Z][.-]?\d)",
    re.IGNORECASE,
)
ENDED = re.compile(r"[.!?:;。！？…][\"'”’)\]]*[⁰¹²³⁴-⁹,ᵃ-ᶻ]*$")


def captions(pages: Pages) -> Repaired:
    """Move a figure or table between an unfinished sentence and its continuation in lower case behind the paragraph.

    The rest of the paragraph moves above it and stays on its page: the figure may be at the top of a page whose first
    sentence began on the page before.
    """
    edits: list[Edit] = []
    body = body_size(line for page in pages for line in page)
    fixed: list[list[Line]] = []
    open_line: Line | None = None  # the last line of text, if its sentence is unfinished
    for page in pages:
        lines = list(page)
        if body != 1 and len(lines) <= _MAX_LINES:
            at = 0
            while at < len(lines):
                if open_line and (found := _rest(lines, at, open_line, body)):
                    first, last = found
                    rest = _below(open_line, lines[first:last])
                    lines[at:last] = rest + lines[at:first]
                    edits += [Edit("moved", line.page, line.text, line.text) for line in rest]
                goes_on = at > 0 and lines[at - 1] is open_line and _follows(lines[at - 1], lines[at])
                if goes_on or is_prose(lines[at], body):
                    open_line = None if ENDED.search(lines[at].text) else lines[at]
                at += 1
        fixed.append(lines)
    return fixed, edits


def _below(line: Line, rest: Sequence[Line]) -> list[Line]:
    """The rest of a paragraph, positioned closely below a line of the same page."""
    if rest[0].page != line.page:
        return list(rest)
    step = rest[0].base - rest[1].base if len(rest) > 1 else 1.2 * line.size
    up = line.base - step - rest[0].base
    return [other._replace(base=other.base + up) for other in rest]


def _rest(lines: Sequence[Line], at: int, open_line: Line, body: float) -> tuple[int, int] | None:
    """The lines (start, end) that continue `open_line` after a figure or table that begins at `at`, or None."""
    captioned = False
    if _follows(open_line, lines[at]):
        return None
    for first in range(at, min(at + _MAX_FIGURE, len(lines))):
        line = lines[first]
        captioned = captioned or _CAPTION.match(line.text) is not None
        if not is_prose(line, body):
            continue
        next_column = line.left > open_line.right
        beside = line.page == open_line.page and abs(line.left - open_line.left) > 2 and not next_column
        runs_on = first == at or _follows(lines[first - 1], line)
        if not captioned or runs_on or beside or not line.text[0].islower():
            return None
        last = first + 1
        while last < len(lines) and _follows(lines[last - 1], lines[last]):
            last += 1
        return first, last
    return None


def is_prose(line: Line, body: float, *, least: int = _PROSE) -> bool:
    """True if it is a line of running text, of at least so many characters: in body type, and no table row."""
    usual = abs(line.size - body) < 0.04 * body and not line.bold and not line.gaps
    return usual and len(line.text) >= least and "  " not in line.text and not _CAPTION.match(line.text)


def _follows(a: Line, b: Line) -> bool:
    """True if `b` is closely below `a` in the same type."""
    alike = a.page == b.page and abs(a.size - b.size) < 0.04 * a.size and a.bold == b.bold and not b.gaps
    return alike and abs(a.left - b.left) < 2 and 0 < a.base - b.base < _CLOSE * b.size
