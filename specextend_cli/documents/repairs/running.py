"""Remove what returns from page to page: running heads, running feet, page numbers, and slanted words (DRAFT).

Page numbers are numbers at the edge that increase with the pages, and have no other label.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from statistics import median
from typing import NamedTuple

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import Line, Pages, body_size
from specextend_cli.documents.repairs.page_numbers import ALONE, beside_title, is_labelled, modulo_digits, numbered

KEPT = "running head kept"
"""Kind of an edit without effect: recurring lines that are too much of their pages to be running heads."""
_EDGE = 4
_LARGE = 1.2  # of the body size: a title
_LARGER = 1.04  # of the body size: a heading
_LETTERS = 4  # of a heading
_STEADY = 4  # points between the heights of the heads of left and right pages
_MOST_PAGES = 0.5  # of the pages: on so many, the numbers beside titles are page numbers
_MAX_SHARE = 0.3  # of the letters and digits of a page: running heads without page numbers hardly ever have more
_FEW_PAGES = 3
_NUMBERED = re.compile(r"[a-z]{1,2}\. ?#|[^\w\s]+$")  # "No. 7", and rules of underscores or dashes

Edges = Sequence[tuple[str, list[Line]]]
"""The lines at the "top" and "bottom" of all pages, and those "across" them: see `_edges`."""


def running_lines(pages: Pages, edits: list[Edit]) -> list[list[Line]]:
    """Remove lines that recur at the edge of several pages and differ in nothing but their page numbers.

    Where they are more than a small share of their pages, they are the text: they stay, and are listed as `KEPT`.
    """
    edges: Edges = [edge for page in pages for edge in _edges(page)]
    statistics = _Statistics(pages)
    groups = [*_running(edges, statistics), *_counting(edges, statistics), *_repeated(pages, edges, statistics)]
    groups.append(_Group(_chapter_heads(pages, edges, statistics.body), alone=False))
    before = _lines_to_remove(edges, groups)
    shares = _shares(pages, before - {id(line) for group in groups if group.alone for line in group.lines})
    small = [g for g in groups if g.alone or not g.lines or median(shares[line.page] for line in g.lines) <= _MAX_SHARE]
    removed = _lines_to_remove(edges, small)
    if all(line.size == 1 and id(line) in removed for page in pages for line in page):
        removed = set()  # a text file of numbers; a PDF of them is a scan with page numbers
    for page in pages:
        for line in page:
            if id(line) in removed:
                edits.append(Edit(_running_kind(line, page), line.page, line.text))
            elif id(line) in before:
                edits.append(Edit(KEPT, line.page, line.text, line.text))
    return [[line for line in page if id(line) not in removed] for page in pages]


class _Group(NamedTuple):
    """Lines that recur at one edge; `alone`: they are page numbers and nothing else."""

    lines: list[Line]
    alone: bool


class _Statistics:
    """The number of pages, and their body size."""

    def __init__(self, pages: Pages) -> None:
        self.pages = sum(map(bool, pages))
        self.body = body_size(line for page in pages for line in page)

    def recurs(self, lines: Sequence[Line]) -> bool:
        """True if lines are on enough pages."""
        return len({line.page for line in lines}) >= max(3, 0.04 * self.pages)

    def is_large(self, line: Line) -> bool:
        """True if it is a title by its size."""
        return line.size > _LARGE * self.body and not line.slanted

    def key(self, line: Line) -> str:
        """What must recur: the line without its digits, which differ in a title ("Chapter 3")."""
        key = modulo_digits(line.text)
        return " ".join(line.text.split()) if self.is_large(line) and not ALONE.fullmatch(key) else key


def _running(edges: Edges, statistics: _Statistics) -> Iterator[_Group]:
    """The groups of recurring lines, without the first line of a title, which later pages repeat."""
    returning: defaultdict[tuple[str, str], list[Line]] = defaultdict(list)
    for where, lines in edges:
        for line in lines:
            returning[where, statistics.key(line)].append(line)
    for (_, key), found in returning.items():
        for group in _same(_steady(found), key, statistics):
            alone = ALONE.fullmatch(key) is not None
            yield _Group(group[statistics.is_large(group[0]) and not alone :], alone)


def _counting(edges: Edges, statistics: _Statistics) -> Iterator[_Group]:
    """Outermost lines that count the pages, whatever stands beside their numbers: the heads of short chapters.

    At least one number stands alone, or one title returns: headings that are numbered have neither. In a short document
    two numbers are enough that are those of their pages.
    """
    outermost: defaultdict[str, defaultdict[int, list[Line]]] = defaultdict(lambda: defaultdict(list))
    for where, lines in edges:
        if lines and lines[0].size != 1:
            number = beside_title(lines[0].text)
            if number is not None and not is_labelled(lines[0].text.rstrip(" -–—|])")):
                outermost[where][number - lines[0].page].append(lines[0])
    for counts in outermost.values():
        difference, lines = max(counts.items(), key=lambda found: len(found[1]))
        steady = _steady(lines)
        keys = Counter(modulo_digits(line.text) for line in steady)
        evident = any(count > 1 or ALONE.fullmatch(key) for key, count in keys.items())
        least = 2 if difference == 0 and all(map(ALONE.fullmatch, keys)) else 3
        if evident and len(steady) >= max(least, _MOST_PAGES * statistics.pages):
            yield _Group(steady, all(map(ALONE.fullmatch, keys)))


def _repeated(pages: Pages, edges: Edges, statistics: _Statistics) -> Iterator[_Group]:
    """In a document of two or three pages, lines that return in one place: the first head and the last foot stay."""
    if statistics.pages > _FEW_PAGES or statistics.body == 1:
        return
    places: defaultdict[tuple[str, str, int], list[Line]] = defaultdict(list)
    for where, lines in edges:
        for line in lines[:_EDGE]:
            if not statistics.is_large(line):
                places[where, " ".join(line.text.split()), round(line.base / 4)].append(line)
    groups = [
        _Group(found[where == "top" : len(found) - (where == "bottom")], alone=False)
        for (where, _, _), found in places.items()
        if len(found) > 1
    ]
    shares = _shares(pages, {id(line) for group in groups for line in group.lines})
    yield from (group for group in groups if all(shares[line.page] <= _MAX_SHARE for line in group.lines))


def _chapter_heads(pages: Pages, edges: Edges, body: float) -> list[Line]:
    """Lines at the top that repeat a heading of an earlier page, or a part of it, as other pages do at that height."""
    heads: list[list[Line]] = []
    known = ""
    for page, lines in zip(pages, (lines[:_EDGE] for where, lines in edges if where == "top"), strict=True):
        small = takewhile(lambda line: not _is_heading(line, body), lines)
        letters = [(line, _letters(line)) for line in small]
        heads.append([line for line, said in letters if len(said) >= _LETTERS and said in known])
        known += "".join(_letters(line) for line in page if _is_heading(line, body)) + "\n"
    heights = Counter(round(head[0].base / _STEADY) for head in heads if head)
    return [line for head in heads if head and heights[round(head[0].base / _STEADY)] > 1 for line in head]


def _is_heading(line: Line, body: float) -> bool:
    """True if a line is set in larger type than text, or in bold type of its size."""
    return line.size > _LARGER * body or (line.bold and line.size > body / _LARGER)


def _letters(line: Line) -> str:
    return "".join(filter(str.isalpha, line.text.casefold()))


def _same(lines: Sequence[Line], key: str, statistics: _Statistics) -> Iterator[list[Line]]:
    """Of lines that differ in digits only, those that differ in page numbers only, if they are enough."""
    if not statistics.recurs(lines):
        return
    marked = numbered(lines)
    in_step = [line for line, text in zip(lines, marked, strict=True) if text is not None]
    counted = statistics.recurs(in_step)
    if ALONE.fullmatch(key):
        if counted:
            yield in_step
        return
    if sum(map(str.isalpha, key)) <= 2 and (len({line.text for line in lines}) > 1 or not _NUMBERED.match(key)):
        return
    texts: defaultdict[tuple[bool, str], list[Line]] = defaultdict(list)
    for line, text in zip(lines, marked, strict=True):
        counts = counted and text is not None
        texts[counts, " ".join((text if counts and text else line.text).split())].append(line)
    yield from filter(statistics.recurs, texts.values())


def _lines_to_remove(edges: Edges, groups: Iterable[_Group]) -> set[int]:
    """The ids of the lines to be removed: running lines, from the edge inward."""
    running = {id(line) for group in groups for line in group.lines}
    removed: set[int] = set()
    for _, lines in edges:
        inward = list(takewhile(lambda line: id(line) in running, lines[:_EDGE]))
        removed.update(id(line) for line in _apart(inward, lines))
    return removed


def _shares(pages: Pages, removed: set[int]) -> dict[int, float]:
    """The share of letters and digits that each page loses, by its number."""
    shares = {}
    for page in filter(None, pages):
        lost = sum(line.weight for line in page if id(line) in removed)
        shares[page[0].page] = lost / max(sum(line.weight for line in page), 1)
    return shares


def _edges(page: Sequence[Line]) -> Iterable[tuple[str, list[Line]]]:
    """The highest and the lowest lines of a page, from the edge inward; the last one is for comparison only.

    They are sorted by height, as a running foot often comes first in the file. Slanted lines are watermarks.
    """
    highest = sorted(page, key=lambda line: -line.base)
    yield "top", highest[: _EDGE + 1]
    yield "bottom", highest[: -_EDGE - 2 : -1]
    yield "across", [line for line in page if line.slanted]


def _apart(found: list[Line], lines: Sequence[Line]) -> list[Line]:
    """Those of the first `lines` that are set apart from the text, which may begin or end alike too."""
    while found and len(found) < len(lines):
        line, behind = found[-1], lines[len(found)]
        if abs(line.base - behind.base) > 1.5 * line.size or abs(line.size - behind.size) > 0.04 * line.size:
            break
        found.pop()
    return found


def _steady(lines: Sequence[Line]) -> list[Line]:
    """Those of the lines that are at one height (left and right pages may differ a little)."""
    if not lines or lines[0].size == 1:
        return list(lines)
    middle = median(line.base for line in lines)
    return [line for line in lines if abs(line.base - middle) < _STEADY]


def _running_kind(line: Line, page: Sequence[Line]) -> str:
    if line.slanted:
        return "watermark"
    if ALONE.fullmatch(modulo_digits(line.text)):
        return "page number"
    heights = [other.base for other in page]
    return "running head" if line.base > (max(heights) + min(heights)) / 2 else "running foot"
