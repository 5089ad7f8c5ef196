"""Running heads and feet and page numbers go."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from statistics import median

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import Line
from specextend_cli.documents.repairs.repair import Pages, Repaired

_EDGE = 4
_ROMAN = re.compile(r"^((?:page )?)[ivxlc]{1,7}$", re.IGNORECASE)
_FOLIO = re.compile(r"(?:page|p\.?|seite|[a-z]{1,3}[-–])?\s*#(?:\s*(?:of|/)\s*#)?", re.IGNORECASE)
_PIECE = re.compile(r"\s{2,}|\s*[|•·]\s*|\s[–—]\s")


def running_lines(pages: Pages) -> Repaired:
    """Running heads and feet and page numbers: lines that return, but for digits, at the edge of several pages."""
    heights = _Heights(pages)
    returning: defaultdict[tuple[str, str], list[Line]] = defaultdict(list)
    for page in pages:
        for where, lines in _edges(page):
            for line in lines:
                returning[where, heights.key(line)].append(line)
    running: set[int] = set()  # ids of lines
    titles: set[int] = set()
    bands: defaultdict[str, list[Line]] = defaultdict(list)
    for (where, key), found in returning.items():
        lines = _steady(found)
        folio = _FOLIO.fullmatch(key) is not None
        if len({line.page for line in lines}) < heights.enough(lines):
            continue
        if not (_counts_up(lines) if folio else sum(map(str.isalpha, key)) > 2):
            continue
        if heights.is_large(lines[0]):  # a title that later pages repeat
            titles.add(id(lines.pop(0)))
        running.update(map(id, lines))
        bands[where] += lines
    fixed, edits = [], []
    for page in pages:
        gone: set[int] = set()
        for where, lines in _edges(page):
            inward: list[Line] = []
            for line in lines[:_EDGE]:
                if id(line) in titles or not (id(line) in running or heights.in_band(line, bands[where])):
                    break
                inward.append(line)
            gone.update(id(line) for line in _apart(inward, lines))
        edits += [Edit(_running_kind(line, page), line.page, line.text) for line in page if id(line) in gone]
        fixed.append([line for line in page if id(line) not in gone])
    return fixed, edits


class _Heights:
    """How many pages there are, the size of their body text, and what counts as often."""

    def __init__(self, pages: Pages) -> None:
        self.pages = sum(1 for page in pages if page)
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
        return len(pieces) == 1 or not any(_FOLIO.fullmatch(_modulo_digits(pieces[at])) for at in (0, -1))

    def key(self, line: Line) -> str:
        """What must return: the line but for its digits, which in a title ("Chapter 3") make a difference."""
        return " ".join(line.text.split()) if self.is_large(line) else _modulo_digits(line.text)

    def in_band(self, line: Line, removed: Sequence[Line]) -> bool:
        """Whether `line` stands where most pages have a running line: then it is one, whatever it says."""
        if line.size == 1 or len(line.text) > 120:
            return False
        near = [other for other in removed if abs(other.base - line.base) < 2 and abs(other.size - line.size) < 1]
        return len({other.page for other in near}) > 0.6 * self.pages


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


def _modulo_digits(text: str) -> str:
    plain = " ".join(text.split()).strip("-–—•|[]() ")
    return re.sub(r"\d+", "#", _ROMAN.sub(r"\1#", plain)).casefold()


def _steady(lines: Sequence[Line]) -> list[Line]:
    """Those of the lines that stand at one height (left and right pages may differ a little)."""
    if not lines or lines[0].size == 1:
        return list(lines)
    middle = median(line.base for line in lines)
    return [line for line in lines if abs(line.base - middle) < 4]


def _counts_up(lines: Sequence[Line]) -> bool:
    """Whether the numbers keep step with the pages (as roman numerals need not be proven to)."""
    offsets = Counter(
        int(number[0]) - line.page if (number := re.search(r"\d+", line.text)) else None for line in lines
    )
    return offsets.most_common(1)[0][1] >= 0.5 * len(lines)


def _running_kind(line: Line, page: Sequence[Line]) -> str:
    if _FOLIO.fullmatch(_modulo_digits(line.text)):
        return "page number"
    heights = [other.base for other in page]
    return "running head" if line.base > (max(heights) + min(heights)) / 2 else "running foot"
