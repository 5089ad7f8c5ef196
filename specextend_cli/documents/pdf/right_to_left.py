"""The letters of ligatures in Arabic and Hebrew lines in the order of reading: PDFium reverses them with the glyphs."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

from specextend_cli.documents.line import runs
from specextend_cli.documents.pdf.glyphs import GlyphLine, Repair

RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
# Letters that join only to the one before them: a ligature ends with one.
_ENDS_LIGATURE = frozenset("\u0622\u0623\u0624\u0625\u0627\u0629\u062f\u0630\u0631\u0632\u0648\u0649\u0671")
_NAMES = ("\u0644\u0644\u0647", "\u0647\u0644\u0644")  # of God, in the order of the word and reversed


def order_letters(lines: Sequence[GlyphLine]) -> list[Repair]:
    """Order the letters of each glyph in the lines of a page; the repairs.

    Some files have the letters of a ligature in reversed order, so that PDFium's are right. Letters that only one order
    allows (lam and alef, a letter and its vowel) decide for the others of the page.
    """
    right_to_left = [line for line in lines if RIGHT_TO_LEFT.search(line.body)]
    texts = [line.text for line in right_to_left]
    found = [(line, ligature) for line in right_to_left for ligature in _ligatures(line)]
    orders = [_in_order(line.body[start:end]) for line, (start, end) in found]
    default = True in orders and False not in orders
    for (line, (start, end)), ordered in zip(found, orders, strict=True):
        if not (default if ordered is None else ordered):
            line.changed |= {at: line.body[start + end - 1 - at] for at in range(start, end)}
    changed = zip(texts, right_to_left, strict=True)
    return [("letter order", before, line.text) for before, line in changed if line.text != before]


def _ligatures(line: GlyphLine) -> Iterator[tuple[int, int]]:
    """The start and end of each group of letters that are one glyph: their boxes are the same."""
    body, spans = line.body, line.spans
    places = [at for at, letter in enumerate(body) if RIGHT_TO_LEFT.match(letter)]
    for group in runs(places, lambda group, at: at == group[-1] + 1 and spans[at] == spans[at - 1]):
        text = body[group[0] : group[-1] + 1]
        if len(set(text)) > 1 and not all(map(unicodedata.combining, text)):
            yield group[0], group[-1] + 1


def _in_order(letters: str) -> bool | None:
    """True if letters of one glyph are in the order of the word; None where both orders may be."""
    marks = [unicodedata.combining(letter) > 0 for letter in letters]
    if marks[0] or (any(marks) and not marks[-1] and not any(marks[1:-1])):
        return False
    bare = [letter for letter in letters if not unicodedata.combining(letter)]
    if "".join(bare).strip("\u0627") in _NAMES:
        return "".join(bare).strip("\u0627") == _NAMES[0]
    first, last = bare[0] in _ENDS_LIGATURE, bare[-1] in _ENDS_LIGATURE
    if len(bare) > 1 and first != last:
        return last
    return True if any(marks) else None
