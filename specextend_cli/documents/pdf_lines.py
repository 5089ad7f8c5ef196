"""A PDFium text page to lines: with their places, raised figures as such, and the gaps between cells and columns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import compress
from operator import not_
from typing import Any, TypedDict

from specextend_cli.documents.cell_gaps import find_cells, parts
from specextend_cli.documents.glyphs import Glyph, Glyphs
from specextend_cli.documents.line import HYPHEN
from specextend_cli.documents.printed import Printed
from specextend_cli.documents.superscripts import is_superscript, superscripts
from specextend_cli.documents.word_gaps import Mended, mend

Box = tuple[float, float, float, float]
"""Left, bottom, right, top of a page, in points."""


class Found(TypedDict):
    """`lines`: [text, left, right, base, size, bold, slanted, gaps, turn] of each line, in the order of the file.

    `hidden`: the texts that lie outside of the page. `mended`: what was changed in texts, of which kind.
    """

    lines: list[list[Any]]
    hidden: list[str]
    mended: list[Mended]


def lines_of(page: Any, box: Box) -> Found:
    """What a PDFium text page holds, lines that run up, down or upside down measured as if the page were turned."""
    glyphs = Glyphs(page)
    # Replaced one by one, so that a position in the text stays PDFium's own. Since pypdfium2 5 a hyphen is U+FFFE.
    text = page.get_text_range().replace("\r", " ").replace("\ufffe", HYPHEN)
    text = superscripts(glyphs, text)
    found = list(_printed(glyphs, text))
    find_cells(found)
    found = _apart(found)
    mended = mend(found)
    lines = [_measured(line) for line in found]
    outside = [_outside(line.head, box) and _outside(line.tail, box) for line in found]
    if all(outside):  # then the page is measured wrongly
        outside = [False] * len(lines)
    hidden = [line[0] for line, beyond in zip(lines, outside, strict=True) if beyond]
    return {"lines": list(compress(lines, map(not_, outside))), "hidden": hidden, "mended": mended}


def _printed(glyphs: Glyphs, text: str) -> Iterator[Printed]:
    """The lines of a page's text."""
    for match in re.finditer(rf"[^\n{HYPHEN}]*[^\n]?", text):
        body = match[0].strip(" \t\xa0")
        if body and body != HYPHEN:
            yield _line(glyphs, body, match.start() + match[0].index(body))


def _line(glyphs: Glyphs, body: str, first: int) -> Printed:
    """The line of this text; a raised mark at an end says nothing of how it is set."""
    last = len(body.rstrip(HYPHEN)) - 1
    ends = glyphs.at(first), glyphs.at(first + last)
    level = [at for at in (0, last) if not is_superscript(body[at])]
    if len(level) < 2:
        level = [at for at, letter in enumerate(body[: last + 1]) if not (letter.isspace() or is_superscript(letter))]
    head, tail = (glyphs.at(first + level[0]), glyphs.at(first + level[-1])) if level else ends
    return Printed(glyphs, body, first, ends[0].left, ends[1].right, head, tail)


def _apart(lines: list[Printed]) -> list[Printed]:
    """The lines, with those apart that PDFium took for one and that are set in different sizes.

    Of two such lines, the one that goes on below the line before comes first.
    """
    found: list[Printed] = []
    for line in lines:
        pieces = parts(line)
        if len(pieces) == 1:
            found.append(line)
            continue
        made = [_line(line.glyphs, line.body[start:end], line.first + start) for start, end in pieces]
        for piece in made:
            piece.gaps = [gap for gap in line.gaps if piece.left < gap[0] and gap[1] < piece.right]
        if found:
            above = found[-1]
            made.sort(key=lambda piece: not (abs(piece.left - above.left) < 2 and abs(piece.size - above.size) < 0.5))
        found += made
    return found


def _measured(line: Printed) -> list[Any]:
    """What is said of a line: see `Found`."""
    head = line.head
    return [line.text, line.left, line.right, line.base, line.size, _bold(line), head.slanted, line.gaps, head.turn]


def _bold(line: Printed) -> bool:
    return line.glyphs.bold(line.first) and line.glyphs.bold(line.first + len(line.body.rstrip(HYPHEN)) - 1)


def _outside(glyph: Glyph, box: Box) -> bool:
    """Whether all of a character is beyond the edge of the page."""
    (x, y), size = glyph.center, glyph.size
    low, high = sorted((box[0], box[2])), sorted((box[1], box[3]))
    return not (low[0] - size < x < low[1] + size and high[0] - size < y < high[1] + size)
