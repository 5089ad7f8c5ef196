"""Repairs of the lines of a document: each a function from pages to repaired pages and the list of its edits.

None changes what a page says: they remove what is printed around the text, rejoin what line and page breaks divide,
and replace characters that only a printer needs.
"""

from __future__ import annotations

from collections.abc import Callable

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import Pages, Repaired
from specextend_cli.documents.repairs.characters import characters
from specextend_cli.documents.repairs.hyphens import drop_caps, hyphens
from specextend_cli.documents.repairs.line_numbers import line_numbers
from specextend_cli.documents.repairs.notes import interruptions, note_marks
from specextend_cli.documents.repairs.order import columns, list_markers, reading_order, side_headings
from specextend_cli.documents.repairs.rows import empty_cells, rows, wrapped_cells
from specextend_cli.documents.repairs.running import running_lines

_ORDER: tuple[Callable[[Pages], Repaired], ...] = (
    *(
        line_numbers,
        list_markers,
        wrapped_cells,
        columns,
        characters,
        drop_caps,
        rows,
        empty_cells,
        running_lines,
    ),
    *(side_headings, reading_order, interruptions, note_marks, hyphens),
)
"""Each repair relies on those before it."""


def repair_pages(pages: Pages) -> Repaired:
    """The repaired pages, and all edits."""
    edits: list[Edit] = []
    for repair in _ORDER:
        pages, made = repair(pages)
        edits += made
    return [list(page) for page in pages], edits
