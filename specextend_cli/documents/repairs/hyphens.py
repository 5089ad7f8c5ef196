"""Rejoin words: those divided at the end of a line, and those that begin with a drop cap.

Whether a word that is divided keeps its hyphen ("long-term" does, "govern-ment" does not) the words of the document
tell, and where they do not, whether it divides words at all: what is written by word processors and for browsers mostly
has no other hyphens at line ends than those of its compounds.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import CELL_SEPARATOR, HYPHEN, Line, Pages

WORD = re.compile(r"[^\W\d_]+(?:[-’'][^\W\d_]+)*")
HYPHENS = ("-", "\N{HYPHEN}", HYPHEN)
_LAST = re.compile(rf"[-\N{{HYPHEN}}{HYPHEN}]([^\W\d_]+(?:-[^\W\d_]+)*)")  # of a reversed line
_NEXT = re.compile(r"[^\W\d_]+")
_IN_WORD = re.compile(r"(?<=[^\W\d_])[-\N{HYPHEN}](?=[^\W\d_])")
_FIRSTS = {"self", "non", "co"}
# Second words of compounds, in which hardly a longer word ends.
_SECONDS = {
    *("based", "called", "centered", "controlled", "dependent", "driven", "effective", "facing", "focused", "friendly"),
    *("funded", "level", "like", "looking", "minded", "named", "oriented", "owned", "quality", "related", "shaped"),
    *("specific", "term", "trained", "yielding"),
}
_LONG = 8  # letters: such a word is divided where it does not fit
_RUNNING = 20  # characters of a line of running text
_DIVIDED = 0.12  # of the words at line ends that could be divided, and of those with a hyphen
_SYLLABLE = 5  # letters, at most
_FEW = 2  # divided words that are not enough to tell
_LETTER_WORDS = ("A", "I", "O")  # words of one letter
_MOST = 50  # drop caps on a page: with more they are a diagram
_SHORT = 20  # characters: a shorter line may be a row of a table
_NUMBER = re.compile(rf"\d[-–{HYPHEN}]$")
# "10- to 20-year": what ends so waits for the second part.
_SECOND_PART = re.compile(r"(?:and|or|to|und|oder|bis|et|ou|à|y|o|e|och|en)\b", re.IGNORECASE)
_FIRST = re.compile(r"([^\W\d_]+(?:[-’'][^\W\d_]+)*)(\S*)")


@dataclass(frozen=True, slots=True)
class Compounds:
    """What a document tells about the words at its line ends.

    `words` are those in its lines, in lower case. `divides`: it divides words, as far as `few` line ends tell.
    `marked`: the hyphens of divided words are another character than those of compounds.
    """

    words: Counter[str]
    divides: bool
    few: bool
    marked: bool

    def whole(self, head: str, tail: str, sign: str) -> str:
        """The word; names keep their hyphen."""
        joined, hyphened = head + tail, f"{head}-{tail}"
        if not (tail[0].islower() or (head.isupper() and tail.isupper())):
            return hyphened
        seen_joined, seen_hyphened = self.words[joined.lower()], self.words[hyphened.lower()]
        if seen_joined or seen_hyphened:
            return hyphened if seen_hyphened > seen_joined else joined
        if head.isupper() and tail[0].islower():
            return hyphened
        first, second = head.lower().rpartition("-")[2], tail.lower().partition("-")[0]
        if self.marked:
            return joined if sign == "\N{HYPHEN}" else hyphened
        if len(first) == 1 or first in _FIRSTS or (second in _SECONDS and len(first) > 3):
            return hyphened
        known = self.words[first], self.words[second]
        if (first, second) != (head.lower(), tail.lower()):  # it has another hyphen
            syllables = min(len(first), len(second)) <= _SYLLABLE and not any(known)
            divided = self.words[first + second] or syllables
            return joined if divided and self.divides else hyphened
        if not self.divides:
            return hyphened if any(known) or not self.few else joined
        return hyphened if min(len(head), len(tail)) > 2 and all(known) else joined


def compounds(pages: Pages) -> Compounds:
    """What the lines of a document tell."""
    words = vocabulary(pages)
    cuts: list[tuple[str, str]] = []
    signs, undivided = set[str](), 0
    for a, b in pairwise(line for page in pages for line in page):
        head, tail = last_word(a.text), _NEXT.match(b.text)
        if not (tail and tail[0].islower()):
            continue
        if head:
            cuts.append((head, tail[0]))
            signs.add(a.text[-1])
        elif len(tail[0]) >= _LONG and len(a.text) >= _RUNNING and is_below(a, b):
            undivided += 1
    joined = sum(words[(head + tail).lower()] > words[f"{head}-{tail}".lower()] for head, tail in cuts)
    unknown = sum(not (words[(head + tail).lower()] or words[f"{head}-{tail}".lower()]) for head, tail in cuts)
    divides = joined > _DIVIDED * len(cuts) or unknown > _DIVIDED * (unknown + undivided)
    inside = {sign for page in pages for line in page for sign in _IN_WORD.findall(line.text)}
    return Compounds(words, divides, len(cuts) <= _FEW, "\N{HYPHEN}" in signs and inside == {"-"})


def vocabulary(pages: Pages) -> Counter[str]:
    """The words of the document in lower case, without those divided at line ends."""
    words = Counter[str]()
    cut = False
    for page in pages:
        for line in page:
            found = [match[0].lower() for match in WORD.finditer(line.text)]
            ends_cut = bool(last_word(line.text))
            words.update(found[1 if cut else 0 : len(found) - 1 if ends_cut else len(found)])
            cut = ends_cut
    return words


def last_word(text: str) -> str:
    """The word before the hyphen that ends a line, or "".

    The line is matched backwards; a forward search would try every letter of a long word as the first one.
    """
    match = _LAST.match(text[::-1]) if text.endswith(HYPHENS) else None
    return match[1][::-1] if match else ""


def is_below(here: Line, there: Line) -> bool:
    """True if a line is the next one of a paragraph; at the foot of a page it may be a note."""
    alike = here.page == there.page and abs(here.size - there.size) <= 0.08 * here.size
    return alike and 0 < here.base - there.base < 2.5 * here.size


def hyphens(pages: Pages, edits: list[Edit]) -> list[list[Line]]:
    """Rejoin words divided at line ends; the words of the document distinguish "third-party" from "govern-ment"."""
    known = compounds(pages)
    fixed = [list(page) for page in pages]
    places = [(p, i) for p, page in enumerate(fixed) for i in range(len(page))]
    for (p, i), (q, j) in pairwise(places):
        here, there = fixed[p][i], fixed[q][j]
        if not (found := _rejoined(here.text, there.text, known) or _code(here, there)):
            continue
        whole, end = found
        start = here.text.rfind(" ") + 1
        edits.append(Edit("hyphen joined", here.page, f"{here.text[start:-1]}-\n{there.text[:end]}", whole[start:]))
        fixed[p][i] = here._replace(text=whole)
        fixed[q][j] = there._replace(text=there.text[end:].lstrip())
    return [[line._replace(text=line.text.replace(HYPHEN, "-")) for line in page if line.text] for page in fixed]


def joined(text: str, following: str, known: Compounds) -> str:
    """A text and its next line, with a space between them or the word that is divided there."""
    if found := _rejoined(text, following, known):
        whole, end = found
        return f"{whole} {following[end:].lstrip()}".rstrip()
    return f"{text} {following}".replace(HYPHEN, "-")


def _rejoined(text: str, following: str, known: Compounds) -> tuple[str, int] | None:
    """A line with its last word whole, and where the rest of the following line begins; None if no word is divided."""
    if _NUMBER.search(text) and (number := re.match(r"\d\S*", following)):
        return text.replace(HYPHEN, "-") + number[0], number.end()
    last = last_word(text)
    if not last or not (first := _FIRST.match(following)):
        return None
    if _SECOND_PART.fullmatch(first[1]) and not known.words[(last + first[1]).lower()]:
        return None  # "short- and long-term"
    whole = known.whole(last, first[1], text[-1])
    return text[: -len(last) - 1] + whole + first[2], first.end()


def _code(here: Line, there: Line) -> tuple[str, int] | None:
    """A line with the rest of the number or code that ends it (737-MAX, 10-year, B-52)."""
    is_row = here.gaps or there.gaps or CELL_SEPARATOR in here.text or len(here.text) < _SHORT
    if is_row or not here.text.endswith(HYPHENS) or not is_below(here, there):
        return None
    begins = re.match(r"\d" if here.text[-2:-1].isalpha() else r"[^\W\d_]", there.text)
    if not (begins and here.text[-2:-1].isalnum()) or _SECOND_PART.match(there.text):
        return None
    code = there.text.split(maxsplit=1)[0]
    return f"{here.text[:-1]}-{code}", len(code)


def drop_caps(pages: Pages, edits: list[Edit]) -> list[list[Line]]:
    """Join a capital at least 1.6 times as large as the lines to its right with the first of them."""
    words = cache(lambda: vocabulary(pages))
    fixed = [list(page) for page in pages]
    for lines in fixed:
        letters = [line for line in lines if line.size != 1 and len(line.text) == 1 and line.text.isupper()]
        for letter in letters[:_MOST]:
            beside = [line for line in lines if _begins(letter, line)]
            if beside:
                line = max(beside, key=lambda line: line.base)
                word = line.text.split(maxsplit=1)[0].strip(".,;:!?").lower()
                apart = letter.text in _LETTER_WORDS and words()[word] > words()[letter.text.lower() + word]
                text = f"{letter.text}{' ' if apart else ''}{line.text}"
                edits.append(Edit("initial", line.page, f"{letter.text}\n{line.text}", text))
                lines[lines.index(line)] = line._replace(text=text)
                lines.remove(letter)
    return fixed


def _begins(letter: Line, line: Line) -> bool:
    large = letter.size > 1.6 * line.size
    beside = letter.base < line.base < letter.base + letter.size and line.left >= letter.right - 0.2 * letter.size
    is_word = line.text[0].isupper() and line.text[1:2].islower()  # of its own: "However"
    return large and beside and line.left < letter.right + letter.size and line.text[0].isalpha() and not is_word
