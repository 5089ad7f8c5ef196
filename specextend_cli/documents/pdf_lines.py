"""A PDFium text page to lines: with their places, raised figures as such, and the gaps between cells and columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import compress
from operator import not_
from statistics import median
from typing import Any, TypedDict

from specextend_cli.documents.glyphs import Glyph, Glyphs
from specextend_cli.documents.line import HYPHEN

_NOTE_MARK = re.compile(r"(?:(?<=[^\W\d_])|(?<=[.,;:)\]”’\"'?!])|^[ ]*)(\d{1,3})(?!\d)", re.MULTILINE)
_LOOSE = 0.54  # a line whose average character is wider than this part of its size has gaps in it
_LONG = 24  # characters in a line that may run over two columns
_SAMPLE = 12  # lines of a page
_ENOUGH = 3  # lines with gaps among them
_WIDE = 1.5  # how much wider a gap must be in a line that is not loose
_LABEL = re.compile(r"\(?\w{1,6}[.)]|\d{1,2}(?:\.\d{1,2})*|\W")  # of a heading or a list item: its gap is no column
_FIGURE = re.compile(r"(?<!\d)\d{2,9}(?!\d)")
_FEW = 3  # spaces in a line that say nothing of how it is set
_TOO_LONG = re.compile(r"[^\W\d_]{15}")
_LETTERS_APART = 0.1  # of the size: what stands farther apart are words
_SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")

Box = tuple[float, float, float, float]
"""Left, bottom, right, top of a page, in points."""


class Found(TypedDict):
    """`lines`: [text, left, right, base, size, bold, slanted, gaps] of each line, in the order of the file.

    `hidden`: the texts that lie outside of the page. `mended`: texts before and after spaces were put into them.
    """

    lines: list[list[Any]]
    hidden: list[str]
    mended: list[tuple[str, str]]


def lines_of(page: Any, box: Box) -> Found:
    """What a PDFium text page holds, lines that run up, down or upside down measured as if the page were turned."""
    lines: list[list[Any]] = []
    places: list[int] = []  # where each begins in the text
    outside: list[bool] = []
    dense: list[tuple[int, int]] = []
    glyphs = Glyphs(page)
    # Replaced one by one, so that a position in the text stays PDFium's own. Since pypdfium2 5 a hyphen is U+FFFE.
    text = page.get_text_range().replace("\r", " ").replace("\ufffe", HYPHEN)
    text = _NOTE_MARK.sub(lambda match: _note_mark(glyphs, text, match), text)
    text = _FIGURE.sub(lambda match: _power(glyphs, match), text)
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
        gaps: list[tuple[float, float]] = []
        if tail.right - head.left > _LOOSE * size * len(body):
            body, gaps = _cells(glyphs, body, first, size)
        elif len(body) > _LONG:
            dense.append((len(lines), first))
        lines.append([body, head.left, tail.right, base, size, bold, head.slanted, gaps])
        places.append(first)
        outside.append(_outside(head, box) and _outside(tail, box))
    _find_columns(glyphs, lines, dense)
    mended = _put_spaces(glyphs, lines, places)
    if all(outside):  # then the page is measured wrongly
        outside = [False] * len(lines)
    hidden = [line[0] for line, beyond in zip(lines, outside, strict=True) if beyond]
    return {"lines": list(compress(lines, map(not_, outside))), "hidden": hidden, "mended": mended}


def _put_spaces(glyphs: Glyphs, lines: list[list[Any]], places: Sequence[int]) -> list[tuple[str, str]]:
    """Put spaces where words stand apart and PDFium saw none; the texts before and after.

    It shows by words that are too long; where one of them was several words, all lines of the page are looked at.
    """
    if not any(_TOO_LONG.search(line[0]) and _spaced(glyphs, line, at) for line, at in zip(lines, places, strict=True)):
        return []
    mended = []
    for line, at in zip(lines, places, strict=True):
        if text := _spaced(glyphs, line, at):
            mended.append((str(line[0]), text))
            line[0] = text
    return mended


def _spaced(glyphs: Glyphs, line: Sequence[Any], first: int) -> str:
    """The text of a line with a space at each gap between letters, or "" where nothing is to be changed."""
    body, size = line[0], line[4]
    beside = [at for at in range(1, len(body)) if not (body[at - 1].isspace() or body[at].isspace())]
    wide = {at for at in beside if glyphs.at(first + at).left - glyphs.at(first + at - 1).right > _LETTERS_APART * size}
    if not wide or len(wide) > 0.4 * len(beside):  # letters that are all set apart are one word
        return ""
    return "".join(f" {letter}" if at in wide else letter for at, letter in enumerate(body))


def _find_columns(glyphs: Glyphs, lines: list[list[Any]], dense: Sequence[tuple[int, int]]) -> None:
    """Mark the gaps in lines that run over two columns: a few lines tell whether it is worth asking all of them.

    `dense` are the places of lines whose width does not show a gap, and where each begins in the text.
    """
    sample = dense[:: max(len(dense) // _SAMPLE, 1)]
    found = sum(bool(_cells(glyphs, lines[at][0], first, _WIDE * lines[at][4])[1]) for at, first in sample)
    if found + sum(bool(line[-1]) for line in lines) < _ENOUGH:
        return
    for at, first in dense:
        body, gaps = _cells(glyphs, lines[at][0], first, _WIDE * lines[at][4])
        lines[at][0], lines[at][-1] = body, gaps


def _outside(glyph: Glyph, box: Box) -> bool:
    """Whether all of a character is beyond the edge of the page."""
    (x, y), size = glyph.center, glyph.size
    low, high = sorted((box[0], box[2])), sorted((box[1], box[3]))
    return not (low[0] - size < x < low[1] + size and high[0] - size < y < high[1] + size)


def _cells(glyphs: Glyphs, body: str, first: int, size: float) -> tuple[str, list[tuple[float, float]]]:
    """A line with its wide gaps as tabs, and where those are.

    PDFium writes one space between the cells of a table, or between columns, as it does between words.
    """
    spaces = [match.start() for match in re.finditer(r"(?<=\S) (?=\S)", body)]
    found = [(glyphs.at(first + at - 1).right, glyphs.at(first + at + 1).left) for at in spaces]
    least = 0.9 * size
    if len(found) > _FEW and sum(body[at + 1].islower() for at in spaces) > 0.5 * len(spaces):
        # Prose that is set to both edges may have wide spaces, but all of them are.
        least = max(least, min(1.6 * median(right - left for left, right in found), 2 * size))
    letters, gaps = list(body), []
    for at, (left, right) in zip(spaces, found, strict=True):
        if right - left > least and not _LABEL.fullmatch(body, 0, at):
            letters[at] = "\t"
            gaps.append((left, right))
    return "".join(letters), gaps


def _note_mark(glyphs: Glyphs, text: str, match: re.Match[str]) -> str:
    """Small raised digits become superscript letters; others stay."""
    first, last = match.span(1)
    at_start = first == 0 or text[first - 1] in "\n "
    beside = last if at_start else first - 1
    while beside < len(text) and text[beside] in " \n" and at_start:
        beside += 1
    if beside >= len(text):
        return match[0]
    mark, word = glyphs.at(first), glyphs.at(beside)
    return match[0].translate(_SUPERSCRIPT) if _raised(mark, word) else match[0]


def _power(glyphs: Glyphs, match: re.Match[str]) -> str:
    """Raised digits after a number (10⁶, or a note's mark after a year) become superscript letters."""
    first, last = match.span()
    number = glyphs.at(first)
    if not _raised(glyphs.at(last - 1), number):
        return match[0]
    start = next(at for at in range(first, last) if _raised(glyphs.at(at), number))
    return match[0][: start - first] + match[0][start - first :].translate(_SUPERSCRIPT)


def _raised(mark: Glyph, beside: Glyph) -> bool:
    return mark.size < 0.85 * beside.size and beside.base + 0.1 * beside.size < mark.base < beside.base + beside.size
