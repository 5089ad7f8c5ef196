"""A line of text with its position on the page: what readers produce and what the repairs work on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from typing import NamedTuple, TypeVar

from specextend_cli.documents.document import Edit

T = TypeVar("T")

HYPHEN = "\x02"
"""Ends a line whose last word continues in the next line, where the reader knows it (PDFium marks it)."""

EMPTY_CELL = "—"
"""Stands for an empty cell before other cells of its row, so that columns do not shift."""

CELL_SEPARATOR = "  "
"""Separates the cells of a row once its characters are repaired."""

SUPERSCRIPT_LETTERS = "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ"
"""Superscripts of "abcdefghijklmnoprstuvwxyz"."""
_RAISED = str.maketrans("0123456789+-−–abcdefghijklmnoprstuvwxyz", f"⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻{SUPERSCRIPT_LETTERS}")
_PLAIN = str.maketrans(f"⁰¹²³⁴⁵⁶⁷⁸⁹{SUPERSCRIPT_LETTERS}", "0123456789abcdefghijklmnoprstuvwxyz")


class Line(NamedTuple):
    """One line of text. `left`, `right`, `base` (baseline above the foot of the page) and `size` share one unit.

    In a PDF the unit is the point. A plain text is a grid of characters: columns across, rows counted downward from 0
    (so `base` is negative), and `size` is 1. A `slanted` line is neither horizontal nor vertical.
    `gaps`: left and right ends of the wide spaces that are tabs in the text. `turn`: direction of the text in quarter
    turns counterclockwise; the positions are measured as if the page were turned.
    """

    text: str
    page: int
    left: float
    right: float
    base: float
    size: float = 1.0
    bold: bool = False
    slanted: bool = False
    gaps: Sequence[tuple[float, float]] = ()
    turn: int = 0

    @property
    def em(self) -> float:
        """Width of an average character."""
        return (self.right - self.left) / max(len(self.text), 1)

    @property
    def weight(self) -> int:
        """Number of letters and digits: what a page loses with the line."""
        return sum(map(str.isalnum, self.text))


Pages = Sequence[Sequence[Line]]
"""The lines of each page, in reading order as far as it is known."""

Repair = Callable[[Pages, list[Edit]], list[list[Line]]]
"""From pages to repaired pages; the edits that it makes are added to the list."""


def page_by_page(repair: Callable[[Sequence[Line], list[Edit]], list[Line]]) -> Repair:
    """A repair of pages from one of a single page."""

    @wraps(repair)
    def repaired(pages: Pages, edits: list[Edit]) -> list[list[Line]]:
        return [repair(page, edits) for page in pages]

    return repaired


def lines_of_text(text: str, page: int) -> list[Line]:
    """The lines of one page of plain text. Blank lines leave a gap only."""
    lines = []
    for row, raw in enumerate(text.split("\n")):
        expanded = raw.rstrip().expandtabs(8)
        if body := expanded.lstrip():
            raw = raw.replace(HYPHEN, "\x01")  # in a text it is a control character, not our mark
            lines.append(Line(raw.strip(), page, len(expanded) - len(body), len(expanded), -row))
    return lines


def pieces(line: Line) -> list[Line]:
    """The cells of a line, each with its place; the line where the places are not known."""
    if not line.gaps:
        return [line]
    texts = line.text.split("\t" if "\t" in line.text else CELL_SEPARATOR)
    edges = [line.left, *(edge for gap in line.gaps for edge in gap), line.right]
    if len(edges) != 2 * len(texts):
        return [line]
    places = zip(texts, edges[::2], edges[1::2], strict=True)
    return [line._replace(text=text.strip(), left=left, right=right, gaps=()) for text, left, right in places]


def raised(text: str) -> str:
    """The digits and letters of a text as superscripts."""
    return text.translate(_RAISED)


def plain(text: str) -> str:
    """A text without superscripts."""
    return text.translate(_PLAIN)


def body_size(lines: Iterable[Line]) -> float:
    """The type size that most characters have; 1 without lines."""
    sizes = Counter[float]()
    for line in lines:
        sizes[line.size] += len(line.text)
    return max(sizes, key=sizes.__getitem__, default=1.0)


def runs(items: Iterable[T], continues: Callable[[list[T], T], object]) -> Iterator[list[T]]:
    """Split a sequence into runs: an item belongs to the run before it when `continues(run, item)`."""
    run: list[T] = []
    for item in items:
        if run and not continues(run, item):
            yield run
            run = []
        run.append(item)
    if run:
        yield run
