"""What a small model writes says where to look, not what is true: the document's own sentences in place of a draft's.

For every sentence of the draft, the sentence of the document that has most of its words. A draft's mistakes then cost
relevance, and never truth.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from specextend_cli.summarize.lexical import Index, terms
from specextend_cli.summarize.passages import Passage

_FLOOR = 0.15  # of a sentence's weight of words; what has less is about something else
_SAME = 0.7  # of its words; a passage that shares more with a quoted one says the same
_SHORT, _LONG = 6, 60  # words
_WHOLE = re.compile(
    r"[\"'(\[\N{LEFT DOUBLE QUOTATION MARK}]*[^\W\d_][^\N{BULLET}●▪■]*[.!?][\"')\]\N{RIGHT DOUBLE QUOTATION MARK}]*"
)
_LEANS = re.compile(
    r"""(?:They|It|He|She|This|These|That|Those|Such|Their|Its|His|Her|But|And|Or|Nor|So|Yet|Also|Rather|Instead|However
      |Otherwise|Furthermore|Additionally|Nevertheless|Nonetheless|Conversely|Similarly|Likewise|Specifically|Therefore
      |Thus|Hence|Consequently|Moreover|For\ (?:example|instance)|In\ (?:particular|contrast|turn|short|addition)
      |By\ (?:contrast|comparison)|On\ the\ other\ hand|As\ a\ result
      |(?:Because\ of|Despite|Given|Under|To\ address)\ th(?:is|ese|at|ose)
      |(?:Table|Figure|Chart|Exhibit|Appendix|Box)\ [\dA-Z]+)\b""",
    re.VERBOSE,
)
_CONTACT = re.compile(r"\(\d{3}\) ?\d{3}-\d{4}|\w@\w|https?://|\bwww\.")


@dataclass(frozen=True, slots=True)
class Quote:
    """A passage by its number, and the number of the draft's sentence for which it stands."""

    passage: int
    draft: int


class Quoter:
    """Quotes one document. No passage is quoted twice, nor one that says the same as another."""

    def __init__(self, text: str, passages: Sequence[Passage], index: Index) -> None:
        self._texts = [text[passage.start : passage.end] for passage in passages]
        self._index = index
        self._quoted: list[set[str]] = []
        self._spare = 0

    def quotes(self, draft: Sequence[str], read: range, room: int, count: Callable[[str], int]) -> list[Quote]:
        """For each sentence of a draft at most one passage of those `read`, in the document's order.

        The best come first, while there is `room`, in the units of `count`. What is left of it, or was taken too much
        by the last one, later drafts have more or less. One passage at least is left out.
        """
        found: list[Quote] = []
        room += self._spare
        for _, at, passage in sorted(self._candidates(draft, read)):
            text = self._texts[passage]
            if room <= 0 or len(found) + 1 >= len(read):
                break
            if any(quote.draft == at for quote in found) or not self._is_new(text):
                continue
            room -= count(text)
            self._quoted.append(terms(text))
            found.append(Quote(passage, at))
        self._spare = room
        return sorted(found, key=lambda quote: quote.passage)

    def text(self, quote: Quote) -> str:
        """What is quoted."""
        return self._texts[quote.passage]

    def _candidates(self, draft: Sequence[str], read: range) -> Iterator[tuple[float, int, int]]:
        for at, sentence in enumerate(draft):
            for passage, share in self._index.shares(self._index.weights(sentence), read).items():
                if share >= _FLOOR and stands_alone(self._texts[passage]):
                    yield -share, at, passage

    def _is_new(self, text: str) -> bool:
        own = terms(text)
        return all(len(own & other) < _SAME * min(len(own), len(other)) for other in self._quoted)


def stands_alone(sentence: str) -> bool:
    """Whether it is a whole sentence of a length to be read, says more than whom to call, and begins by itself."""
    if not _SHORT <= len(sentence.split()) <= _LONG or _LEANS.match(sentence) or _CONTACT.search(sentence):
        return False
    if sentence.count("(") != sentence.count(")") or sentence.count('"') % 2:
        return False  # cut at "(see fig. 2)", or in the middle of what somebody said
    first = next((character for character in sentence if character.isalnum()), "")
    return first.isupper() and _WHOLE.fullmatch(sentence) is not None
