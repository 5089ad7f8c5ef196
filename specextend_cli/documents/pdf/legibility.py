"""Characters that the fonts of a PDF do not map to letters: unreadable pages, and ligatures ("e↵orts"), repaired.

What a ligature stands for is known from the words that it makes: those of the document, and frequent ones.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import HYPHEN, Line

KIND = "ligature"
UNKNOWN = "unreadable character"
UNREAD = "\ufffd"
"""Stands for a character that the fonts do not name."""

_PLAIN = ("ff", "fi", "fl", "ffi", "ffl")
_RARE = ("ti", "tt", "ft")  # in the fonts of some word processors
# What broken maps have for ligatures: the codes of TeX's fonts, those of other fonts in a wrong encoding.
_USUAL = {
    **dict(zip("\x0b\x0c\r\x0e\x0f", _PLAIN, strict=True)),
    **dict(zip("\x1b\x1c\x1d\x1e\x1f", _PLAIN, strict=True)),
    **{"↵": "ff", "\u019f": "ti", "\u01a9": "tt", "\u014c": "ft"},
}
_MEANINGLESS = "\x00-\x01\x03-\x08\x0b-\x1f\x7f-\x9f\ue000-\uf8ff\ufffd"
_ODD = re.compile(
    rf"([^\W\d_]{{0,40}})([{_MEANINGLESS}\u2190-\u21ff\u2300-\u23ff\u25a0-\u27bf®¯¤…\u019f\u01a9\u014c])(?=([^\W\d_]{{0,40}}))"
)
_NO_MEANING = re.compile(f"[{_MEANINGLESS}]")
_WORD = re.compile(r"[^\W\d_]{4,}")
_LONGEST = 40  # letters of a word
_FEWEST = 2  # letters beside the character
_ENOUGH = 0.25  # of the words that it does not make: so many must it make
_MOST, _MOST_WORDS = 20_000, 2_000  # such characters in a document, and words with them
# Beginnings and parts of frequent words that contain a ligature.
_PARTS = re.findall(
    r"\w+",
    "effort effect differ offer staff stuff suffer affect afford affair buffer coffee tariff sheriff plaintiff "
    "cutoff turnoff payoff tradeoff layoff offen offset offi efficien sufficien difficult traffic coefficient "
    "affiliat affirm fficac first find final financ field figur file filing fill film filter five fire fish fix "
    "firm finger finish fiscal fifth fifty fight fiber fiction profit benefit benefi defin specifi signifi confid "
    "confir config identifi modifi classifi certifi verifi justifi notifi qualifi satisfi scientifi artifici "
    "infini beneficial sacrific magnific pacific deficit deficien refin confin unified ratifi fied fication flow "
    "floor flood flat flight flex float influen reflect conflict inflat flag fleet fluid fluct flower flesh fled "
    "overfl baffle shuffle affluen raffle offline tion tive ting ties tial tien tim tically ticular tify attach "
    "better little letter committ matter written attempt attent setting button bottom attack battle pattern after "
    "often left soft draft shift gift craft lift ",
)

_ENDINGS = {"tion", "tive", "ting", "ties", "fied", "fication", "tify", "tically"}
_SHORT = 4  # letters of a part

_STRANGE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ue000-\uf8ff\ufff0-\ufffb\ufffd-\uffff\U000f0000-\U0010ffff]")
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # a few are only damage
_GLYPH_NAMES = re.compile(r"\(cid:\d{1,6}\)|/g(?:lyph|id)?\d{1,6}|/[A-Z]\d{1,3}(?=/)", re.IGNORECASE)
_LATIN = re.compile("[A-Za-z\u00c0-\u024f\u1e00-\u1eff]")
UNREADABLE = 0.05
"""A page with a larger share of meaningless characters is unreadable."""
_NAMED = 0.3  # of the characters, in glyph names
_JUDGED = 40  # characters, before control characters count
_LETTERS = 100  # Latin letters in the words of a page, before their vowels are counted
_VOWELS = 0.2  # of them: 0.3 to 0.5 in languages, 0.23 in encoded data


def unreadable_share(lines: Sequence[str]) -> float:
    """The share of meaningless characters of a page where the page is unreadable; else 0.

    1 where the characters are letters but the words are not: shifted or exchanged letters.
    """
    text = "".join(line.removesuffix(HYPHEN) for line in lines)
    size = len(text) - text.count(" ") - text.count("\t")
    if not size:
        return 0.0
    strange = len(_STRANGE.findall(text))
    if size < _JUDGED:
        strange -= len(_CONTROLS.findall(text))
    if strange > UNREADABLE * size:
        return strange / size
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


class _Place(NamedTuple):
    """A character with the letters on both sides of it."""

    before: str
    character: str
    after: str


def repair_ligatures(pages: Mapping[int, Sequence[Line]]) -> tuple[dict[int, list[Line]], list[Edit]]:
    """The pages with ligatures as letters, and the edits.

    A character without a meaning that remains unknown between letters becomes `UNREAD`, so that it is seen.
    """
    lines = [line for page in pages.values() for line in page if _NO_MEANING.search(line.text) or _has_odd(line.text)]
    places = [_Place(*match.groups()) for line in lines for match in _ODD.finditer(line.text) if _is_in_word(match)]
    if not 0 < len(places) <= _MOST or len(set(places)) > _MOST_WORDS:
        return {number: list(page) for number, page in pages.items()}, []
    words = Counter(word.lower() for page in pages.values() for line in page for word in _WORD.findall(line.text))
    known = {place: _known(place, words) for place in set(places)}
    meanings = _meanings(known)
    edits: list[Edit] = []

    def repaired(line: Line) -> Line:
        def substitute(match: re.Match[str]) -> str:
            if not _is_in_word(match):
                return match[0]
            place = _Place(*match.groups())
            ligature = known[place] or meanings.get(place.character, "")
            if ligature:
                edits.append(Edit(KIND, line.page, place.character, ligature))
            elif _NO_MEANING.match(place.character) and place.before and place.after:
                ligature = UNREAD
                edits.append(Edit(UNKNOWN, line.page, place.character, ligature))
            return f"{place.before}{ligature or place.character}"

        return line._replace(text=_ODD.sub(substitute, line.text))

    changed = {id(line) for line in lines}
    fixed = {n: [repaired(line) if id(line) in changed else line for line in page] for n, page in pages.items()}
    return fixed, edits


def _has_odd(text: str) -> bool:
    return not text.isascii() and _ODD.search(text) is not None


def _is_in_word(match: re.Match[str]) -> bool:
    before, character, after = match.groups()
    letters = before + after
    if not _FEWEST <= len(letters) <= _LONGEST or (character in "…\u014c\u019f\u01a9" and not before):
        return False
    return after.islower() if after else before[-1].islower()


def _known(place: _Place, words: Counter[str]) -> str:
    """The only ligature that makes a known word, or ""."""
    options = _RARE if place.character in "\u014c\u019f\u01a9" else _PLAIN
    lengths = {ligature: _known_letters(place, ligature, words) for ligature in options}
    best = max(lengths.values())
    found = [ligature for ligature, length in lengths.items() if length == best > 0]
    return found[0] if len(found) == 1 else ""


def _known_letters(place: _Place, ligature: str, words: Counter[str]) -> int:
    """How many letters of a word with the ligature are a word of the document, or a part of a frequent word."""
    before, after = place.before.lower(), place.after.lower()
    word, start, end = before + ligature + after, len(before), len(before) + len(ligature)
    if words[word]:
        return len(word)
    parts = ((part, word.find(part)) for part in _PARTS)
    return max(
        (len(part) for part, at in parts if 0 <= at <= start and end <= at + len(part) and _is_likely(word, part, at)),
        default=0,
    )


def _is_likely(word: str, part: str, at: int) -> bool:
    """True if a part may be at that place: a short one only begins or (an ending) ends a word."""
    if part in _ENDINGS:
        return word.rstrip("s").endswith(part.rstrip("s"))
    return at == 0 or len(part) > _SHORT


def _meanings(known: Mapping[_Place, str]) -> dict[str, str]:
    """The letters of a character that makes no known word: by the words that it makes elsewhere, if they agree."""
    votes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for place, ligature in known.items():
        votes[place.character][ligature] += 1
    meanings: dict[str, str] = {}
    for character, counted in votes.items():
        unknown = counted.pop("", 0)
        usual, agreed = _USUAL.get(character), len(counted) == 1 and counted.total() >= _ENOUGH * unknown
        if agreed and (counted.total() > 1 or usual in counted):
            meanings[character] = next(iter(counted))
        elif usual and not counted and not _NO_MEANING.match(character):  # a control character may be anything
            meanings[character] = usual
    return meanings
