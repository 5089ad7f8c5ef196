"""Running heads that repeat a heading of an earlier page: those of chapters too short for a head to recur."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from specextend_cli.documents.line import Line, Pages, runs
from specextend_cli.documents.repairs.page_numbers import ALONE, modulo_digits

_LARGER = 1.04  # of the body size
_SAME_SIZE = 0.5  # points
_STEP = 1.6  # sizes between the base lines of a heading
_HEIGHT = 4.0  # points between heads of different pages
_LINES = 3  # of a heading
_LETTERS = 4


def chapter_heads(pages: Pages, tops: Iterable[Sequence[Line]], body: float) -> list[Line]:
    """The heads among the highest lines of the pages (`tops`), which are in the order of the pages.

    They are set like text or smaller, are equal to an earlier heading but for digits and case, and other pages have
    such heads at their height.
    """
    found: list[list[Line]] = []
    known = set[str]()
    for page, top in zip(pages, tops, strict=True):
        lines = [line for line in top if not ALONE.fullmatch(modulo_digits(line.text))]
        if lines and not _is_heading(lines[0], body):
            heads = (lines[:count] for count in range(1, 1 + _LINES))
            found += [head for head in heads if _key(head) in known][:1]
        for heading in _headings(page, body):
            known.add(_key(heading))
        known.discard("")
    heights = [(head[0].page, head[0].base) for head in found]
    return [
        line
        for head in found
        if any(page != head[0].page and abs(base - head[0].base) < _HEIGHT for page, base in heights)
        for line in head
    ]


def _key(lines: Iterable[Line]) -> str:
    """The letters of a heading; empty where they are too few."""
    letters = "".join(filter(str.isalpha, "".join(line.text for line in lines).casefold()))
    return letters if len(letters) >= _LETTERS else ""


def _is_heading(line: Line, body: float) -> bool:
    """True if a line is set in larger type than text, or in bold type of its size."""
    return line.size > _LARGER * body or (line.bold and line.size > body / _LARGER)


def _headings(page: Sequence[Line], body: float) -> Iterator[list[Line]]:
    """The headings of a page, each with its lines."""
    large = (line for line in sorted(page, key=lambda line: -line.base) if _is_heading(line, body))
    return runs(
        large,
        lambda heading, line: (
            heading[-1].base - line.base < _STEP * line.size
            and abs(heading[-1].size - line.size) < _SAME_SIZE
            and len(heading) < _LINES
        ),
    )
