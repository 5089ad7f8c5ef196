"""Numbers, dates and names in a summary that its source does not have. What the source says is indexed once.

Numbers and dates are compared by value: 1,000 is 1000, twelve is 12, 4.2 million is 4200000, 3 May is May 3rd.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import Literal

from specextend_cli.summarize.sentences import spans
from specextend_cli.summarize.words import table, without_accents

_FACTS = {name: words.split() for name, words in table("facts").items()}
_UNITS, _TENS, _ORDINALS, _NAMES, _PLAIN = (_FACTS[name] for name in ("units", "tens", "ordinals", "months", "plain"))
_SPELT = {word: n for n, word in enumerate(_UNITS)} | {word: 10 * n for n, word in enumerate(_TENS, 2)}
_SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_SHORT = {"k": 10**3, "m": 10**6, "mn": 10**6, "bn": 10**9}
_MONTHS = {name[:cut]: n for n, name in enumerate(_NAMES, 1) for cut in (3, len(name))} | {"sept": 9}
_VAGUE = frozenset(("0", "1", "100", "1000", "1000000"))  # "one of them", "hundreds": hardly ever a figure
_MOST = 10**24

_GAP = "\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}\N{THIN SPACE}"
_DIGITS = re.compile(
    rf"(?<![\w.])(?P<digits>\d{{1,3}}(?:[{_GAP}]\d{{3}})+(?!\d)|\d+(?:[.,]\d+)*)"
    rf"(?:[ {_GAP}-]?(?P<scale>{'|'.join(_SCALES)})\b|(?P<short>k|mn?|bn)\b|s\b)?",
    re.IGNORECASE,
)
_WORD = rf"(?:{'|'.join(_SPELT)}|(?<!\d[ {_GAP}-])(?:{'|'.join(_SCALES)}))"  # not the scale of "3 million"
_WORDS = re.compile(rf"\b{_WORD}(?:(?:[ -]|\s+and\s+){_WORD})*\b", re.IGNORECASE)
_ORDINAL = re.compile(rf"\b(?:{'|'.join(_ORDINALS)})\b", re.IGNORECASE)
_MONTH, _DAY = rf"({'|'.join(sorted(_MONTHS, key=len, reverse=True))})\b\.?", r"(\d{1,2})(?:st|nd|rd|th)?"
_DATE = re.compile(
    rf"\b(?:{_DAY}\s+(?:of\s+)?{_MONTH}|{_MONTH}\s+{_DAY}\b(?!\d))(?:,?\s+(\d{{4}})\b)?"
    rf"|\b{_MONTH},?\s+(?:of\s+)?(\d{{4}})\b",
    re.IGNORECASE,
)

_LETTERS = re.compile(r"[^\W\d_]+(?:['\N{RIGHT SINGLE QUOTATION MARK}][^\W\d_]+)*")
_POSSESSIVE = re.compile(r"['\N{RIGHT SINGLE QUOTATION MARK}]s?$")
_ENDING = re.compile(r"(?<=\w{4})(?:ians?|ans?|ese|ish|ia|ns?|a|y|i|e|s)$")
_ITEM = re.compile(r"\s*(?:[-*\N{BULLET}]\s+|\(?\d{1,3}[.)]\s+)?[\"'(\[\N{LEFT DOUBLE QUOTATION MARK}]*")
_OPENS = re.compile(r"(?:[:\N{EM DASH}]\s+|[\"\N{LEFT DOUBLE QUOTATION MARK}])$")
_MANY = 200  # words; in fewer, the share of capitals says little
_NOUNS = 0.25  # from this share of capitals on, a language capitalizes its nouns, or a text everything


@dataclass(frozen=True, slots=True)
class Unsupported:
    """Characters [start, end) of a sentence, `text`, which occur in the source in no spelling that is known here."""

    text: str
    kind: Literal["number", "date", "name"]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Number:
    """Characters [start, end) and the values they may stand for; `spelt` in words."""

    start: int
    end: int
    readings: frozenset[str]
    spelt: bool = False


@dataclass(frozen=True, slots=True)
class Date:
    """Characters [start, end), and year, month and day; 0 where one is not said."""

    start: int
    end: int
    year: int
    month: int
    day: int


class FactSource:
    """What a text has in the way of numbers, dates and names."""

    def __init__(self, text: str) -> None:
        self.text = text

    def unsupported(self, text: str) -> list[Unsupported]:
        """What of `text`, one or more sentences, the source does not have; in order."""
        said = list(dates(text))
        # Where each sentence begins, and its first word: after the mark of a list's item, and quotation marks.
        items = {start: match.end() for start, end in spans(text) if (match := _ITEM.match(text, start, end))}
        found = [
            Unsupported(text[one.start : one.end], "date", one.start, one.end) for one in said if not self._knows(one)
        ]
        for number in numbers(text):
            counts = any(start <= number.start < body for start, body in items.items())  # "2. " before an item
            vague = number.spelt and number.readings <= _VAGUE
            if not (counts or vague or _within(number.start, said)) and number.readings.isdisjoint(self._values):
                found.append(Unsupported(text[number.start : number.end], "number", number.start, number.end))
        if self._names_can_be_told:
            for start, end in _names(text, set(items.values()), said):
                words = (match[0] for match in _LETTERS.finditer(text, start, end))
                if not all(word.lower() in _PLAIN or self._has_word(word) for word in words):
                    found.append(Unsupported(text[start:end], "name", start, end))
        return sorted(found, key=lambda one: one.start)

    def _knows(self, date: Date) -> bool:
        """The date itself, one that says more, or the day without a year where the year stands elsewhere."""
        if any(m == date.month and date.year in (0, y) and date.day in (0, d) for y, m, d in self._dates):
            return True
        return date.day > 0 and (0, date.month, date.day) in self._dates and str(date.year) in self._values

    def _has_word(self, word: str) -> bool:
        return not _forms(word).isdisjoint(self._words) or (word.isupper() and word in self._acronyms)

    @cached_property
    def _values(self) -> set[str]:
        return values(self.text)

    @cached_property
    def _dates(self) -> set[tuple[int, int, int]]:
        return {(date.year, date.month, date.day) for date in dates(self.text)}

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


def dates(text: str) -> Iterator[Date]:
    """The dates that name a month. Sorted, without overlap."""
    for match in _DATE.finditer(text):
        first_day, after, before, second_day, year, alone, its_year = match.groups()
        month, day = _MONTHS[(after or before or alone).lower()], int(first_day or second_day or 0)
        if day <= 31:
            end = match.start() + len(match[0].rstrip("."))
            yield Date(match.start(), end, int(year or its_year or 0), month, day)


def numbers(text: str) -> list[Number]:
    """The numbers, in figures and in words, those of dates included. Sorted, without overlap."""
    figures = (Number(match.start(), match.end(), frozenset(_figures(match))) for match in _DIGITS.finditer(text))
    spelt = (Number(m.start(), m.end(), frozenset({str(_value(m[0]))}), spelt=True) for m in _WORDS.finditer(text))
    return sorted((*figures, *spelt), key=lambda number: number.start)


def values(text: str) -> set[str]:
    """Everything that a number in `text` may stand for: "third", and both numbers of "five and ten", too."""
    found = {reading for number in numbers(text) for reading in number.readings}
    found |= {str(_ORDINALS.index(match[0].lower()) + 1) for match in _ORDINAL.finditer(text)}
    spelt = {word for match in _WORDS.finditer(text) for word in re.split(r"[\s-]+", match[0].lower())}
    return found | {str(_SPELT[word]) for word in spelt if word in _SPELT}


def _figures(match: re.Match[str]) -> Iterator[str]:
    """Separators may group thousands or begin the decimals; a short scale may be a unit: "5m"."""
    digits = re.sub(rf"[{_GAP}]", "", match["digits"])
    scales = [_SCALES[match["scale"].lower()] if match["scale"] else 1]
    scales += [_SHORT[match["short"].lower()]] if match["short"] else []
    for plain in _plain(digits):
        try:
            value = Decimal(plain)
        except InvalidOperation:  # 1.2.3
            yield plain
            continue
        yield from (f"{(value * scale).normalize():f}" for scale in scales)


def _plain(digits: str) -> Iterator[str]:
    grouped = re.fullmatch(r"\d{1,3}([.,])\d{3}(?:\1\d{3})*(?:[.,]\d+)?", digits)
    if grouped:
        yield digits.replace(grouped[1], "").replace(",", ".")
    if len(re.findall(r"[.,]", digits)) <= 1:
        yield digits.replace(",", ".")
    elif not grouped:
        yield digits


def _value(words: str) -> int:
    """ "two hundred and five thousand" -> 205000."""
    total, group = 0, 0
    for word in re.split(r"[\s-]+", words.lower()):
        scale = _SCALES.get(word)
        if scale is None:
            group += _SPELT.get(word, 0)  # "and" adds nothing
        elif scale == 100:
            group = min(max(group, 1) * scale, _MOST)  # "hundred hundred hundred" is no number
        else:
            total, group = min(total + max(group, 1) * scale, _MOST), 0
    return total + group


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
