"""Numbers and dates in a text, each with every way to read it: 1,000 is 1000, twelve is 12, 4.2 million is 4200000."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

# fmt: off
_UNITS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_NAMES = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)
# fmt: on
_SPELT = {word: n for n, word in enumerate(_UNITS)} | {word: 10 * n for n, word in enumerate(_TENS, 2)}
_SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_SHORT = {"k": 10**3, "m": 10**6, "mn": 10**6, "bn": 10**9}
_MONTHS = {name[:cut]: n for n, name in enumerate(_NAMES, 1) for cut in (3, len(name))} | {"sept": 9}

_GAP = "\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}\N{THIN SPACE}"
_DIGITS = re.compile(
    rf"(?<![\w.])(?P<digits>\d{{1,3}}(?:[{_GAP}]\d{{3}})+(?!\d)|\d+(?:[.,]\d+)*)"
    rf"(?:[ {_GAP}-]?(?P<scale>hundred|thousand|million|billion|trillion)\b|(?P<short>k|mn?|bn)\b)?(?P<decade>s\b)?",
    re.IGNORECASE,
)
_RANGE = re.compile(r"\b(\d{2})(\d{2})[-\N{EN DASH}/](\d{2})\b(?!\d)")
_MOST = 10**24
_WORD = rf"(?:{'|'.join((*_SPELT, *_SCALES))})"
_WORDS = re.compile(rf"\b{_WORD}(?:(?:[ -]|\s+and\s+){_WORD})*\b", re.IGNORECASE)
_ORDINAL = re.compile(rf"\b(?:{'|'.join(_ORDINALS)})\b", re.IGNORECASE)

_MONTH = rf"(?P<month>{'|'.join(sorted(_MONTHS, key=len, reverse=True))})\b\.?"
_DAY, _YEAR = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?", r"(?P<year>\d{4})"
_DATES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b{_DAY}\s+(?:of\s+)?{_MONTH}(?:,?\s+{_YEAR}\b)?",
        rf"\b{_MONTH}\s+{_DAY}\b(?!\d)(?:,?\s+{_YEAR}\b)?",
        rf"\b{_MONTH},?\s+(?:of\s+)?{_YEAR}\b",
        r"\b(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})\b",
        r"\b(?P<month>\d{1,2})[/.](?P<day>\d{1,2})[/.](?P<year>\d{4})\b",
    )
)


@dataclass(frozen=True, slots=True)
class Number:
    """Characters [start, end) and the values they may stand for; `spelt` in words; a `decade` is "the 1930s"."""

    start: int
    end: int
    readings: frozenset[str]
    spelt: bool = False
    decade: bool = False


@dataclass(frozen=True, slots=True)
class Date:
    """Characters [start, end) and the (year, month, day) they may stand for; 0 where one is not said."""

    start: int
    end: int
    readings: frozenset[tuple[int, int, int]]


def dates(text: str) -> list[Date]:
    """The dates that name a month, and those in figures: 2019-03-12, 3/12/2019. Sorted, without overlap."""
    found: list[Date] = []
    taken: set[int] = set()
    for pattern in _DATES:
        for match in pattern.finditer(text):
            readings = frozenset(_date_readings(match.groupdict()))
            if readings and not taken & {match.start(), match.end() - 1}:
                taken.update(range(match.start(), match.end()))
                found.append(Date(match.start(), match.start() + len(match[0].rstrip(".")), readings))
    return sorted(found, key=lambda date: date.start)


def _date_readings(parts: dict[str, str | None]) -> Iterator[tuple[int, int, int]]:
    year, day = int(parts.get("year") or 0), int(parts.get("day") or 0)
    said = (parts["month"] or "").lower().rstrip(".")
    month = _MONTHS.get(said) or int(said)
    for one, other in ((month, day), (day, month)) if said.isdigit() else ((month, day),):
        if 1 <= one <= 12 and other <= 31:
            yield year, one, other


def numbers(text: str) -> list[Number]:
    """The numbers, in figures and in words, those of dates included. Sorted, without overlap."""
    found = [
        Number(m.start(), m.end(), frozenset(_figures(m)), decade=m["decade"] is not None)
        for m in _DIGITS.finditer(text)
    ]
    starts = [number.start for number in found]
    ends = [0, *(number.end for number in found)]
    found += [
        Number(m.start(), m.end(), frozenset({str(_value(m[0]))}), spelt=True)
        for m in _WORDS.finditer(text)
        if m.start() >= ends[bisect_right(starts, m.start())]  # not the scale of "3 million"
    ]
    return sorted(found, key=lambda number: number.start)


def values(text: str) -> set[str]:
    """Everything that a number in `text` may stand for, "third" and the far end of "1931-33" included."""
    found = {reading for number in numbers(text) for reading in number.readings}
    found |= {str(_ORDINALS.index(m[0].lower()) + 1) for m in _ORDINAL.finditer(text)}
    found |= {century + end for century, _, end in _RANGE.findall(text)}
    spelt = {word for m in _WORDS.finditer(text) for word in re.split(r"[\s-]+", m[0].lower())}
    return found | {str(_SPELT[word]) for word in spelt if word in _SPELT}


def _figures(match: re.Match[str]) -> Iterator[str]:
    """Separators may group thousands or begin the decimals; a short scale may be a unit: "5m"."""
    digits = re.sub(rf"[{_GAP}]", "", match["digits"])
    scale = _SCALES[match["scale"].lower()] if match["scale"] else 1
    for plain in _plain(digits):
        try:
            value = Decimal(plain)
        except InvalidOperation:  # 1.2.3
            yield plain
            continue
        yield _canonical(value * scale)
        if match["short"]:
            yield _canonical(value * _SHORT[match["short"].lower()])


def _plain(digits: str) -> Iterator[str]:
    grouped = re.fullmatch(r"\d{1,3}([.,])\d{3}(?:\1\d{3})*(?:[.,]\d+)?", digits)
    if grouped:
        yield digits.replace(grouped[1], "").replace(",", ".")
    if len(re.findall(r"[.,]", digits)) <= 1:
        yield digits.replace(",", ".")
    elif not grouped:
        yield digits


def _canonical(value: Decimal) -> str:
    text = f"{value:f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text).lstrip("0") or "0"


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
