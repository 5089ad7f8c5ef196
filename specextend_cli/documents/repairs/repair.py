"""What a repair is: a function from pages of lines to pages of lines and the list of its edits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import Line

Pages = Sequence[Sequence[Line]]
Repaired = tuple[list[list[Line]], list[Edit]]
Repair = Callable[[Pages], Repaired]


def weight(line: Line) -> int:
    """Letters and digits of a line: what a page loses with it."""
    return sum(map(str.isalnum, line.text))
