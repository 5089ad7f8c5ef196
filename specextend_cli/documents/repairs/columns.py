"""Put the columns of a page that a file holds row by row one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import Line, page_by_page, pieces, runs

_MAX_LINES = 500  # on a page: with more it is no page of prose
_MAX_GAPS = 2_000  # on a page: each is compared with all lines
_ENOUGH = 5  # rows with text on both sides
_NEAR = 2.0  # sizes: how much lower the next line of the other column may be
_GUTTER = 0.8  # its least width, in sizes


class _Row(NamedTuple):
    """A row of the page: its lines in the order of the file, and their pieces from left to right."""

    lines: tuple[Line, ...]
    pieces: tuple[Line, ...]


@page_by_page
def columns(page: Sequence[Line], edits: list[Edit]) -> list[Line]:
    """Read prose on both sides of a vertical gap over several rows one side after the other."""
    if not page or len(page) > _MAX_LINES or sum(len(line.gaps) for line in page) > _MAX_GAPS:
        return list(page)
    rows = runs(page, lambda row, line: abs(line.base - row[-1].base) < 0.3 * line.size)
    found: list[Edit] = []
    arranged = [line for row in _arranged([_row(row) for row in rows], found) for line in row.lines]
    edits += found
    return arranged if found else list(page)


def _row(lines: Sequence[Line]) -> _Row:
    found = (piece for line in lines for piece in pieces(line))
    return _Row(tuple(lines), tuple(sorted(found, key=lambda piece: piece.left)))


def _arranged(rows: Sequence[_Row], edits: list[Edit]) -> list[_Row]:
    """The rows in reading order, with those of columns split."""
    result: list[_Row] = []
    at = 0
    while at < len(rows):
        gaps = [(a.right, b.left) for a, b in pairwise(_beginning(rows, at))]
        end, gutter = max((_run(rows, at, gap) for gap in gaps), default=(at, 0.0))
        left, right = _sides(rows[at:end], gutter)
        if end == at or not (_is_prose(left) and _is_prose(right)):
            result.append(rows[at])
            at += 1
            continue
        first = rows[at].pieces[0]
        edits.append(Edit("column", first.page, first.text, first.text))
        result += _arranged(left, edits) + _arranged(right, edits)
        at = end
    return result


def _beginning(rows: Sequence[_Row], at: int) -> Sequence[Line]:
    """The pieces of a row from left to right; of a row with one piece also the one beside it, a little lower."""
    found = rows[at].pieces
    below = rows[at + 1].pieces[0] if at + 1 < len(rows) else None
    if len(found) == 1 and below and abs(found[0].base - below.base) <= _NEAR * found[0].size:
        return sorted((*found, below), key=lambda piece: piece.left)
    return found


def _run(rows: Sequence[_Row], start: int, gap: tuple[float, float]) -> tuple[int, float]:
    """The end of the rows around the gutter that begins in `gap` of row `start`, and the middle of the gutter."""
    low, high = gap
    end, both, middle = start, 0, 0.0
    for at in range(start, len(rows)):
        pieces = rows[at].pieces
        left = [piece for piece in pieces if piece.left < (low + high) / 2]
        low = max([low, *(piece.right for piece in left)])
        high = min([high, *(piece.left for piece in pieces if piece.left >= (low + high) / 2)])
        if high - low < _GUTTER * rows[start].pieces[0].size:
            break
        both += 0 < len(left) < len(pieces)
        end, middle = at + 1, (low + high) / 2
    return (end, middle) if both >= _ENOUGH else (start, 0.0)


def _sides(rows: Sequence[_Row], gutter: float) -> Iterator[list[_Row]]:
    """The rows to the left of a gutter, and those to the right of it."""
    left = [tuple(piece for piece in row.pieces if piece.left < gutter) for row in rows]
    right = [tuple(piece for piece in row.pieces if piece.left >= gutter) for row in rows]
    yield from ([_Row(row, row) for row in side if row] for side in (left, right))


def _is_prose(rows: Sequence[_Row]) -> bool:
    """True if lines continue in the next line, which table cells do not."""
    texts = [" ".join(piece.text for piece in row.pieces) for row in rows]
    going_on = sum(text[:1].isalpha() and not text[0].isupper() for text in texts[1:])
    return going_on >= 0.3 * (len(texts) - 1)
