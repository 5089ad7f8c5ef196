"""Whether a word that is divided at the end of a line keeps its hyphen: "long-term" does, "govern-ment" does not.

The words of the document tell, and where they do not, whether it divides words at all: what is written by word
processors and for browsers mostly has no other hyphens at line ends than those of its compounds.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

from specextend_cli.documents.line import HYPHEN, Line, Pages

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

    def whole(self, head: str, tail: str, sign: str, *, capitals: bool) -> str:
        """The word; names and codes in capitals keep their hyphen, unless everything is in `capitals`."""
        joined, hyphened = head + tail, f"{head}-{tail}"
        if not (tail[0].islower() or (head.isupper() and tail.isupper())):
            return hyphened
        seen_joined, seen_hyphened = self.words[joined.lower()], self.words[hyphened.lower()]
        if seen_joined or seen_hyphened:
            return hyphened if seen_hyphened > seen_joined else joined
        if head.isupper() and not capitals:
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
