"""What PDF fonts do not say: the letters of ligatures ("e↵orts"), and pages that cannot be read or are pictures.

Pictures are scans, of which a stamp may be the only text, and slides that were drawn elsewhere.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

from specextend_cli.documents.line import HYPHEN, Line
from specextend_cli.documents.pdf.glyphs import Repair
from specextend_cli.documents.pdf.invisible import box_of

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
_LATIN = re.compile("[A-Za-z\u00c0-\u024f\u1e00-\u1eff]")
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # a few are only damage
_GLYPH_NAMES = re.compile(r"\(cid:\d{1,6}\)|/g(?:lyph|id)?\d{1,6}|/[A-Z]\d{1,3}(?=/)", re.IGNORECASE)
_NAMED = 0.3  # of the characters, in glyph names
_JUDGED = 40  # characters, before control characters count
_UNREADABLE = 0.05  # a larger share of meaningless characters
_LETTERS = 100  # Latin letters in the words of a page, before their vowels are counted
_VOWELS = 0.2  # of them: 0.3 to 0.5 in languages, 0.23 in encoded data
_OWN_TEXT = 400  # a page with more has a text of its own
_STAMP = 150  # letters; a stamp may be anywhere, and a longer text of a scan stands in the margin
_MARGIN = 0.1  # of the height of a page
_TEXT, _PICTURES = 0.08, 0.5  # of the area of a page: most that its text, least that its pictures cover
_MOST = 500  # pictures of a page, as scans may be in strips


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
    vowels = sum(letter in "aeiouyæøœıə" for letter in unicodedata.normalize("NFKD", "".join(latin)).casefold())
    return 1.0 if vowels < _VOWELS * len(latin) else 0.0


def read_ligatures(text: str, repairs: list[Repair]) -> str:
    """A line with the letters of its ligatures, and `UNREAD` for other characters in words that are no letters.

    What is replaced is added to `repairs`.
    """

    def letters(match: re.Match[str]) -> str:
        found = _LIGATURES.get(match[0], UNREAD)
        repairs.append(("unreadable character" if found == UNREAD else "ligature", match[0], found))
        return found

    return _IN_WORD.sub(letters, text)


class Pictures(NamedTuple):
    """The number of pictures on a page with little text, and a digest of them where they cover the page; else "".

    `has_margin_only`: its text is in the upper or lower margin.
    """

    number: int
    covering: str = ""
    has_margin_only: bool = False


def pictures_of(page: Any, lines: Sequence[Line]) -> Pictures:
    """The pictures of a PDFium page with these lines; none where it has a text of its own."""
    from pypdfium2 import raw

    if sum(line.weight for line in lines) > _OWN_TEXT:
        return Pictures(0)
    pictures = list(islice(page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE]), _MOST))
    width, height = page.get_size()
    text = sum((line.right - line.left) * line.size for line in lines)
    if sum(box_of(picture).area for picture in pictures) < _PICTURES * width * height or text > _TEXT * width * height:
        return Pictures(len(pictures))
    inside = [line for line in lines if _MARGIN * height < line.base < (1 - _MARGIN) * height]
    if inside and sum(line.weight for line in lines) > _STAMP:
        return Pictures(len(pictures))
    digest = hashlib.sha256()
    for picture in pictures:
        digest.update(picture.get_data())
    return Pictures(len(pictures), digest.hexdigest(), not inside)
