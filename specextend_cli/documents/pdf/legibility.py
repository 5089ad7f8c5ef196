"""What characters of a PDF stand for where its fonts do not say: drawn accents, ligatures ("e↵orts"), unreadable pages.

TeX draws an accent over its letter as a character of its own; a button of a captured web page is a word in a font of
symbols.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache

from specextend_cli.documents.line import HYPHEN
from specextend_cli.documents.pdf.glyphs import Glyphs, Repair

KIND = "ligature"
UNKNOWN = "unreadable character"
UNREAD = "\ufffd"
"""Stands for a character that the fonts do not name."""

# Letters and signs that maps of some producers have for ligatures.
_LIGATURES = {"↵": "ff", "\u019f": "ti", "\u01a9": "tt", "\u014c": "ft"}
_CONTROL = "[\x00\x01\x03-\x08\x0b-\x1a\x1c-\x1f\ufffd]"  # without those that begin an escape sequence
_IN_WORD = re.compile(
    r"↵(?=[a-z])|(?<=[a-z])[↵\u019f\u01a9\u014c]|(?<=[^\W\d_])[\ue000-\uf8ff¤](?=[^\W\d_])"
    rf"|(?<=[^\W\d_]){_CONTROL}(?=[^\W\d_])|(?<!\S){_CONTROL}(?=[a-z]{{2}})|(?<=[a-z]{{2}}){_CONTROL}(?!\S)"
)

_STRANGE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ue000-\uf8ff\ufff0-\ufffb\ufffd-\uffff\U000f0000-\U0010ffff]")
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # a few are only damage
_GLYPH_NAMES = re.compile(r"\(cid:\d{1,6}\)|/g(?:lyph|id)?\d{1,6}|/[A-Z]\d{1,3}(?=/)", re.IGNORECASE)
_LATIN = re.compile("[A-Za-z\u00c0-\u024f\u1e00-\u1eff]")
_UNREADABLE = 0.05  # a larger share of meaningless characters
_NAMED = 0.3  # of the characters, in glyph names
_JUDGED = 40  # characters, before control characters count
_LETTERS = 100  # Latin letters in the words of a page, before their vowels are counted
_VOWELS = 0.2  # of them: 0.3 to 0.5 in languages, 0.23 in encoded data
_COMBINING = dict(
    zip(
        "`^~´¨¸ˆ˜ˇ˘¯˙˚˝˛",
        "\u0300\u0302\u0303\u0301\u0308\u0327\u0302\u0303\u030c\u0306\u0304\u0307\u030a\u030b\u0328",
        strict=True,
    )
)
_ACCENT = re.compile(f"[{''.join(_COMBINING)}]")
_LETTER = re.compile("[A-Za-zıȷ]")
_DOTLESS = {"ı": "i", "ȷ": "j"}
_BUTTON = re.compile(r"\b(?:nmlkj(i)?|gfedc(b)?)\b")
_NEAR = 0.05  # of the height of a letter: a space is wider
_RAISED = 0.5  # of the height of a letter: how far the accents of capitals are above their place


def unreadable_share(lines: Sequence[str], unmapped: float = 0) -> float:
    """The share of meaningless characters of a page where the page is unreadable; else 0.

    `unmapped`: the share of those that its fonts do not map to letters. 1 where the characters are letters but the
    words are not: shifted or exchanged letters.
    """
    text = "".join(line.removesuffix(HYPHEN) for line in lines)
    size = len(text) - text.count(" ") - text.count("\t")
    if not size:
        return 0.0
    strange = len(_STRANGE.findall(text))
    if size < _JUDGED:
        strange -= len(_CONTROLS.findall(text))
    if (share := max(strange / size, unmapped)) > _UNREADABLE:
        return share
    if sum(map(len, _GLYPH_NAMES.findall(text))) > _NAMED * size:
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


def read_ligatures(text: str, repairs: list[Repair]) -> str:
    """A line with the letters of its ligatures, and `UNREAD` for other characters in words that are no letters.

    What is replaced is added to `repairs`.
    """

    def letters(match: re.Match[str]) -> str:
        found = _LIGATURES.get(match[0], UNREAD)
        repairs.append((UNKNOWN if found == UNREAD else KIND, match[0], found))
        return found

    return _IN_WORD.sub(letters, text)


def put_together(glyphs: Glyphs, text: str) -> dict[int, str]:
    """What characters of the text of a page stand for, by position; "" for those that belong to another."""
    found: dict[int, str] = {}
    for match in _ACCENT.finditer(text):
        at = match.start()
        for near in (at + 1, at - 1):
            if 0 <= near < len(text) and _LETTER.match(text, near) and near not in found and _is_on(glyphs, at, near):
                letter = _DOTLESS.get(text[near], text[near]) + _COMBINING[match[0]]
                if len(letter := unicodedata.normalize("NFC", letter)) == 1:
                    found |= {at: "", near: letter}
                    found |= dict.fromkeys(_false_spaces(glyphs, text, near, at), "")
                    break
    for match in _BUTTON.finditer(text):
        is_radio = text[match.start()] == "n"
        mark = (" ", "x")[bool(match[1] or match[2])]
        found |= dict.fromkeys(range(*match.span()), "")
        found[match.start()] = f"({mark})" if is_radio else f"[{mark}]"
    return found


def _false_spaces(glyphs: Glyphs, text: str, letter: int, accent: int) -> Iterator[int]:
    """The spaces that PDFium put beside a letter because of its accent."""
    _, low, _, high = glyphs.box(letter)
    before, behind = min(letter, accent) - 1, max(letter, accent) + 1
    for space, left, right in ((before, before - 1, letter), (behind, letter, behind + 1)):
        is_put = left >= 0 and right < len(text) and text[space] == " " and glyphs.generated(space)
        if is_put and abs(glyphs.box(right)[0] - glyphs.box(left)[2]) < _NEAR * (high - low):
            yield space


def _is_on(glyphs: Glyphs, accent: int, letter: int) -> bool:
    """True if the middle of an accent is over or under a letter."""
    left, bottom, right, _ = glyphs.box(accent)
    start, low, end, high = glyphs.box(letter)
    return start < (left + right) / 2 < end and abs(bottom - low) < _RAISED * (high - low)
