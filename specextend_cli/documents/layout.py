"""Lines to paragraphs and headings; list items and `Key: value` of a typed text stay lines.

The text of a document is its lines joined by one of three separators: a space inside a paragraph, a newline between
rows (list items, table rows), a blank line between blocks.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, pairwise
from math import inf
from typing import Literal

from specextend_cli.documents.document import Block, StructuredText, pages_between
from specextend_cli.documents.line import Line, Pages, body_size, runs

Separator = Literal["", " ", "\n", "\n\n"]
Outline = Sequence[tuple[str, int | None]]
"""Headings (the bookmarks of a PDF) in order, each with its page (1-based) where the file names it."""

_WRAP = 130  # columns: longer lines of a text file are unwrapped paragraphs
_MAX_HEADING = 160
_RUNNING = 40  # characters of a line of running text
_SAMPLE = 1_000  # lines that are enough to find the edge of a column
_ITEM = re.compile(r"(?:[•●▪■□◦‣∙○➢✓–—*·-]|\(?(?:\d{1,2}|[a-zA-Z]|[ivx]{1,4})[.)]|\[\d{1,3}\])\s+\S")
_NUMBERED = re.compile(
    r"(?:(?:chapter|part|section|appendix|annex|article|title)\s+[\divxlc]+\b|\d{1,2}(?:\.\d{1,2}){0,4}\.?|[IVX]{1,5}\.|[A-Z]\.)"
    r"(?:[.:]?\s+[^\W\d_a-z].*|$)"
)
_FIGURES = "[一二三四五六七八九十百\\d]{1,4}"
_NUMBERED_WIDE = re.compile(rf"(?:第{_FIGURES}[章节節条條编編篇部]|{_FIGURES}、|[（(]{_FIGURES}[）)])\s?\w.{{0,30}}")
# A title in a script without capitals: a few words, or characters, without the mark of a sentence or a figure.
_CASELESS = "\u0590-\u08ff\u0900-\u0e7f\u2e80-\ud7af"
_TITLE = re.compile(rf"[{_CASELESS}](?:[^\x00-\x7f。，、：；！？।،؛؟]{{1,14}}(?:\s|$)){{1,4}}")
_NOTE = re.compile(r"(?:\d{1,3}|1[0-4]\d\d) \S")  # no year
_ENDED = re.compile(r"[.!?:;。！？…][\"'”’)\]]*$")
_WIDE = re.compile("[\u2e80-\u9fff\uff00-\uffef]")
_SMALL_WORDS = {
    *("a", "an", "and", "as", "at", "but", "by", "for", "from", "in", "into", "nor", "of", "on", "or", "over"),
    *("per", "the", "to", "up", "via", "vs", "with"),
}
_BULLET = re.compile(r"([•●▪■□◦‣∙○➢✓–—*·+-])\s+\S")
_NUMBER = re.compile(r"(\(?|\[)(?:(\d{1,3})|([a-z])|([A-Z])|([ivx]{2,4}))([.)\]])\s+\S")
_KEY = re.compile(r"[^\W\d_][\w.&/'’-]*(?: [\w(][\w.&/)'’-]*){0,3}:(?:\s|$)")
_MAX_KEY = 32  # characters


def compose(pages: Pages, outline: Outline = ()) -> StructuredText:
    """The text of cleaned pages with its pages and blocks; `outline` are known headings."""
    lines = [line for page in pages for line in page]
    if not lines:
        return StructuredText()
    typography = _Typography(pages, outline)
    separators = [*(typography.separator(a, b) for a, b in pairwise(lines)), ""]
    begins = {id(line) for page in pages for line in _beginnings(page)}
    broken = {at for at, line in enumerate(lines[1:]) if separators[at] == " " and id(line) in begins}
    for at in broken:
        separators[at] = "\n"
    texts = [line.text for line in lines]
    starts = list(accumulate((len(text) + len(end) for text, end in zip(texts, separators, strict=True)), initial=0))
    blocks = []
    for first, end in pairwise(
        [0, *(at + 1 for at, separator in enumerate(separators) if separator == "\n\n"), len(lines)]
    ):
        is_heading = typography.is_heading(lines[first:end]) and broken.isdisjoint(range(first, end - 1))
        kind: Literal["heading", "paragraph"] = "heading" if is_heading else "paragraph"
        blocks.append(Block(kind, starts[first], starts[end - 1] + len(texts[end - 1])))
    pages_of_text = pages_between([line.page for line in lines], starts)
    return StructuredText("".join(chain(*zip(texts, separators, strict=True))), pages_of_text, blocks)


class _Typography:
    """How a document is set: its body size, its line spacing by type size, the right edge of its columns."""

    def __init__(self, pages: Pages, outline: Outline) -> None:
        self._listed = outline_headings(pages, outline)
        self._body = body_size(line._replace(size=round(line.size)) for page in pages for line in page)
        steps = defaultdict[float, Counter[float]](Counter)
        for page in pages:
            for a, b in pairwise(page):
                if 0 < a.base - b.base < 3 * a.size:
                    steps[round(a.size)][round((a.base - b.base) * 4) / 4] += 1
        self._steps = {size: counter.most_common(1)[0][0] for size, counter in steps.items()}
        if 1 in self._steps:  # a text file
            self._steps[1] = 1.0
        self._right: dict[int, float] = {}  # by the id of a line
        for page in pages:
            self._find_edges(page)

    def _find_edges(self, page: Sequence[Line]) -> None:
        """The right edge of each line's column: the rightmost end of the lines of its stack.

        Where these are few, it is that of all lines of the page that begin nearby in a similar size.
        """
        by_left = sorted(page, key=lambda line: line.left)
        lefts = [line.left for line in by_left]
        near: dict[tuple[float, float], list[Line]] = {}
        # Each line of a stack follows closely below the one before in one column.
        for stack in runs(page, lambda s, b: _same_column(s[-1], b) and 0 < s[-1].base - b.base < 3 * b.size):
            alike, first = stack, stack[0]
            if len(stack) <= 3:
                place = (first.left, first.size)
                if place not in near:
                    reach = _reach(first)
                    low, high = bisect_left(lefts, first.left - reach), bisect_right(lefts, first.left + reach)
                    some = by_left[low : high : max((high - low) // _SAMPLE, 1)]
                    near[place] = [line for line in some if _same_column(first, line)] or stack
                alike = near[place]
            rights = sorted(line.right for line in alike)
            edge = rights[-1]
            if alike[0].size == 1:  # in a text file a few lines may stick out, or all are as long as they like
                edge = inf if rights[len(rights) // 2] > _WRAP else rights[-1 - len(rights) // 10]
            self._right.update((id(line), edge) for line in stack)

    def separator(self, a: Line, b: Line) -> Separator:
        """The separator of line `a` and the next line `b`."""
        goes_on, alike = _goes_on(a, b), abs(a.size - b.size) <= 0.08 * a.size and a.bold == b.bold
        if a.page != b.page:  # only a paragraph may continue on the next page
            goes_on = goes_on or (id(b) not in self._listed and self._fills_its_line(a, b))
            return _space(a, b) if alike and goes_on and not _ITEM.match(b.text) else "\n\n"
        if id(a) in self._listed or id(b) in self._listed:
            return _space(a, b) if self._listed.get(id(a)) == self._listed.get(id(b)) else "\n\n"
        if not alike:
            return _space(a, b) if goes_on and a.size == b.size else "\n\n"
        step, leading = a.base - b.base, self._steps.get(round(a.size), 1.2 * a.size)
        room = self._room(a, b)
        note = b.size < 0.93 * self._body and _NOTE.match(b.text)
        item = bool(note or _ITEM.match(b.text))
        if step <= 0.3 * leading or step > 2.4 * leading:
            return _space(a, b) if goes_on and not item and step <= 0 else "\n\n"
        if step > 1.3 * leading:
            return _space(a, b) if goes_on and not item and a.size != 1 else "\n\n"
        if item and (room > 0 or _is_next_item(a, b) or re.search(r"[.!?:;,\d”]$| and$| or$", a.text)):
            return "\n"
        if "  " in a.text or "  " in b.text or " … " in a.text:
            return "\n"
        if room > 0:
            if len(a.text) < 80 and not item and ((a.bold and b.bold) or min(a.size, b.size) > 1.15 * self._body):
                return _space(a, b)  # a heading over several lines
            if goes_on and room < 0.5 * (self._right[id(a)] - a.left):
                return _space(a, b)
            prose = _ENDED.search(a.text) and max(len(a.text), len(b.text)) > 40 and not _ITEM.match(a.text)
            return "\n\n" if prose else "\n"
        if b.left - a.left > 0.8 * a.size and _ENDED.search(a.text) and not _ITEM.match(a.text) and a.size != 1:
            return "\n\n"
        return _space(a, b)

    def _room(self, a: Line, b: Line) -> float:
        """The space that would be left if the first word of `b` were set on the line of `a`."""
        return self._right[id(a)] - a.right - (len(b.text.split(maxsplit=1)[0]) + 1.5) * a.em

    def _fills_its_line(self, a: Line, b: Line) -> bool:
        """True if `a`, the last line of a page, is a full line of print without an end, and `b` begins where it does.

        Then a capital is that of a name.
        """
        running = abs(a.size - self._body) < 0.04 * self._body and not a.bold and len(a.text) >= _RUNNING
        row = a.size == 1 or "  " in a.text or "  " in b.text or " … " in a.text
        return running and not row and not _ENDED.search(a.text) and abs(a.left - b.left) < 2 and self._room(a, b) <= 0

    def is_heading(self, block: Sequence[Line]) -> bool:
        """True if these lines are a heading: by the outline, by larger or bold type, or by their wording."""
        text = " ".join(line.text for line in block)
        if len(text) > _MAX_HEADING or len(block) > 5 or " … " in text:
            return False
        if sum(letter.isalpha() * (2 if letter >= "\u2e80" else 1) for letter in text) < 3:  # of an alphabet
            return False
        if id(block[0]) in self._listed:
            return True
        if "  " in text or text[-1] in ",;" or (_ITEM.match(text) and not _NUMBERED.match(text)):
            return False
        if all(line.bold or line.size > 1.08 * self._body for line in block):
            return text[-1] != "." or len(text) < 60
        fine_print = block[0].size < 0.93 * self._body
        return len(block) <= 2 and len(text) <= 100 and not fine_print and reads_as_heading(text)


def _goes_on(a: Line, b: Line) -> bool:
    """True if `b` continues the sentence of `a`: that has no end, and `b` begins in lower case."""
    return not _ENDED.search(a.text) and (b.text[0].islower() or a.text[-1] in ",-")


def _is_next_item(a: Line, b: Line) -> bool:
    """True if two lines are items, the second with the same bullet, or to the left: no item goes on there."""
    aside, near = a.left - b.left, 0.5 * a.size
    alike = a.text[0] == b.text[0] and _BULLET.match(b.text) is not None
    return _ITEM.match(a.text) is not None and (aside > near or (aside > -near and alike))


def _reach(line: Line) -> float:
    """How far apart lines of one column may begin."""
    return 3 if line.size == 1 else 40


def _same_column(a: Line, b: Line) -> bool:
    return abs(a.left - b.left) <= _reach(a) and abs(a.size - b.size) <= 0.08 * a.size


def reads_as_heading(text: str) -> bool:
    """True if a separate line is worded as a heading: numbered, all capitals, or title case without a full stop.

    In scripts without capitals a short line without any mark is one.
    """
    words = re.findall(r"[^\W\d_][\w’'-]*", text)
    if not words or text[-1] in ".,;:!":
        return False
    if (
        _NUMBERED.fullmatch(text)
        or _NUMBERED_WIDE.fullmatch(text)
        or _TITLE.fullmatch(text)
        or (text.isupper() and sum(map(len, words)) > 3)
    ):
        return True
    long = [word for word in words if word.lower() not in _SMALL_WORDS]
    return 1 <= len(words) <= 12 and words[0][0].isupper() and bool(long) and all(word[0].isupper() for word in long)


def _space(a: Line, b: Line) -> Separator:
    """A space, but none between Han characters or kana."""
    return "" if _WIDE.match(a.text[-1]) and _WIDE.match(b.text[0]) else " "


def outline_headings(pages: Pages, outline: Outline) -> dict[int, int]:
    """The lines that are headings by the outline: from the id of each to the id of the first line of its heading.

    A heading may have up to three lines. The first match on its page is taken; the page may be off by one.
    """
    titles: defaultdict[int | None, set[str]] = defaultdict(set)
    for title, page in outline:
        if letters := _letters(title):
            for near in (None,) if page is None else (page - 1, page, page + 1):
                titles[near].add(letters)
    found: dict[int, int] = {}
    if not titles:
        return found
    for lines in pages:
        wanted = titles[lines[0].page] | titles[None] if lines else set()
        spelled = [_letters(line.text) for line in lines]
        for at, first in enumerate(lines):
            for count in (1, 2, 3):
                heading = "".join(spelled[at : at + count])
                if heading in wanted and id(first) not in found:
                    wanted.discard(heading)
                    found.update((id(line), id(first)) for line in lines[at : at + count])
    return found


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text)).casefold()


def _beginnings(page: Sequence[Line]) -> Iterator[Line]:
    """The lines of a page of a text file that begin an item or a key: two or more alike in one block of lines."""
    typed = (line for line in page if line.size == 1)
    for block in runs(typed, lambda run, line: 0 < run[-1].base - line.base <= 1):
        kinds = [_kind(line) for line in block]
        alike = Counter(kinds)
        for line, kind in zip(block, kinds, strict=True):
            # A single line that begins with "Note:" may be prose; keys come one after the other, from the first line.
            # So may two that begin with "she said:".
            least = 3 if kind is not None and kind[0] == "key" and line.text[0].islower() else 2
            if kind is not None and alike[kind] >= least and (kind[0] != "key" or kinds[0] == kind):
                yield line


def _kind(line: Line) -> tuple[str, float] | None:
    """What a line begins with, and in which column; None for neither an item nor a key."""
    if found := _BULLET.match(line.text):
        return found[1], line.left
    if found := _NUMBER.match(line.text):
        form = next(at for at in (2, 3, 4, 5) if found[at])
        return f"{found[1]}{form}{found[6]}", line.left
    found = _KEY.match(line.text)
    return ("key", line.left) if found and len(found[0]) <= _MAX_KEY else None
