"""`tidy`: all repairs of printed pages.

None of them changes what a page says: they remove what is printed around the text, put back together what the line
end took apart, and replace characters that only a printer needs.
"""

from __future__ import annotations

from collections.abc import Sequence

from specextend_cli.documents.document import Edit, Sheet
from specextend_cli.documents.line import HYPHEN, Line
from specextend_cli.documents.repairs.captions import captions
from specextend_cli.documents.repairs.characters import characters
from specextend_cli.documents.repairs.columns import columns
from specextend_cli.documents.repairs.empty_cells import empty_cells
from specextend_cli.documents.repairs.footnotes import note_marks
from specextend_cli.documents.repairs.headers_footers import running_lines
from specextend_cli.documents.repairs.hyphens import hyphens
from specextend_cli.documents.repairs.initials import initials
from specextend_cli.documents.repairs.line_numbers import line_numbers
from specextend_cli.documents.repairs.margins import side_headings
from specextend_cli.documents.repairs.reading_order import reading_order
from specextend_cli.documents.repairs.repair import Pages, Repair, Repaired
from specextend_cli.documents.repairs.rows import rows
from specextend_cli.documents.repairs.watermarks import watermarks

_ORDER: tuple[Repair, ...] = (
    *(watermarks, line_numbers, columns, characters, initials, rows, empty_cells, running_lines, side_headings),
    *(reading_order, captions, note_marks, hyphens),
)
"""Each sees what it needs of those before it."""


def tidy(pages: Pages) -> Repaired:
    """The repaired pages, and what was changed on the way."""
    edits: list[Edit] = []
    for repair in _ORDER:
        pages, made = repair(pages)
        edits += made
    return [list(page) for page in pages], edits


def sheet(number: int, found: Sequence[Line], cleaned: Sequence[Line]) -> Sheet:
    """Both states of a page, side by side."""
    before = (line.text.replace(HYPHEN, "-").replace("\t", "  ") for line in found)
    return Sheet(number, tuple(before), tuple(line.text for line in cleaned))
