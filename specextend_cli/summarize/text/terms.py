"""The words of a text in a form in which they can be compared: without case, accents and endings."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

import regex

from specextend_cli.summarize.text.words import UNSPACED

_TERM = regex.compile(
    rf"(?P<run>[{UNSPACED}\p{{Hangul}}]+)|(?P<number>\d+(?:[.,]\d+)*)|[\p{{L}}\p{{M}}--[{UNSPACED}\p{{Hangul}}]]+",
    regex.V1,
)
_ASCII = re.compile(r"[a-z]+|\d+(?:[.,]\d+)*")  # the same for a text of ASCII, in a quarter of the time
_KNOWN = 1 << 14  # words whose form is kept
_GRAM = 2  # characters of a term in scripts without spaces, and in Korean, whose particles join words
_ENDING = re.compile(r"(?<=\w{3})(?:ing|ed|es|s|ly|e)$")
_POSSESSIVE = re.compile("['\N{RIGHT SINGLE QUOTATION MARK}]s\\b")


class _Folded(dict[int, str]):
    """Each character without its accents, found when it is first asked for."""

    def __missing__(self, code: int) -> str:
        parts = unicodedata.normalize("NFKD", chr(code))
        found = self[code] = "".join(part for part in parts if not unicodedata.combining(part))
        return found


_FOLDED = _Folded()


def without_accents(text: str) -> str:
    """The compatibility decomposition (NFKD) of `text` without combining marks.

    Characters are decomposed one by one, in linear time. Normalizing the text as a whole sorts the marks behind a
    letter, and a letter with 100,000 marks takes hours.
    """
    return text if text.isascii() else text.translate(_FOLDED)


def terms(text: str) -> set[str]:
    """The words and numbers of a text, without case, accents, common endings and separators of thousands.

    In scripts without spaces, every two characters in a row. Digits are those of ASCII.
    """
    return set(ordered_terms(text))


def ordered_terms(text: str) -> list[str]:
    """The same, each as often as the text has it, in its order."""
    plain = without_accents(text.casefold())
    plain = _POSSESSIVE.sub("", unicodedata.normalize("NFC", plain))
    return [_ascii_term(word) for word in _ASCII.findall(plain)] if plain.isascii() else list(_terms(plain))


@lru_cache(_KNOWN)
def _ascii_term(word: str) -> str:
    return word.replace(",", "") if word[0].isdigit() else _ENDING.sub("", word)


def _terms(plain: str) -> Iterator[str]:
    for match in _TERM.finditer(plain):
        if match["number"]:
            yield "".join(str(unicodedata.decimal(c, c)) for c in match[0].replace(",", ""))
        elif match["run"]:
            run = match[0]
            yield from (run[at : at + _GRAM] for at in range(max(len(run) - _GRAM + 1, 1)))
        else:
            yield _ENDING.sub("", match[0])
