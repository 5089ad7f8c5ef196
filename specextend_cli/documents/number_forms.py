"""The forms of numbers in print: which words are one number, and which are two that lost the space between them."""

from __future__ import annotations

import re

_LONGEST = 40  # characters of a number
_AROUND = "($€£¥~≈±<>+−–-)%*†‡.,;:"
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_TIME = re.compile(r"\d{1,2}:\d\d(?::\d\d)?(?:\.\d+)?")
_SCIENTIFIC = re.compile(r"\d+(?:\.\d+)?[eE][+−-]?\d+")
_PLAIN = re.compile(r"\d+(?:\.\d+)?")
_SEPARATED = re.compile(r"[\d.,:]+")


def is_one_number(body: str, at: int) -> bool:
    """True if the word around a position has the form of one number: 14,918,000, 12:15:45, 1.5e-3."""
    word, _ = _word(body, at)
    word = word.strip(_AROUND)
    return any(form.fullmatch(word) for form in (_GROUPED, _TIME, _SCIENTIFIC))


def is_two_numbers(body: str, at: int) -> bool:
    """True if the word around a position is no number, and both of its parts are: 47,812,289|72,101,069."""
    word, place = _word(body, at)
    if not _SEPARATED.fullmatch(word.strip(_AROUND)) or _is_number(word):
        return False
    return _is_number(word[:place]) and _is_number(word[place:])


def _is_number(word: str) -> bool:
    word = word.strip(_AROUND)
    return any(form.fullmatch(word) for form in (_GROUPED, _TIME, _PLAIN))


def _word(body: str, at: int) -> tuple[str, int]:
    """The word around a position and the position in it; "" for one that is too long for a number."""
    start, end = at, at
    while start > 0 and at - start <= _LONGEST and not body[start - 1].isspace():
        start -= 1
    while end < len(body) and end - at <= _LONGEST and not body[end].isspace():
        end += 1
    return (body[start:end], at - start) if end - start <= _LONGEST else ("", 0)
