"""Remove the line numbers of bills, pleadings and transcripts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import Line, Pages, plain, runs

# Also raised ones, which are smaller than the text beside them.
_NUMBERED = re.compile(r"(\d{1,4}|[⁰¹²³⁴-⁹]{1,4})(?:\s+(?=\S)|(?<=[⁰¹²³⁴-⁹])(?=\S)|$)")
_LEAST, _MOST = 8, 200  # numbers on a page
_FEW = 3  # numbers on a page near others
_ALONE = 15  # numbers on a page that are enough without those of other pages
_NEAR = 3  # pages
_EVERY = 0.8  # of the lines of text have a number, where those of a list go on over several lines
_LONG = 20  # characters of the average line of text; the items of a list and the cells of a table are shorter
_CELLS = 1.5  # in the average line of text; the rows of a table have more
# A wide space between cells: not one behind the end of a sentence, nor behind the Q or A of a transcript.
_GAP = re.compile(r"(?<![.:?!])(?<!^[QA])(?:\t| {2,})")
_GOING_ON = 0.2  # of the lines of text begin in lower case, which the items of a list do not


def line_numbers(pages: Pages, edits: list[Edit]) -> list[list[Line]]:
    """Remove numbers that count up down the left of prose in one column of several pages.

    One page is enough where they are many and begin with 1. Near such pages a few are enough, as on the last page.
    """
    found = [_longest(page) for page in pages]
    fixed: list[list[Line]] = []
    for at, (page, run) in enumerate(zip(pages, found, strict=True)):
        numbered = _FEW <= len(run) <= _MOST and _beside_prose(page, run)
        alone = len(run) >= _ALONE and _number(run[0]) == 1
        near = [*found[max(at - _NEAR, 0) : at], *found[at + 1 : at + _NEAR + 1]]
        if numbered and (alone or any(len(other) >= _LEAST and _is_alike(run, other) for other in near)):
            fixed.append(_without(page, run, edits))
        else:
            fixed.append(list(page))
    return fixed


def _longest(page: Sequence[Line]) -> list[Line]:
    """The longest run of lines that begin with consecutive numbers."""
    numbered = [line for line in page if line.size != 1 and _NUMBERED.match(line.text)]
    downward = sorted(numbered, key=lambda line: -line.base)

    def counts_up(run: list[Line], line: Line) -> bool:
        return abs(line.left - run[-1].left) < 2 * line.size and _number(line) == _number(run[-1]) + 1

    return max(runs(downward, counts_up), key=len, default=[])


def _number(line: Line) -> int:
    number = _NUMBERED.match(line.text)
    return int(plain(number[1])) if number else 0


def _text(line: Line) -> str:
    """The text behind the number of a line."""
    return _NUMBERED.sub("", line.text, count=1).strip()


def _is_alike(run: Sequence[Line], other: Sequence[Line]) -> bool:
    """True if the numbers of two pages are in one column, and begin with 1 or are at the same heights."""
    both = {round(line.base) for line in run} & {round(line.base) for line in other}
    level = len(both) >= max(0.8 * min(len(run), len(other)), _LEAST)
    near = abs(run[0].left - other[0].left) < run[0].size
    return near and (level or _number(run[0]) == _number(other[0]) == 1)


def _beside_prose(page: Sequence[Line], run: Sequence[Line]) -> bool:
    """True if most lines beside the numbers have one, and go on from line to line."""
    edge, numbers = max(line.left for line in run), set(map(id, run))
    lines = [line for line in page if id(line) not in numbers and line.left > edge]
    lines = [line for line in lines if run[-1].base - line.size < line.base < run[0].base + line.size]
    texts = [text for text in (*map(_text, run), *(line.text for line in lines)) if text]
    every = len(run) >= _EVERY * len({round(line.base) for line in lines})
    cells = [cell for text in texts for cell in _GAP.split(text)]
    prose = len(cells) <= _CELLS * len(texts) and sum(map(len, cells)) >= _LONG * len(cells)
    going_on = sum(text[:1].islower() for text in texts) >= _GOING_ON * len(texts)
    return every and prose and going_on


def _without(page: Sequence[Line], run: Sequence[Line], edits: list[Edit]) -> list[Line]:
    numbers = {id(line) for line in run}
    kept: list[Line] = []
    for line in page:
        if id(line) in numbers:
            rest = _text(line)
            number = line.text[: len(line.text) - len(rest)]
            edits.append(Edit("line number", line.page, number.strip()))
            line = line._replace(text=rest, left=line.right - len(rest) * line.em, gaps=line.gaps["\t" in number :])
        if line.text:
            kept.append(line)
    return kept
