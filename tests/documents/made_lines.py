"""Lines of printed pages as the reader of PDFs gives them, for tests of repairs."""

from __future__ import annotations

from itertools import pairwise

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import Line, Pages, Repair


def at(text: str, base: float, *, left: float = 72, size: float = 10, page: int = 1, **more: object) -> Line:
    """A line whose characters are half as wide as they are high."""
    return Line(text, page, left, left + 0.5 * size * len(text), base, size, **more)  # type: ignore[arg-type]


def row(base: float, *cells: tuple[float, str]) -> Line:
    """One line with wide gaps before each cell but the first."""
    ends = [(left + 5 * len(text), following) for (left, text), (following, _) in pairwise(cells)]
    line = at("\t".join(text for _, text in cells), base, left=cells[0][0], gaps=tuple(ends))
    return line._replace(right=cells[-1][0] + 5 * len(cells[-1][1]))


def prose(letter: str, base: float, count: int, *, left: float = 72) -> list[Line]:
    return [at(f"line {n} of the text {letter}", base - 12 * n, left=left) for n in range(count)]


def repaired(repair: Repair, pages: Pages) -> tuple[list[list[Line]], list[Edit]]:
    edits: list[Edit] = []
    return repair(pages, edits), edits


def texts(pages: list[list[Line]]) -> list[str]:
    return [line.text for page in pages for line in page]
