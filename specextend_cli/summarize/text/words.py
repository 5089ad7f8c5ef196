"""How many words a text has, in any script: what `--length` counts."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

import regex

_CHARACTERS = r"\p{Han}\p{Hiragana}\p{Katakana}ー"
_SYLLABLES = r"\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}"
UNSPACED = rf"{_CHARACTERS}{_SYLLABLES}"
"""Scripts without spaces between words, as the inside of a character class."""
_UNSPACED = regex.compile(rf"[{UNSPACED}]")
_CHARACTER = regex.compile(rf"[{_CHARACTERS}]")
_WORD = regex.compile(rf"[{_CHARACTERS}]|(?:[{_SYLLABLES}]\p{{M}}*){{1,4}}|[^\s{UNSPACED}]+")
_SAYS = regex.compile(r"[\p{L}\p{N}]")
_DENSE = 2  # Chinese or Japanese characters that say what a word says, nearly
_PAUSES = ",;:،؛、，；："
_LATE = 0.1  # of a beginning's words: how far before its end a pause is looked for


def by_character(text: str) -> bool:
    """Whether most of the text's letters are characters that count as words each: Chinese, Japanese."""
    if _CHARACTER.search(text) is None:
        return False
    letters = regex.findall(r"\p{L}", text)
    return 2 * sum(_CHARACTER.match(letter) is not None for letter in letters) > len(letters)


def words(text: str) -> list[str]:
    """What stands between spaces, as `wc -w` counts; in scripts without spaces what word processors count.

    There a Chinese or Japanese character is a word, and so are four letters of the other scripts, about the mean.
    """
    return text.split() if _UNSPACED.search(text) is None else [text[start:end] for start, end in _spans(text)]


def count_words(text: str) -> int:
    """How many `words` it has."""
    return len(words(text))


def length_of(text: str) -> float:
    """How long it is in words of languages that put spaces between them."""
    return count_words(text) / (_DENSE if by_character(text) else 1)


def beginning(text: str, most: int) -> str:
    """The first `most` words, or up to a pause a little before, and an ellipsis; the text itself where it has fewer."""
    ends: list[int] = []
    for _, end in _spans(text):
        if len(ends) == most:
            break
        ends.append(end)
    else:
        return text
    near = ends[ceil(most * (1 - _LATE)) - 1 :]
    end = next((end for end in reversed(near) if text[end - 1] in _PAUSES or text[end] in _PAUSES), near[-1])
    return text[:end].rstrip(f"{_PAUSES}-–—. ") + "…"


def _spans(text: str) -> Iterator[tuple[int, int]]:
    for match in _WORD.finditer(text):
        start, end = match.span()
        # Marks beside a character are no word; between spaces they are one, as for `wc`.
        if _SAYS.search(match[0]) or not (text[max(start - 1, 0) : start] + text[end : end + 1]).strip():
            yield start, end
