"""List markers: put the bullets and numbers that are drawn apart from their items in front of them.

WeasyPrint draws all markers of a list after its text, so that in the order of the file they follow the page.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import Line, page_by_page

_MARKER = re.compile(r"[•●▪■□◦‣∙○➢✓▸–—*-]|[(\[]?(?:\d{1,3}|[a-zA-Z]|[ivxlcIVXLC]{2,6})[.)\]]")
_NEAR = 2.5  # sizes from a marker to its item
_LEVEL = 0.1  # sizes between their base lines
_MOST = 4  # lines at one height that are closely to the right of a marker


@page_by_page
def list_markers(page: Sequence[Line], edits: list[Edit]) -> list[Line]:
    """Move each marker that is a line of its own before the line closely to the right of it."""
    markers = [at for at, line in enumerate(page) if _MARKER.fullmatch(line.text)]
    if not markers:
        return list(page)
    rows = defaultdict[int, list[int]](list)  # the places of the other lines by their height, from left to right
    for at in sorted(set(range(len(page))).difference(markers), key=lambda at: page[at].left):
        for height in range(-1, 2):
            rows[round(page[at].base) + height].append(at)
    moved: dict[int, int] = {}  # from the place of a line to that of its marker
    for at in markers:
        marker, row = page[at], rows[round(page[at].base)]
        first = bisect_right(row, marker.right, key=lambda place: page[place].left)
        item = next((place for place in row[first : first + _MOST] if _is_beside(marker, page[place])), at + 1)
        if item != at + 1 and item not in moved:
            moved[item] = at
            edits.append(Edit("list marker", marker.page, marker.text, f"{marker.text} {page[item].text}"))
    rest = set(range(len(page))).difference(moved.values())
    return [page[place] for at in sorted(rest) for place in ((moved[at], at) if at in moved else (at,))]


def _is_beside(marker: Line, line: Line) -> bool:
    level = abs(marker.base - line.base) < _LEVEL * marker.size and marker.turn == line.turn
    return level and line.left - marker.right < _NEAR * marker.size
