"""What a small model writes says where to look, not what is true: the document's own sentences in place of a draft's.

For every sentence of the draft, the sentence of the document that has most of its words. A draft's mistakes then cost
relevance, and never truth. Where those are too few for the length that is wanted, others of the document are added.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import regex

from specextend_cli.models.prompt_templates import Style
from specextend_cli.summarize.fitting import POOL, fits, fitted, leading
from specextend_cli.summarize.formatting import QuoteLayout
from specextend_cli.summarize.provenance import DocumentSentence
from specextend_cli.summarize.tfidf import TfidfIndex, terms
from specextend_cli.summarize.word_count import beginning, by_character, count_words

_FLOOR = 0.15  # of a sentence's weight of words; what has less is about something else
_SAME = 0.7  # of its words; a passage that shares more with a quoted one says the same
_KNOWN = 500  # passages with which others are compared, so that their number costs no more than itself
_SHORT, _LONG = 6, 60  # words
_DENSE = 2  # Chinese or Japanese characters that say what a word says, nearly
_LED = 0.2  # of the words of a summary: what the drafts must lead to at least
_ENOUGH = 0.5  # of the words that are usual; for that many, sentences are enough, and lines are left out
_CUT = (8, 4, 1)  # words that are left of a sentence that is cut
# A capital begins it, or a letter of a script that has none, after figures too: "2024年7月".
_WHOLE = regex.compile(
    r"""["'\p{Ps}\p{Pi}]*(?:\p{Lu}|\p{Lt}|\p{N}*[\p{Lo}\p{Georgian}])[^•●▪■]*
      (?:[.!?\p{STerm}]["'\p{Pe}\p{Pf}\p{Pi}]*|[\p{Thai}\p{Lao}])""",
    regex.VERBOSE,
)
_ENDED = regex.compile(r"""[.!?…\p{STerm}\p{Thai}\p{Lao}]["'\p{Pe}\p{Pf}]*\Z""")
_NEAR = 12  # characters before a sentence that show where the one before ends
_LEANS = regex.compile(
    r"""(?:They|It|He|She|This|These|That|Those|Such|Their|Its|His|Her|But|And|Or|Nor|So|Yet|Also|Rather|Instead|However
      |Otherwise|Furthermore|Additionally|Nevertheless|Nonetheless|Conversely|Similarly|Likewise|Specifically|Therefore
      |Thus|Hence|Consequently|Moreover|For\ (?:example|instance)|In\ (?:particular|contrast|turn|short|addition)
      |By\ (?:contrast|comparison)|On\ the\ other\ hand|As\ a\ result
      |(?:Because\ of|Despite|Given|Under|To\ address)\ th(?:is|ese|at|ose)
      |(?:Table|Figure|Chart|Exhibit|Appendix|Box)\ [\dA-Z]+)\b""",
    regex.VERBOSE,
)
_CONTACT = regex.compile(r"\(\d{3}\) ?\d{3}-\d{4}|\w@\w|https?://|\bwww\.")
_PAIRS = ("()", "[]", "「」", "『』", "（）", "【】", "《》")
_QUOTES = ('"', "„“”", "«»")  # which of a pair opens depends on the language


@dataclass(frozen=True, slots=True)
class Draft:
    """The sentences written about a part of a document, and the passages that were read for them."""

    said: Sequence[str]
    read: range


@dataclass(frozen=True, slots=True)
class Quote:
    """A passage by its number, of the part `draft`; `text` is it or its beginning, `instead` what it stands for.

    That is a sentence of the draft, or "" where nothing pointed to the passage.
    """

    passage: int
    draft: int
    text: str
    instead: str = ""


@dataclass(frozen=True, slots=True)
class Quotes:
    """In the document's order. `pointed`: drafts led to them; else they are the document's first sentences."""

    chosen: tuple[Quote, ...]
    pointed: bool


class SentenceSelector:
    """Quotes one document. What says the same as another passage comes last."""

    def __init__(self, text: str, passages: Sequence[DocumentSentence], index: TfidfIndex) -> None:
        self._texts = [text[passage.start : passage.end] for passage in passages]
        self._lone = [
            stands_alone(passage) and _begins(text, place.start)
            for passage, place in zip(self._texts, passages, strict=True)
        ]
        self._index = index

    def quotes(
        self, drafts: Sequence[Draft], wanted: int, *, usual: int, exact: bool, mark: int = 0, most: int | None = None
    ) -> Quotes:
        """Passages with `wanted` words in all, about equally many of every draft's part; `most` passages at most.

        A passage that stands for a sentence of a draft comes before others. Where these have less than a fifth of the
        words of a `usual` summary, the first sentences of the document are taken. Every passage counts `mark` words
        more than it has. What cannot be read by itself is left out, unless too little is left. Where an `exact` number
        of words cannot be met by whole sentences, the last one is cut.
        """
        known, sizes = self._worth(self._ranked(drafts), wanted, exact, mark)
        choices = [known[: leading(sizes, wanted, most)]]
        if exact:
            choices = [[known[i] for i in fitted(sizes, wanted)], _cut(known, sizes, wanted, mark), *choices]
        enough = _LED * min(wanted, usual)
        pointed = next((one for one in choices if _led(one) >= enough), None)
        chosen = pointed or self._lead(drafts, wanted, exact, mark, most)
        return Quotes(tuple(sorted(chosen, key=lambda quote: quote.passage)), pointed is not None)

    def _lead(self, drafts: Sequence[Draft], wanted: int, exact: bool, mark: int, most: int | None) -> Sequence[Quote]:
        """The first passages, but those first that can be read by themselves."""
        quotes = [Quote(i, number, self._texts[i]) for number, draft in enumerate(drafts) for i in draft.read]
        quotes.sort(key=lambda quote: not self._lone[quote.passage])
        known, sizes = self._worth(quotes, wanted, exact, mark)
        first = known[: leading(sizes, wanted, most)]
        if exact and not fits(sum(sizes[: len(first)]), wanted):
            return _cut(known, sizes, wanted, mark, leasts=(0,)) or first
        return first

    def _worth(self, ranked: Sequence[Quote], wanted: int, exact: bool, mark: int) -> tuple[list[Quote], list[int]]:
        """Those of which some will be taken, each with its size."""
        lone = [quote for quote in ranked if self._lone[quote.passage]]
        if sum(count_words(quote.text) + mark for quote in lone) >= wanted * (1 if exact else _ENOUGH):
            ranked = lone
        quotes: list[Quote] = []
        sizes: list[int] = []
        total = spare = 0
        for quote in self._without_repetition(ranked):
            quotes.append(quote)
            sizes.append(count_words(quote.text) + mark)
            total += sizes[-1]
            spare += total > wanted
            if spare > POOL:
                break
        return quotes, sizes

    def _without_repetition(self, ranked: Iterable[Quote]) -> Iterator[Quote]:
        """The same, but last those that say what one of the first says."""
        known: list[set[str]] = []
        repeated: list[Quote] = []
        for quote in ranked:
            own = terms(quote.text)
            if all(len(own & other) < _SAME * min(len(own), len(other)) for other in known):
                if len(known) < _KNOWN:
                    known.append(own)
                yield quote
            else:
                repeated.append(quote)
        yield from repeated

    def _ranked(self, drafts: Sequence[Draft]) -> list[Quote]:
        """All passages, the best first: by what they are, then by turns from all parts, as many words of each."""
        ranked: list[tuple[int, int, int, Quote]] = []
        for number, draft in enumerate(drafts):
            words = 0
            for kind, passage, instead in self._of_part(draft):
                quote = Quote(passage, number, self._texts[passage], instead)
                ranked.append((kind, words, len(ranked), quote))
                words += count_words(quote.text)
        return [quote for *_, quote in sorted(ranked, key=lambda one: one[:3])]

    def _of_part(self, draft: Draft) -> Iterator[tuple[int, int, str]]:
        """The passages that were read for a draft, the best first, with how good they are and what they stand for.

        0: the best passage of one of its sentences; 1: others with words of one; 2: sentences without; 3 and 4: what
        cannot be read by itself, with and without.
        """
        matches = sorted(self._matches(draft))
        used: set[int] = set()
        spoken: set[int] = set()
        for _, at, passage in matches:
            if self._lone[passage] and passage not in used and at not in spoken:
                used.add(passage)
                spoken.add(at)
                yield 0, passage, draft.said[at]
        for _, at, passage in matches:
            if self._lone[passage] and passage not in used:
                used.add(passage)
                yield 1, passage, draft.said[at]
        yield from ((2, passage, "") for passage in draft.read if self._lone[passage] and passage not in used)
        for _, at, passage in matches:
            if passage not in used:
                used.add(passage)
                yield 3, passage, draft.said[at]
        yield from ((4, passage, "") for passage in draft.read if not self._lone[passage] and passage not in used)

    def _matches(self, draft: Draft) -> Iterator[tuple[float, int, int]]:
        for at, sentence in enumerate(draft.said):
            for passage, share in self._index.shares(self._index.weights(sentence), draft.read).items():
                if share >= _FLOOR:
                    yield -share, at, passage


def in_style(quotes: Iterable[Quote], style: Style) -> Iterator[tuple[str, Quote]]:
    """Quotes in the document's order, each with the text that it adds to a summary in that style."""
    form = QuoteLayout(style)
    part = -1
    for quote in quotes:
        yield form.place(quote.text, topic=quote.draft != part), quote
        part = quote.draft


def stands_alone(sentence: str) -> bool:
    """Whether it is a whole sentence of a length to be read, says more than whom to call, and begins by itself."""
    size = count_words(sentence) / (_DENSE if by_character(sentence) else 1)
    if not _SHORT <= size <= _LONG or _LEANS.match(sentence) or _CONTACT.search(sentence):
        return False
    return _balanced(sentence) and _WHOLE.fullmatch(sentence) is not None


def _begins(text: str, start: int) -> bool:
    """Whether a sentence begins there, and not the rest of one that a chunk's end cut in two."""
    before = text[max(start - _NEAR, 0) : start]
    return not before.strip() or "\n" in before[len(before.rstrip()) :] or _ENDED.search(before.rstrip()) is not None


def _balanced(sentence: str) -> bool:
    """Whether parentheses and quotation marks close: else it was cut at "(see fig. 2)", or in somebody's speech."""
    if any(sentence.count(pair[0]) != sentence.count(pair[1]) for pair in _PAIRS):
        return False
    return all(sum(map(sentence.count, marks)) % 2 == 0 for marks in _QUOTES)


def _led(quotes: Iterable[Quote]) -> int:
    """The words of those to which a draft led."""
    return sum(count_words(quote.text) for quote in quotes if quote.instead)


def _cut(
    ranked: Sequence[Quote], sizes: Sequence[int], wanted: int, mark: int, leasts: Sequence[int] = _CUT
) -> list[Quote]:
    """The first that have room, and the beginning of another, of a few words at least if possible.

    None where all of them have fewer words than are wanted.
    """
    for least in leasts:
        taken: list[Quote] = []
        gap = wanted
        for quote, size in zip(ranked, sizes, strict=True):
            if size > gap:
                return [*taken, replace(quote, text=beginning(quote.text, max(gap - mark, 1)))]
            if size <= gap - least - mark:
                taken.append(quote)
                gap -= size
    return []
