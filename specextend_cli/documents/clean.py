"""`tidy`: all repairs of printed pages.

None of them changes what a page says: they remove what is printed around the text, put back together what the line
end took apart, and replace characters that only a printer needs.
"""

from __future__ import annotations

from specextend_cli.documents.document import Edit
from specextend_cli.documents.repairs.characters import characters
from specextend_cli.documents.repairs.hyphens import hyphens
from specextend_cli.documents.repairs.margins import side_headings
from specextend_cli.documents.repairs.notes import note_marks
from specextend_cli.documents.repairs.repair import Pages, Repair, Repaired
from specextend_cli.documents.repairs.rows import rows
from specextend_cli.documents.repairs.running import running_lines

_ORDER: tuple[Repair, ...] = (characters, rows, running_lines, side_headings, note_marks, hyphens)
"""Each sees what it needs of those before it."""


def tidy(pages: Pages) -> Repaired:
    """The repaired pages, and what was changed on the way."""
    edits: list[Edit] = []
    for repair in _ORDER:
        pages, made = repair(pages)
        edits += made
    return [list(page) for page in pages], edits
