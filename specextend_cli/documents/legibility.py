"""Whether the text of a page can be read, or is what a PDF gives whose fonts do not say which letters they have."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from specextend_cli.documents.line import HYPHEN

_STRANGE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ue000-\uf8ff\ufff0-\ufffb\ufffd-\uffff\U000f0000-\U0010ffff]")
_UNSURE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # control characters: a few are only damage
_NAMES = re.compile(r"\(cid:\d{1,6}\)|/g(?:lyph|id)?\d{1,6}|/[A-Z]\d{1,3}(?=/)", re.IGNORECASE)
_LATIN = re.compile("[A-Za-z\u00c0-\u024f\u1e00-\u1eff]")
_SHARE = 0.05  # of the characters: with more of them without a meaning, a page is unreadable
_NAMED = 0.3  # of the characters, in names of glyphs
_ENOUGH = 40  # characters, before control characters count
_LETTERS = 100  # Latin letters in the words of a page, before their vowels are counted
_VOWELS = 0.2  # of them: 0.3 to 0.5 in languages, 0.23 in encoded data


def meaningless(lines: Sequence[str]) -> float:
    """The share of the characters of a page that mean nothing, where it is too large to be read; else 0.

    1 where each character means something and the words do not: letters that were shifted or exchanged.
    """
    text = "".join(line.removesuffix(HYPHEN) for line in lines)
    size = len(text) - text.count(" ") - text.count("\t")
    if not size:
        return 0.0
    strange = len(_STRANGE.findall(text))
    if size < _ENOUGH:
        strange -= len(_UNSURE.findall(text))
    if strange > _SHARE * size:
        return strange / size
    if sum(map(len, _NAMES.findall(text))) > _NAMED * size:
        return 1.0
    # Each word counts once: a table may repeat a few abbreviations.
    words = "".join(set(text.split()))
    latin = _LATIN.findall(words)
    if len(latin) < _LETTERS or len(latin) < 0.6 * sum(map(str.isalpha, words)):
        return 0.0
    return 1.0 if sum(map(_is_vowel, latin)) < _VOWELS * len(latin) else 0.0


@lru_cache(maxsize=2048)
def _is_vowel(letter: str) -> bool:
    return unicodedata.normalize("NFKD", letter)[0].casefold() in "aeiouyæøœıə"
