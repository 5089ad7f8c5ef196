"""Remove what returns from page to page: running heads, running feet, page numbers; watermarks (DRAFT, CONFIDENTIAL).

Page numbers are numbers at the edge that increase with the pages, and have no other label.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import NamedTuple

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import Line, Pages, Repaired, body_size

KEPT = "running head kept"
"""Kind of an edit without effect: recurring lines that are too much of their pages to be running heads."""
KEPT_MARK = "watermark kept"
"""Kind of an edit without effect: slanted text that is too much of its pages to be a watermark."""
_MAX_SLANTED = 0.6  # of the letters and digits of a page that are a watermark
_EDGE = 4
_LARGE = 1.2  # of the body size: a title
_MOST_PAGES = 0.5  # of the pages: on so many, the numbers beside titles are page numbers
_MAX_SHARE = 0.3  # of the letters and digits of a page: running heads without page numbers hardly ever have more
_SAMPLE = 200  # pages that are enough to find the position of running heads
_FIGURE = re.compile(r"\d{3}|\d[.,]\d|[$€£¥%]")  # a running head names chapters, and no amounts
_PIECE = re.compile(r"\s{2,}|\s*[|•·]\s*|\s[–—]\s")

Edges = Sequence[tuple[str, list[Line]]]
"""The lines at the "top" and "bottom" of all pages: see `_edges`."""


def running_lines(pages: Pages) -> Repaired:
    """Remove lines that recur at the edge of several pages and differ in nothing but their page numbers.

    Where they are more than a small share of their pages, they are the text: they stay, and are listed as `KEPT`.
    """
    edges: Edges = [edge for page in pages for edge in _edges(page)]
    statistics = _Statistics(pages, edges)
    groups, titles = _running(edges, statistics)
    removed = _lines_to_remove(edges, groups, titles, statistics)
    before = removed
    shares = _shares(edges, pages, removed, groups)
    small = [g for g in groups if g.alone or median(shares[line.page] for line in g.lines) <= _MAX_SHARE]
    if len(small) < len(groups):
        removed = _lines_to_remove(edges, small, titles, statistics)
    if all(line.size == 1 and id(line) in removed for page in pages for line in page):
        removed = set()  # a text file of numbers; a PDF of them is a scan with page numbers
    edits, fixed = [], []
    for page in pages:
        for line in page:
            if id(line) in removed:
                edits.append(Edit(_running_kind(line, page), line.page, line.text))
            elif id(line) in before:
                edits.append(Edit(KEPT, line.page, line.text, line.text))
        fixed.append([line for line in page if id(line) not in removed])
    return fixed, edits


class _Group(NamedTuple):
    """Lines that recur at one edge; `alone`: they are page numbers and nothing else."""

    where: str
    lines: list[Line]
    alone: bool


class _Statistics:
    """The number of pages, their body size, the large lines that count them, and the thresholds that follow."""

    def __init__(self, pages: Pages, edges: Edges) -> None:
        numbers = [page[0].page for page in pages if page]
        self.pages = len(numbers)
        self.sample = frozenset(numbers[:: -(-len(numbers) // _SAMPLE) or 1])
        self.body = body_size(line for page in pages for line in page)
        counting: defaultdict[int, list[Line]] = defaultdict(list)  # by the difference of the number and the page
        for _, lines in edges:
            for line in lines if self.body != 1 else ():
                if line.size > _LARGE * self.body and (number := _beside_title(line.text)) is not None:
                    counting[number - line.page].append(line)
        steady = max(counting.values(), key=lambda lines: len({line.page for line in lines}), default=[])
        enough = len({line.page for line in steady}) >= max(3, _MOST_PAGES * self.pages)
        self._counting = {id(line) for line in steady} if enough else set()

    def enough(self, lines: Sequence[Line]) -> float:
        """On how many pages lines must recur; more in a text file, where they have no position on paper."""
        return max(3, (0.4 if not lines or lines[0].size == 1 else 0.04) * self.pages)

    def is_large(self, line: Line) -> bool:
        """True if it is a title by its size, unless a page number stands apart or beside the title."""
        if line.size <= _LARGE * self.body or id(line) in self._counting:
            return False
        pieces = _PIECE.split(line.text)
        return len(pieces) == 1 or not any(_ALONE.fullmatch(_modulo_digits(pieces[at])) for at in (0, -1))

    def key(self, line: Line) -> str:
        """What must recur: the line without its digits, which differ in a title ("Chapter 3")."""
        return " ".join(line.text.split()) if self.is_large(line) else _modulo_digits(line.text)

    def in_band(self, line: Line, removed: Sequence[Line]) -> bool:
        """True if `line` is at the position of the running lines of the sample (`removed`), and has no figures."""
        if line.size == 1 or len(line.text) > 120 or _FIGURE.search(line.text):
            return False
        near = [other for other in removed if abs(other.base - line.base) < 2 and abs(other.size - line.size) < 1]
        return len({other.page for other in near}) > 0.6 * len(self.sample)


def _running(edges: Edges, statistics: _Statistics) -> tuple[list[_Group], set[int]]:
    """The groups of recurring lines, and the ids of titles that later pages repeat."""
    returning: defaultdict[tuple[str, str], list[Line]] = defaultdict(list)
    for where, lines in edges:
        for line in lines:
            returning[where, statistics.key(line)].append(line)
    groups: list[_Group] = []
    titles: set[int] = set()
    for (where, key), found in returning.items():
        for group in _same(_steady(found), key, statistics):
            if statistics.is_large(group[0]):
                titles.add(id(group.pop(0)))
            groups.append(_Group(where, group, _ALONE.fullmatch(key) is not None))
    return groups, titles


def _same(lines: Sequence[Line], key: str, statistics: _Statistics) -> Iterator[list[Line]]:
    """Of lines that differ in digits only, those that differ in page numbers only, if they are enough."""
    if len({line.page for line in lines}) < statistics.enough(lines):
        return
    marked = _numbered(lines)
    in_step = [line for line, text in zip(lines, marked, strict=True) if text is not None]
    counted = len({line.page for line in in_step}) >= statistics.enough(lines)
    if _ALONE.fullmatch(key):
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
        # A line with page numbers needs fewer pages: the running head of a chapter, for example.
        if len({line.page for line in found}) >= (3 if counts else statistics.enough(lines)):
            yield found


def _lines_to_remove(edges: Edges, groups: Iterable[_Group], titles: set[int], statistics: _Statistics) -> set[int]:
    """The ids of the lines to be removed: running lines, from the edge inward."""
    running: set[int] = set()
    bands: defaultdict[str, list[Line]] = defaultdict(list)
    for group in groups:
        running.update(map(id, group.lines))
        bands[group.where] += (line for line in group.lines if line.page in statistics.sample)
    removed: set[int] = set()
    for where, lines in edges:
        inward: list[Line] = []
        for line in lines[:_EDGE]:
            if id(line) in titles or not (id(line) in running or statistics.in_band(line, bands[where])):
                break
            inward.append(line)
        removed.update(id(line) for line in _apart(inward, lines))
    return removed


def _shares(edges: Edges, pages: Pages, removed: set[int], groups: Iterable[_Group]) -> dict[int, float]:
    """The share of letters and digits that each page loses, by its number; page numbers do not count."""
    removed = removed - {id(line) for group in groups if group.alone for line in group.lines}
    lost = Counter[int]()
    for line in {id(line): line for _, lines in edges for line in lines if id(line) in removed}.values():
        lost[line.page] += line.weight
    return {page[0].page: lost[page[0].page] / max(sum(line.weight for line in page), 1) for page in pages if page}


def _edges(page: Sequence[Line]) -> Iterable[tuple[str, list[Line]]]:
    """The highest and the lowest lines of a page, from the edge inward; the last one is for comparison only.

    They are sorted by height, as a running foot often comes first in the file.
    """
    highest = sorted(page, key=lambda line: -line.base)
    yield "top", highest[: _EDGE + 1]
    yield "bottom", highest[: -_EDGE - 2 : -1]


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
    return [line for line in lines if abs(line.base - middle) < 4]


def _running_kind(line: Line, page: Sequence[Line]) -> str:
    if _ALONE.fullmatch(_modulo_digits(line.text)):
        return "page number"
    heights = [other.base for other in page]
    return "running head" if line.base > (max(heights) + min(heights)) / 2 else "running foot"


_NUMBER = re.compile(r"\d+")
_DIGITS = 9  # a longer number is no page number
_ROMAN = re.compile(r"^((?:page )?)[ivxlc]{1,7}$", re.IGNORECASE)
# A line that is nothing but a page number, by its `_modulo_digits`.
_ALONE = re.compile(r"(?:page|p\.?|seite|[a-z]{1,3}[-–])?\s*#(?:\s*(?:of|/)\s*#)?", re.IGNORECASE)
_PAGE = re.compile(r"\b(?:pages?|pp?|pg|seite|página|pagina|sida|side|sivu|str|стр)\b\W*(?:no|nr|number)?\W*$", re.I)
# What is numbered like pages: a bundle of invoices may have one a page.
_LABEL = re.compile(
    r"(?:[#№]|\b(?:no|nr|nos|num|number|id|ref|reference|inv|invoice|bill|receipt|order|po|case|claim|account|acct"
    r"|customer|client|ticket|contract|policy|exhibit|lot|item|serial|batch|rechnung|kunde|auftrag|vertrag|beleg"
    r"|facture|commande|dossier|reçu|factura|fattura|fatura|pedido|recibo|ordine|bestelling|faktura))"
    r"\W*$",
    re.IGNORECASE,
)


_TITLE_NUMBER = re.compile(r"(?!(?:19|20)\d\d$)\d{1,9}")  # no year
_MAX_TITLE = 200  # characters


def _beside_title(text: str) -> int | None:
    """The number beside a title, or the number that a line is."""
    plain = " ".join(text.split()).strip("-–—•|[]() ")
    if len(plain) > _MAX_TITLE:
        return None
    if _ALONE.fullmatch(_modulo_digits(plain)) and (alone := re.search(r"\d{1,9}", plain)):
        return int(alone[0])
    # At an end of a title of several words: "Chapter 3" and "Budget 2020" are titles.
    words = plain.split()
    for number, title in ((words[0], words[1:]), (words[-1], words[:-1])) if words else ():
        named = [any(map(str.isalpha, word)) for word in title]
        if _TITLE_NUMBER.fullmatch(number) and sum(named) > 1 and title[0][0].isalpha():
            return int(number)
    return None


def _modulo_digits(text: str) -> str:
    """A line without case, digits, and the punctuation around a page number."""
    plain = " ".join(text.split()).strip("-–—•|[]() ")
    return _NUMBER.sub("#", _ROMAN.sub(r"\1#", plain)).casefold()


def _numbered(lines: Sequence[Line]) -> list[str | None]:
    """Lines that are equal but for digits, each with "#" for its page number; None where it has none.

    At least half of the page numbers must increase with the pages, roman numerals excepted.
    """
    best, place = Counter[int](), -1
    found = [list(_NUMBER.finditer(line.text)) for line in lines]
    for k in range(max(map(len, found), default=0)):
        offsets = Counter[int]()
        for line, numbers in zip(lines, found, strict=True):
            if (number := _page_number(line, numbers, k)) is not None:
                offsets[number - line.page] += 1
        if max(offsets.values(), default=0) > max(best.values(), default=0):
            best, place = offsets, k
    roman = sum(not numbers for numbers in found)
    in_step = roman + max(best.values(), default=0) >= 0.5 * len(lines)
    texts: list[str | None] = []
    for line, numbers in zip(lines, found, strict=True):
        number = _page_number(line, numbers, place) if place >= 0 else None
        if not numbers and _ROMAN.match(" ".join(line.text.split()).strip("-–—•|[]() ")):
            texts.append("#" if in_step else None)
        elif in_step and number is not None and best[number - line.page] > 1:
            start, end = numbers[place].span()
            texts.append(f"{line.text[:start]}#{line.text[end:]}")
        else:
            texts.append(None)
    return texts


def _page_number(line: Line, numbers: Sequence[re.Match[str]], k: int) -> int | None:
    """Number `k` of a line where it may be a page number."""
    if k >= len(numbers) or len(numbers[k][0]) > _DIGITS:
        return None
    before = line.text[max(numbers[k].start() - 40, 0) : numbers[k].start()]
    return None if _LABEL.search(before) and not _PAGE.search(before) else int(numbers[k][0])


def watermarks(pages: Pages) -> Repaired:
    """Remove slanted words that recur at one position on other pages, or are much larger than the text."""
    slanted = [line for page in pages for line in page if line.slanted and sum(map(str.isalpha, line.text)) > 2]
    if not slanted:
        return [list(page) for page in pages], []
    upright = [line for page in pages for line in page if not line.slanted]
    body = body_size(upright or slanted)
    places = [(line.text, round(line.left / 4), round(line.base / 4)) for line in slanted]
    counts = Counter(places)
    marks = [line for line, at in zip(slanted, places, strict=True) if counts[at] > 1 or line.size > 1.5 * body]
    removed = set(map(id, marks))
    lost = Counter[int]()
    for line in marks:
        lost[line.page] += line.weight
    shares = [lost[page[0].page] / sum(line.weight for line in page) for page in pages if page and lost[page[0].page]]
    if shares and median(shares) > _MAX_SLANTED:
        return [list(page) for page in pages], [Edit(KEPT_MARK, line.page, line.text, line.text) for line in marks]
    edits = [Edit("watermark", line.page, line.text) for line in marks]
    return [[line for line in page if id(line) not in removed] for page in pages], edits
