"""Rejoin words: those divided at the end of a line, and those that begin with a drop cap."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import CELL_SEPARATOR, HYPHEN, Line, Pages, Repaired
from specextend_cli.documents.repairs.compounds import HYPHENS, Compounds, compounds, is_below, last_word, vocabulary

_LETTER_WORDS = ("A", "I", "O")  # words of one letter
_MOST = 50  # drop caps on a page: with more they are a diagram
_SHORT = 20  # characters: a shorter line may be a row of a table
_NUMBER = re.compile(r"\d[-–]$")
# "10- to 20-year": what ends so waits for the second part.
_SECOND_PART = re.compile(r"(?:and|or|to|und|oder|bis|et|ou|à|y|o|e|och|en)\b", re.IGNORECASE)
_NEXT = re.compile(r"([^\W\d_]+(?:[-’'][^\W\d_]+)*)(\S*)")


def hyphens(pages: Pages) -> Repaired:
    """Rejoin words divided at line ends; the words of the document distinguish "third-party" from "govern-ment"."""
    known = compounds(pages)
    edits: list[Edit] = []
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
    return [[line._replace(text=line.text.replace(HYPHEN, "-")) for line in page if line.text] for page in fixed], edits


def joined(text: str, following: str, known: Compounds) -> str:
    """A text and its next line, with a space between them or the word that is divided there."""
    if found := _rejoined(text, following, known):
        whole, end = found
        return f"{whole} {following[end:].lstrip()}".rstrip()
    return f"{text} {following}".replace(HYPHEN, "-")


def _rejoined(text: str, following: str, known: Compounds) -> tuple[str, int] | None:
    """A line with its last word whole, and where the rest of the following line begins; None if no word is divided."""
    if _NUMBER.search(text) and (number := re.match(r"\d\S*", following)):
        return text + number[0], number.end()
    last = last_word(text)
    if not last or not (first := _NEXT.match(following)):
        return None
    if _SECOND_PART.fullmatch(first[1]) and not known.words[(last + first[1]).lower()]:
        return None  # "short- and long-term"
    whole = known.whole(last, first[1], text[-1], capitals=text.isupper() and following.isupper())
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


def drop_caps(pages: Pages) -> Repaired:
    """Join a capital at least 1.6 times as large as the line to its right with that line.

    It is the next line; in files that hold such capitals elsewhere, the highest one that begins in lower case.
    """
    edits: list[Edit] = []
    words = cache(lambda: vocabulary(pages))
    fixed = [list(page) for page in pages]
    for lines in fixed:
        letters = [line for line in lines if line.size != 1 and len(line.text) == 1 and line.text.isupper()]
        for letter in letters[:_MOST]:
            at = next(place for place, line in enumerate(lines) if line is letter)
            beside = [place for place, line in enumerate(lines) if _begins(letter, line)]
            first = at + 1 if at + 1 in beside else max(beside, key=lambda place: lines[place].base, default=at)
            if first == at + 1 or (first != at and lines[first].text[0].islower()):
                line = lines[first]
                word = line.text.split(maxsplit=1)[0].strip(".,;:!?").lower()
                apart = letter.text in _LETTER_WORDS and words()[word] > words()[letter.text.lower() + word]
                space = " " if apart else ""
                lines[first] = line._replace(text=f"{letter.text}{space}{line.text}")
                edits.append(Edit("initial", line.page, f"{letter.text}\n{line.text}", lines[first].text))
                del lines[at]
    return fixed, edits


def _begins(letter: Line, line: Line) -> bool:
    large = letter.size > 1.6 * line.size
    beside = letter.base < line.base < letter.base + letter.size and line.left >= letter.right - 0.2 * letter.size
    is_word = line.text[0].isupper() and line.text[1:2].islower()  # of its own: "However"
    return large and beside and line.left < letter.right + letter.size and line.text[0].isalpha() and not is_word
