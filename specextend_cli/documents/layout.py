"""Lines to paragraphs: which lines go on, which end, and which are headings.

The text of a document is its lines joined by one of three separators: a space inside a paragraph, a newline between
rows (list items, table rows), a blank line between blocks.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import Literal

from specextend_cli.documents.document import Block, Page
from specextend_cli.documents.line import Line
from specextend_cli.documents.outline import Outline, listed

Separator = Literal["", " ", "\n", "\n\n"]


_WRAP = 130  # columns: longer lines of a text file are paragraphs that nobody wrapped
_MAX_HEADING = 160
_ALIKE = 1_000  # lines that are enough to find the edge of a column by
_ITEM = re.compile(r"(?:[•●▪■□◦‣∙○➢✓–—*·-]|\(?(?:\d{1,2}|[a-zA-Z]|[ivx]{1,4})[.)]|\[\d{1,3}\])\s+\S")
_NUMBERED = re.compile(
    r"(?:(?:chapter|part|section|appendix|annex|article|title)\s+[\divxlc]+\b|\d{1,2}(?:\.\d{1,2}){0,4}\.?|[IVX]{1,5}\.|[A-Z]\.)"
    r"(?:[.:]?\s+[^\W\d_a-z].*|$)"
)
_NOTE = re.compile(r"(?:\d{1,3}|1[0-4]\d\d) \S")  # no year
_ENDED = re.compile(r"[.!?:;。！？…][\"'”’)\]]*$")
_SMALL_WORDS = frozenset(
    (
        *("a", "an", "and", "as", "at", "but", "by", "for", "from", "in", "into", "nor", "of", "on", "or", "over"),
        *("per", "the", "to", "up", "via", "vs", "with"),
    )
)


@dataclass(slots=True)
class Text:
    """What a document's text is made of: see `Document` for the meaning of each."""

    text: str = ""
    pages: list[Page] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    joined: int = 0


def compose(pages: Sequence[Sequence[Line]], outline: Outline = ()) -> Text:
    """The text of cleaned pages, with the places of its pages and blocks; `outline` are known headings."""
    look = _Look(pages, outline)
    lines = [line for page in pages for line in page]
    if not lines:
        return Text()
    result = Text()
    parts: list[str] = []
    block: list[Line] = []
    at = start = 0
    starts = [(lines[0].page, 0)]

    def close() -> None:
        result.blocks.append(Block("heading" if look.is_heading(block) else "paragraph", start, at))
        block.clear()

    for line, following in zip(lines, [*lines[1:], None], strict=True):
        block.append(line)
        parts.append(line.text)
        at += len(line.text)
        if following is None:
            break
        separator = look.separator(line, following)
        result.joined += separator in ("", " ")
        if separator == "\n\n":
            close()
        parts.append(separator)
        at += len(separator)
        if separator == "\n\n":
            start = at
        if following.page != line.page:
            starts.append((following.page, at))
    close()
    result.text = "".join(parts)
    ends = [place for _, place in starts[1:]] + [at]
    result.pages = [Page(number, begin, end) for (number, begin), end in zip(starts, ends, strict=True)]
    return result


class _Look:
    """How this document is set: its body size, the step from line to line, the right edge of its columns."""

    def __init__(self, pages: Sequence[Sequence[Line]], outline: Outline) -> None:
        self._listed = listed(pages, outline)  # ids of lines
        sizes, steps = Counter[float](), defaultdict[float, Counter[float]](Counter)
        for page in pages:
            for line in page:
                sizes[round(line.size)] += len(line.text)
            for a, b in pairwise(page):
                if 0 < a.base - b.base < 3 * a.size:
                    steps[round(a.size)][round((a.base - b.base) * 4) / 4] += 1
        self._body = sizes.most_common(1)[0][0] if sizes else 1.0
        self._steps = {size: counter.most_common(1)[0][0] for size, counter in steps.items()}
        if 1 in self._steps:
            self._steps[1] = self._grid_step(pages)
        self._right: dict[int, float] = {}  # by the id of a line
        for page in pages:
            self._find_edges(page)

    def _grid_step(self, pages: Sequence[Sequence[Line]]) -> float:
        """Rows from line to line in a text file: 1, or 2 where sentences go on over the blank line between."""
        pairs = [(a, b) for page in pages for a, b in pairwise(page) if a.size == 1]
        spaced = [self._goes_on(a, b) for a, b in pairs if a.base - b.base == 2]
        return 2.0 if len(spaced) > 0.9 * len(pairs) and sum(spaced) > 0.3 * len(spaced) else 1.0

    def _find_edges(self, page: Sequence[Line]) -> None:
        """The right edge of each line's column: the farthest right of the lines around it.

        Those are the lines it stands among; where they are few, all of the page that start nearby in a size alike.
        """
        by_left = sorted(page, key=lambda line: line.left)
        lefts = [line.left for line in by_left]
        near: dict[tuple[float, float], list[Line]] = {}
        for stack in _stacks(page):
            alike, first = stack, stack[0]
            if len(stack) <= 3:
                place = (first.left, first.size)
                if place not in near:
                    reach = _reach(first)
                    low, high = bisect_left(lefts, first.left - reach), bisect_right(lefts, first.left + reach)
                    some = by_left[low : high : max((high - low) // _ALIKE, 1)]
                    near[place] = [line for line in some if _same_column(first, line)] or stack
                alike = near[place]
            rights = sorted(line.right for line in alike)
            edge = rights[-1]
            if alike[0].size == 1:  # in a text file a few lines may stick out, or all are as long as they like
                edge = inf if rights[len(rights) // 2] > _WRAP else rights[-1 - len(rights) // 10]
            self._right.update((id(line), edge) for line in stack)

    def separator(self, a: Line, b: Line) -> Separator:
        """What stands between line `a` and its follower `b`."""
        if a.page != b.page:
            return self._across(a, b)
        if id(a) in self._listed or id(b) in self._listed:
            return _space(a, b) if self._listed.get(id(a)) == self._listed.get(id(b)) else "\n\n"
        if abs(a.size - b.size) > 0.08 * a.size or a.bold != b.bold:
            return _space(a, b) if self._goes_on(a, b) and a.size == b.size else "\n\n"
        step, leading = a.base - b.base, self._steps.get(round(a.size), 1.2 * a.size)
        room = self._room(a, b)
        note = b.size < 0.93 * self._body and _NOTE.match(b.text)
        item = bool(note or _ITEM.match(b.text))
        if step <= 0.3 * leading or step > 2.4 * leading:
            return _space(a, b) if self._goes_on(a, b) and not item and step <= 0 else "\n\n"
        if step > 1.3 * leading:
            return _space(a, b) if self._goes_on(a, b) and not item and a.size != 1 else "\n\n"
        if item and (room > 0 or re.search(r"[.!?:;,\d”]$| and$| or$", a.text)):
            return "\n"
        if "  " in a.text or "  " in b.text or " … " in a.text:
            return "\n"
        if room > 0:
            if len(a.text) < 80 and not item and ((a.bold and b.bold) or min(a.size, b.size) > 1.15 * self._body):
                return _space(a, b)  # a heading over several lines
            if self._goes_on(a, b) and room < 0.5 * (self._right[id(a)] - a.left):
                return _space(a, b)
            prose = _ENDED.search(a.text) and max(len(a.text), len(b.text)) > 40 and not _ITEM.match(a.text)
            return "\n\n" if prose else "\n"
        if b.left - a.left > 0.8 * a.size and _ENDED.search(a.text) and not _ITEM.match(a.text) and a.size != 1:
            return "\n\n"
        return _space(a, b)

    def _across(self, a: Line, b: Line) -> Separator:
        """A paragraph may go on over the page; anything else starts anew there."""
        alike = abs(a.size - b.size) <= 0.08 * a.size and a.bold == b.bold
        return _space(a, b) if alike and self._goes_on(a, b) and not _ITEM.match(b.text) else "\n\n"

    def _room(self, a: Line, b: Line) -> float:
        """How much would have been left over had the first word of `b` still been set on the line of `a`."""
        word = b.text.split(maxsplit=1)[0]
        return self._right[id(a)] - a.right - (len(word) + 1.5) * a.em

    @staticmethod
    def _goes_on(a: Line, b: Line) -> bool:
        """Whether the words say that `b` continues `a`: no end before it and a small letter after it."""
        return not _ENDED.search(a.text) and (b.text[0].islower() or a.text[-1] in ",-")

    def is_heading(self, block: Sequence[Line]) -> bool:
        """Whether these lines are a heading: set larger or bold, listed in the outline, or worded like one."""
        text = " ".join(line.text for line in block)
        if len(text) > _MAX_HEADING or len(block) > 5 or sum(map(str.isalpha, text)) < 3 or " … " in text:
            return False
        if id(block[0]) in self._listed:
            return True
        if "  " in text or text[-1] in ",;" or (_ITEM.match(text) and not _NUMBERED.match(text)):
            return False
        if all(line.bold or line.size > 1.08 * self._body for line in block):
            return text[-1] != "." or len(text) < 60
        fine_print = block[0].size < 0.93 * self._body
        return len(block) <= 2 and len(text) <= 100 and not fine_print and reads_as_heading(text)


def _reach(line: Line) -> float:
    """How far the beginnings of lines in one column may lie apart."""
    return 3 if line.size == 1 else 40


def _same_column(a: Line, b: Line) -> bool:
    return abs(a.left - b.left) <= _reach(a) and abs(a.size - b.size) <= 0.08 * a.size


def _stacks(page: Sequence[Line]) -> Iterable[list[Line]]:
    """Lines that follow closely below each other in one column, together."""
    stack: list[Line] = []
    for line in page:
        if stack and not (_same_column(stack[-1], line) and 0 < stack[-1].base - line.base < 3 * line.size):
            yield stack
            stack = []
        stack.append(line)
    if stack:
        yield stack


def reads_as_heading(text: str) -> bool:
    """Whether a line standing alone reads as a heading: numbered, all capitals, or title case without an end."""
    words = re.findall(r"[^\W\d_][\w’'-]*", text)
    if not words or text[-1] in ".,;:!":
        return False
    if _NUMBERED.fullmatch(text) or (text.isupper() and sum(map(len, words)) > 3):
        return True
    long = [word for word in words if word.lower() not in _SMALL_WORDS]
    return 1 <= len(words) <= 12 and words[0][0].isupper() and bool(long) and all(word[0].isupper() for word in long)


def _space(a: Line, b: Line) -> Separator:
    """Lines of Chinese, Japanese and Korean (in Han and kana) are joined without a space."""
    return "" if _wide(a.text[-1]) and _wide(b.text[0]) else " "


def _wide(character: str) -> bool:
    return "\u2e80" <= character <= "\u9fff" or "\uff00" <= character <= "\uffef" or "\u3000" <= character <= "\u30ff"
