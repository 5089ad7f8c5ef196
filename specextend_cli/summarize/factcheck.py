"""Numbers, dates and names in a summary that its source does not have. What the source says is indexed once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from specextend_cli.summarize.quantities import Date, Number, dates, numbers, values
from specextend_cli.summarize.text.sentences import spans
from specextend_cli.summarize.text.terms import without_accents

Kind = Literal["number", "date", "name"]


@dataclass(frozen=True, slots=True)
class Unsupported:
    """Characters [start, end) of a sentence, `text`, which occur in the source in no spelling that is known here."""

    text: str
    kind: Kind
    start: int
    end: int


_LETTERS = re.compile(r"[^\W\d_]+(?:['\N{RIGHT SINGLE QUOTATION MARK}][^\W\d_]+)*")
_POSSESSIVE = re.compile(r"['\N{RIGHT SINGLE QUOTATION MARK}]s?$")
_ENDING = re.compile(r"(?<=\w{4})(?:ians?|ans?|ese|ish|ia|ns?|a|y|i|e|s)$")
_ITEM = re.compile(r"\s*(?:[-*\N{BULLET}]\s+|\(?\d{1,3}[.)]\s+)?[\"'(\[\N{LEFT DOUBLE QUOTATION MARK}]*")
_OPENS = re.compile(r"(?:[:\N{EM DASH}]\s+|[\"\N{LEFT DOUBLE QUOTATION MARK}])$")
# fmt: off
_PLAIN = frozenset((
    "a", "an", "and", "as", "at", "but", "by", "dr", "for", "from", "he", "her", "his", "i", "if", "in", "is", "it",
    "its", "mr", "mrs", "ms", "no", "of", "on", "or", "our", "prof", "she", "that", "the", "their", "they", "this",
    "to", "was", "we", "were", "when", "where", "which", "with", "you",
))
# fmt: on
_MANY = 200  # words; in fewer, the share of capitals says little
_NOUNS = 0.25  # from this share of capitals on, a language capitalizes its nouns, or a text everything


class FactSource:
    """What a text has in the way of numbers, dates and names."""

    def __init__(self, text: str) -> None:
        self.text = text

    def unsupported(self, text: str) -> list[Unsupported]:
        """What of `text`, one or more sentences, the source does not have; in order."""
        said = dates(text)
        # Where each sentence begins, and its first word: after the mark of a list's item, and quotation marks.
        items = {start: match.end() for start, end in spans(text) if (match := _ITEM.match(text, start, end))}
        found = [
            Unsupported(text[date.start : date.end], "date", date.start, date.end)
            for date in said
            if not any(self._knows(*reading) for reading in date.readings)
        ]
        for number in numbers(text):
            counts = any(start <= number.start < body for start, body in items.items())  # "2. " before an item
            if not (counts or _within(number.start, said) or self._has_number(number)):
                found.append(Unsupported(text[number.start : number.end], "number", number.start, number.end))
        if self._names_can_be_told:
            for start, end in _names(text, set(items.values()), said):
                words = (match[0] for match in _LETTERS.finditer(text, start, end))
                if not all(word.lower() in _PLAIN or self._has_word(word) for word in words):
                    found.append(Unsupported(text[start:end], "name", start, end))
        return sorted(found, key=lambda one: one.start)

    def _has_number(self, number: Number) -> bool:
        if number.spelt and number.readings <= {"0", "1", "100", "1000", "1000000"}:
            return True  # "one of them", "hundreds": hardly ever a figure
        if number.decade and not self._decades.isdisjoint(said[:-1] for said in number.readings):
            return True
        return not number.readings.isdisjoint(self._values)

    def _knows(self, year: int, month: int, day: int) -> bool:
        """The date itself, one that says more, or the day without a year where the year stands elsewhere."""
        if any(known[1] == month and year in (0, known[0]) and day in (0, known[2]) for known in self._dates):
            return True
        return bool(day) and (0, month, day) in self._dates and str(year) in self._values

    def _has_word(self, word: str) -> bool:
        return not _forms(word).isdisjoint(self._words) or (word.isupper() and word in self._acronyms)

    @cached_property
    def _values(self) -> set[str]:
        return values(self.text)

    @cached_property
    def _decades(self) -> set[str]:
        return {value[:-1] for value in self._values if len(value) == 4 and value.isdigit()}

    @cached_property
    def _dates(self) -> set[tuple[int, int, int]]:
        return {reading for date in dates(self.text) for reading in date.readings}

    @cached_property
    def _words(self) -> set[str]:
        return {form for word in set(_LETTERS.findall(self.text)) for form in _forms(word)}

    @cached_property
    def _acronyms(self) -> set[str]:
        """First letters of two to six capitalized words in a row, small words between them not counted."""
        made: set[str] = set()
        heads, end = "", -1
        for match in _LETTERS.finditer(self.text):
            small = match[0] in _PLAIN
            if not (small or match[0][0].isupper()) or self.text[end : match.start()].strip(" \n-"):
                heads = ""
            end = match.end()
            if not small and match[0][0].isupper():
                heads = (heads + match[0][0])[-6:]
                made |= {heads[-size:] for size in range(2, len(heads) + 1)}
        return made

    @cached_property
    def _names_can_be_told(self) -> bool:
        words = _LETTERS.findall(self.text[:200_000])
        return len(words) < _MANY or sum(word[0].isupper() for word in words) < _NOUNS * len(words)


def _names(text: str, starts: set[int], said: Sequence[Date]) -> Iterator[tuple[int, int]]:
    """Runs of capitalized words, but for a word that begins a sentence and has no other reason for its capital."""
    start = end = -1
    for match in _LETTERS.finditer(text):
        word = match[0]
        opens = match.start() in starts or bool(_OPENS.search(text, max(match.start() - 3, 0), match.start()))
        named = word[0].isupper() and not _within(match.start(), said) and word.lower() not in _PLAIN
        named = named and not (opens and not any(letter.isupper() for letter in word[1:]))
        joined = start >= 0 and text[end : match.start()] in (" ", "-", "\N{NO-BREAK SPACE}")
        if start >= 0 and not (named and joined):
            yield start, end
            start = -1
        if named:
            start = match.start() if start < 0 else start
            end = match.start() + len(_POSSESSIVE.sub("", word))
    if start >= 0:
        yield start, end


def _within(at: int, said: Sequence[Date]) -> bool:
    return any(date.start <= at < date.end for date in said)


def _forms(word: str) -> set[str]:
    """A word without case, accents and possessive; and what is left of it without an ending: Italy, Italian."""
    plain = without_accents(word).casefold()
    plain = _POSSESSIVE.sub("", plain.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'"))
    singular = plain[:-1] if plain.endswith("s") and len(plain) > 3 else plain
    return {plain, singular, _ENDING.sub("", singular)}
