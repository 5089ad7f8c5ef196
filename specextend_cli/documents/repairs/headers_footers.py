"""Running heads and feet and page numbers go."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import Line
from specextend_cli.documents.repairs.page_numbers import is_alone, modulo_digits, numbered
from specextend_cli.documents.repairs.repair import Pages, Repaired, weight

KEPT = "running head kept"
"""The kind of an edit that changes nothing: a line that returns and is too large a part of its pages to be a head."""
_EDGE = 4
_SMALL = 0.3  # of the letters and digits of a page: running heads, page numbers aside, hardly ever have more
_SAMPLE = 200  # pages that are enough to tell where running heads stand
_FIGURE = re.compile(r"\d{3}|\d[.,]\d|[$€£¥%]")  # a head names chapters, and no amounts
_PIECE = re.compile(r"\s{2,}|\s*[|•·]\s*|\s[–—]\s")

Edges = Sequence[Sequence[tuple[str, list[Line]]]]
"""For each page its "top" and "bottom": see `_edges`."""


def running_lines(pages: Pages) -> Repaired:
    """Running heads and feet and page numbers: lines that return at the edge of several pages.

    They may differ in their page numbers and in no other digit. Where heads are more than a small share of the pages
    that they stand on, they are the text: they stay, and are listed as `KEPT`.
    """
    heights = _Heights(pages)
    edges: Edges = [list(_edges(page)) for page in pages]
    groups, titles = _running(edges, heights)
    gone = _gone(edges, groups, titles, heights)
    taken = gone
    shares = _shares(edges, pages, gone, groups)
    small = [group for group in groups if group.alone or median(shares[line.page] for line in group.lines) <= _SMALL]
    if len(small) < len(groups):
        gone = _gone(edges, small, titles, heights)
    if all(line.size == 1 and id(line) in gone for page in pages for line in page):
        gone = set()  # a text file of numbers: in a PDF they are the page numbers of a scan
    edits, fixed = [], []
    for page in pages:
        for line in page:
            if id(line) in gone:
                edits.append(Edit(_running_kind(line, page), line.page, line.text))
            elif id(line) in taken:
                edits.append(Edit(KEPT, line.page, line.text, line.text))
        fixed.append([line for line in page if id(line) not in gone])
    return fixed, edits


class _Group:
    """Lines that return: at which edge, and whether they are page numbers and nothing else."""

    def __init__(self, where: str, lines: list[Line], *, alone: bool) -> None:
        self.where, self.lines, self.alone = where, lines, alone


class _Heights:
    """How many pages there are, the size of their body text, and what counts as often."""

    def __init__(self, pages: Pages) -> None:
        numbers = [page[0].page for page in pages if page]
        self.pages = len(numbers)
        self.sample = frozenset(numbers[:: -(-len(numbers) // _SAMPLE) or 1])
        sizes = Counter[float]()
        for page in pages:
            for line in page:
                sizes[line.size] += len(line.text)
        self.body = sizes.most_common(1)[0][0] if sizes else 1.0

    def enough(self, lines: Sequence[Line]) -> float:
        # On a grid of characters a line has no height on paper to prove itself by: it must return more often.
        return max(3, (0.4 if not lines or lines[0].size == 1 else 0.04) * self.pages)

    def is_large(self, line: Line) -> bool:
        """Whether it is a title by its size; with a page number apart from its words it is none."""
        if line.size <= 1.2 * self.body:
            return False
        pieces = _PIECE.split(line.text)
        return len(pieces) == 1 or not any(is_alone(modulo_digits(pieces[at])) for at in (0, -1))

    def key(self, line: Line) -> str:
        """What must return: the line but for its digits, which in a title ("Chapter 3") make a difference."""
        return " ".join(line.text.split()) if self.is_large(line) else modulo_digits(line.text)

    def in_band(self, line: Line, removed: Sequence[Line]) -> bool:
        """Whether `line` stands where most pages have a running line: then it is one, unless it has figures.

        `removed` are the running lines of the sample.
        """
        if line.size == 1 or len(line.text) > 120 or _FIGURE.search(line.text):
            return False
        near = [other for other in removed if abs(other.base - line.base) < 2 and abs(other.size - line.size) < 1]
        return len({other.page for other in near}) > 0.6 * len(self.sample)


def _running(edges: Edges, heights: _Heights) -> tuple[list[_Group], set[int]]:
    """The groups of lines that return, and the ids of titles that later pages repeat."""
    returning: defaultdict[tuple[str, str], list[Line]] = defaultdict(list)
    for page in edges:
        for where, lines in page:
            for line in lines:
                returning[where, heights.key(line)].append(line)
    groups: list[_Group] = []
    titles: set[int] = set()
    for (where, key), found in returning.items():
        for lines in _same(_steady(found), key, heights):
            if heights.is_large(lines[0]):
                titles.add(id(lines.pop(0)))
            groups.append(_Group(where, lines, alone=is_alone(key)))
    return groups, titles


def _same(lines: Sequence[Line], key: str, heights: _Heights) -> Iterator[list[Line]]:
    """Those of the lines, which are alike but for digits, that differ in page numbers at most, and are enough."""
    if len({line.page for line in lines}) < heights.enough(lines):
        return
    marked = numbered(lines)
    in_step = [line for line, text in zip(lines, marked, strict=True) if text is not None]
    counted = len({line.page for line in in_step}) >= heights.enough(lines)
    if is_alone(key):
        if counted:
            yield in_step
        return
    if sum(map(str.isalpha, key)) <= 2:
        return
    texts: defaultdict[tuple[bool, str], list[Line]] = defaultdict(list)
    for line, text in zip(lines, marked, strict=True):
        counts = counted and text is not None
        texts[counts, " ".join((text if counts and text else line.text).split())].append(line)
    for (counts, _), found in texts.items():
        # A line that counts the pages proves itself on fewer of them: the head of a chapter, say.
        if len({line.page for line in found}) >= (3 if counts else heights.enough(lines)):
            yield found


def _gone(edges: Edges, groups: Iterable[_Group], titles: set[int], heights: _Heights) -> set[int]:
    """The ids of the lines to be removed: running lines from the edge inward."""
    running: set[int] = set()
    bands: defaultdict[str, list[Line]] = defaultdict(list)
    for group in groups:
        running.update(map(id, group.lines))
        bands[group.where] += (line for line in group.lines if line.page in heights.sample)
    gone: set[int] = set()
    for page in edges:
        for where, lines in page:
            inward: list[Line] = []
            for line in lines[:_EDGE]:
                if id(line) in titles or not (id(line) in running or heights.in_band(line, bands[where])):
                    break
                inward.append(line)
            gone.update(id(line) for line in _apart(inward, lines))
    return gone


def _shares(edges: Edges, pages: Pages, gone: set[int], groups: Iterable[_Group]) -> dict[int, float]:
    """What share of its letters and digits each page loses, by the number of the page; page numbers do not count."""
    counts = {id(line) for group in groups if group.alone for line in group.lines}
    lost = Counter[int]()
    for page in edges:
        removed = {id(line): line for _, lines in page for line in lines if id(line) in gone and id(line) not in counts}
        for line in removed.values():
            lost[line.page] += weight(line)
    return {page[0].page: lost[page[0].page] / max(sum(map(weight, page)), 1) for page in pages if page}


def _edges(page: Sequence[Line]) -> Iterable[tuple[str, list[Line]]]:
    """The highest and the lowest lines of a page, from the edge inward; the last is only to compare with.

    They are sorted by height because the order in the file is any: a foot often comes first.
    """
    highest = sorted(page, key=lambda line: -line.base)
    yield "top", highest[: _EDGE + 1]
    yield "bottom", highest[: -_EDGE - 2 : -1]


def _apart(found: list[Line], lines: Sequence[Line]) -> list[Line]:
    """Those of the first `lines` that stand apart from the text behind them: a text may begin or end alike too."""
    while found and len(found) < len(lines):
        line, behind = found[-1], lines[len(found)]
        if abs(line.base - behind.base) > 1.5 * line.size or abs(line.size - behind.size) > 0.04 * line.size:
            break
        found.pop()
    return found


def _steady(lines: Sequence[Line]) -> list[Line]:
    """Those of the lines that stand at one height (left and right pages may differ a little)."""
    if not lines or lines[0].size == 1:
        return list(lines)
    middle = median(line.base for line in lines)
    return [line for line in lines if abs(line.base - middle) < 4]


def _running_kind(line: Line, page: Sequence[Line]) -> str:
    if is_alone(modulo_digits(line.text)):
        return "page number"
    heights = [other.base for other in page]
    return "running head" if line.base > (max(heights) + min(heights)) / 2 else "running foot"
