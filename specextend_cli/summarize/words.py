"""The words of a text: how many there are, what they are compared by, and of which language they are."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from itertools import islice
from math import ceil
from pathlib import Path
from typing import Any

import regex

from specextend_cli import toml

_CHARACTERS = r"\p{Han}\p{Hiragana}\p{Katakana}ー"
_SYLLABLES = r"\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}"
_SPACELESS = rf"{_CHARACTERS}{_SYLLABLES}"  # scripts without spaces between words
_UNSPACED = regex.compile(rf"[{_SPACELESS}]")
_CHARACTER = regex.compile(rf"[{_CHARACTERS}]")
_WORD = regex.compile(rf"[{_CHARACTERS}]|(?:[{_SYLLABLES}]\p{{M}}*){{1,4}}|[^\s{_SPACELESS}]+")
_SAYS = regex.compile(r"[\p{L}\p{N}]")
_DENSE = 2  # Chinese or Japanese characters that say what a word says, nearly
_PAUSES = ",;:،؛、，；："
_LATE = 0.1  # of a beginning's words: how far before its end a pause is looked for
_TERM = regex.compile(
    rf"(?P<run>[{_SPACELESS}\p{{Hangul}}]+)|(?P<number>\d+(?:[.,]\d+)*)|[\p{{L}}\p{{M}}--[{_SPACELESS}\p{{Hangul}}]]+",
    regex.V1,
)
_ASCII = re.compile(r"[a-z]+|\d+(?:[.,]\d+)*")  # the same for a text of ASCII, in a quarter of the time
_KNOWN = 1 << 14  # words whose form is kept
_GRAM = 2  # characters of a term in scripts without spaces, and in Korean, whose particles join words
_ENDING = re.compile(r"(?<=\w{3})(?:ing|ed|es|s|ly|e)$")
_POSSESSIVE = re.compile("['\N{RIGHT SINGLE QUOTATION MARK}]s\\b")
_SCRIPTS = {
    "ja": regex.compile(r"[\p{Hiragana}\p{Katakana}]"),
    "zh": regex.compile(r"\p{Han}"),
    "ko": regex.compile(r"\p{Hangul}"),
    "th": regex.compile(r"\p{Thai}"),
}
"""What languages without small words between spaces are told by."""
_LETTERED = regex.compile(r"\p{L}[\p{L}\p{M}]*")
_SAMPLE = 50_000  # characters that are looked at
_SCRIPT = 0.15  # of the letters, at least; Japanese has so many syllables between the characters of Chinese
_LEAST = 0.05  # of the words, at least: tables and code have fewer
_MORE = 1.5  # times as many words as English has of its own, at least


@cache
def table(name: str) -> dict[str, Any]:
    """The file of words of that name beside this module, or below it."""
    return toml.loads((Path(__file__).parent / f"{name}.toml").read_text(encoding="utf-8"))


_LANGUAGES = table("languages")
NAMES: Mapping[str, str] = _LANGUAGES["names"]
"""The languages that are told apart, by their codes (ISO 639-1)."""
_SMALL_WORDS = {code: words.split() for code, words in _LANGUAGES["words"].items()}


def by_character(text: str) -> bool:
    """Whether most of the text's letters are characters that count as words each: Chinese, Japanese."""
    if text.isascii() or _CHARACTER.search(text) is None:
        return False
    letters = regex.findall(r"\p{L}", text)
    return 2 * sum(_CHARACTER.match(letter) is not None for letter in letters) > len(letters)


def words(text: str) -> list[str]:
    """What stands between spaces, as `wc -w` counts; in scripts without spaces what word processors count.

    There a Chinese or Japanese character is a word, and so are four letters of the other scripts, about the mean.
    """
    is_spaced = text.isascii() or _UNSPACED.search(text) is None
    return text.split() if is_spaced else [text[start:end] for start, end in _spans(text)]


def count_words(text: str) -> int:
    """How many `words` it has."""
    return len(words(text))


def length_of(text: str) -> float:
    """How long it is in words of languages that put spaces between them."""
    return count_words(text) / (_DENSE if by_character(text) else 1)


def beginning(text: str, most: int) -> str:
    """The first `most` words, or up to a pause a little before, and an ellipsis; the text itself where it has fewer."""
    ends = [end for _, end in islice(_spans(text), most + 1)]
    if len(ends) <= most:
        return text
    near = ends[ceil(most * (1 - _LATE)) - 1 : most]
    end = next((end for end in reversed(near) if text[end - 1] in _PAUSES or text[end] in _PAUSES), near[-1])
    return text[:end].rstrip(f"{_PAUSES}-–—. ") + "…"


def _spans(text: str) -> Iterator[tuple[int, int]]:
    for match in _WORD.finditer(text):
        start, end = match.span()
        # Marks beside a character are no word; between spaces they are one, as for `wc`.
        if _SAYS.search(match[0]) or not (text[max(start - 1, 0) : start] + text[end : end + 1]).strip():
            yield start, end


@cache
def _folded(character: str) -> str:
    parts = unicodedata.normalize("NFKD", character)
    return "".join(part for part in parts if not unicodedata.combining(part))


def without_accents(text: str) -> str:
    """The compatibility decomposition (NFKD) of `text` without combining marks.

    Characters are decomposed one by one, in linear time. Normalizing the text as a whole sorts the marks behind a
    letter, and a letter with 100,000 marks takes hours.
    """
    return text if text.isascii() else "".join(map(_folded, text))


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


EMPTY = terms(_LANGUAGES["empty"])
"""They ask and join, and say nothing of the subject; a report has "what" too rarely for its rarity to tell."""


def language_of(text: str) -> str:
    """The code of a text's language; "en" where neither script nor words say that it is another one."""
    sample = text[:_SAMPLE]
    if not sample.isascii():
        letters = len(regex.findall(r"\p{L}", sample))
        for code, script in _SCRIPTS.items():
            if len(script.findall(sample)) > _SCRIPT * letters:
                return code
    counts = Counter(_LETTERED.findall(sample.lower()))
    shares = {code: sum(counts[word] for word in words) for code, words in _SMALL_WORDS.items()}
    best = max(shares, key=lambda code: shares[code])
    return best if shares[best] > max(_LEAST * counts.total(), _MORE * shares["en"]) else "en"
