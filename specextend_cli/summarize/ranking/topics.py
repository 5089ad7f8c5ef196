"""The headings that an outline prints: those of a document's own that say what the sentences below them are about.

Headings that extraction finds are also lines of a cover, captions of figures, labels of their axes and running heads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, groupby

import numpy as np
import regex
from numpy.typing import NDArray

from specextend_cli.summarize.ranking.candidates import Candidate
from specextend_cli.summarize.text.words import beginning, by_character, count_words

_LONGEST = 20  # words of a heading that are printed
_LETTERS = 3
_SHARED = 4  # sections with the same heading, which then says too little by itself
_ROW = 4  # headings without a sentence between them that are no headings
_OPENING = 0.05  # of the lines: where a cover may have as many
_CHARACTERS = 1000  # of a heading that are looked at
_PARAGRAPH = 30  # words of what is no heading
_PROSE = 5  # words of a line that ends the labels of a figure
_NUMBER = regex.compile(r"(?:\d{1,3}(?:\.\d{1,3})+\.?|\d{1,3}[.)]|\(?[IVXLC]{1,6}[.)]|[A-Z][.)])[ ]+(?=\S)")
_PAGE = regex.compile(r"\s*(?:\.[ ]?){3,}\s*\d*\Z")  # the end of an entry of a table of contents
_CAPTION = regex.compile(r"(?:Figure|Fig\.?|Table|Chart|Exhibit|Box|Graph|Map|Plate|Source)s?[ ]*[\dIVX:.-]")
_AID = regex.compile(  # of a textbook, and the parts of a worked example
    r"(?:(?:Section|Chapter) )?(?:Key (?:Terms|Concepts|Equations)|Learning (?:Objectives|Outcomes|Goals))"
    r"|Strategy|Solution",
    regex.IGNORECASE,
)
_PART = regex.compile(r"(?:Appendix|Annex|Chapter|Part|Section)\b")  # what running heads repeat
_COVER = regex.compile(
    r"""[A-Z]{2,}[\d-]*-\d[\w-]*  # a document's number
      |(?:January|February|March|April|May|June|July|August|September|October|November|December)
        \s(?:\d{1,2},\s)?\d{4}
      |.*\b[A-Z]{2}\s\d{5}(?:-\d{4})?  # an address
      |.*(?:https?://|\bwww\.).*""",
    regex.VERBOSE,
)


@dataclass(frozen=True)
class Topics:
    """The printed heading above each sentence: `above` [sentences] are numbers in `headings`, -1 for none."""

    headings: tuple[str, ...]
    above: NDArray[np.int64]

    @cached_property
    def words(self) -> NDArray[np.int64]:
        """The words of each heading, [headings]."""
        return np.array([count_words(heading) for heading in self.headings], np.int64)


def topics(text: str, found: Sequence[Candidate]) -> Topics:
    """The topics of a document's sentences.

    What stands below a caption, a label, a running head or a heading that many sections share ("Costs") belongs to the
    topic before; what follows a line of a cover, to none.
    """
    sections = [list(section) for _, section in groupby(found, key=lambda one: one.section)]
    lines = [_undoubled(section[0].heading) for section in sections]
    often = Counter(line for line, _ in groupby(lines))
    labels = _labels(text, sections)
    headings: list[str] = []
    printed: set[str] = set()
    above: list[int] = []
    topic = parent = -1
    numbered = figure = False
    for number, (section, line) in enumerate(zip(sections, lines, strict=True)):
        shown, shared = title(line), often[line] >= _SHARED and not _PART.match(line)
        if _CAPTION.match(line):
            figure = True
        elif _COVER.fullmatch(line):
            topic, figure = -1, False
        elif figure or number in labels or _is_furniture(line) or (_PART.match(line) and shown in printed):
            pass
        elif shared and parent >= 0 and not numbered:
            topic = parent
        else:
            if topic < 0 or headings[topic] != shown:
                topic = len(headings)
                headings.append(shown)
                printed.add(shown)
            if not shared:
                parent, numbered = topic, _NUMBER.match(line) is not None
        above += [topic] * len(section)
        figure = figure and not any(_is_prose(text, one) for one in section)
    return Topics(tuple(headings), np.array(above, np.int64))


def title(line: str) -> str:
    """A heading as it is printed: without its number and the mark at its end, and cut where it is long."""
    line = line.strip("*_ ")
    line = line[mark.end() :] if (mark := _NUMBER.match(line)) else line
    line = line.strip("*_ ").rstrip(":.¶ ")
    return beginning(line, _LONGEST * (2 if by_character(line) else 1))


def _labels(text: str, sections: Sequence[Sequence[Candidate]]) -> set[int]:
    """The numbers of the sections that are labels of a chart: many headings in a row, after the cover."""
    found, first = set[int](), 0
    starts = [0, *accumulate(map(len, sections))]
    for number, section in enumerate(sections):
        if any(_is_prose(text, one) for one in section):
            if number + 1 - first >= _ROW and starts[first] > _OPENING * starts[-1]:
                found.update(range(first, number + 1))
            first = number + 1
    return found


def _undoubled(heading: str) -> str:
    """A heading on one line, without its page and without the running head that extraction put before it."""
    words = _PAGE.sub("", heading[:_CHARACTERS]).split()
    for size in range(len(words) // 2, 0, -1):
        if words[:size] == words[size : 2 * size] and (size > 1 or len(words) == 2):
            return " ".join(words[size:])
    return " ".join(words)


def _is_furniture(line: str) -> bool:
    if regex.search("[•▪●]", line) or line.endswith((",", ";")) or _AID.fullmatch(title(line)):
        return True
    letters = len(regex.findall(r"\p{L}", line))
    return letters < (1 if by_character(line) else _LETTERS) or count_words(line) > _PARAGRAPH or not title(line)


def _is_prose(text: str, one: Candidate) -> bool:
    return one.kind in ("prose", "item") and count_words(text[one.start : one.end]) >= _PROSE
