"""Letterspaced lines of a PDF ("C O N T E N T S"): the file has no spaces between the letters, PDFium inserts them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median

from specextend_cli.documents.pdf.glyphs import GlyphLine
from specextend_cli.documents.pdf.word_gaps import SpaceRepair

KIND = "letterspacing"
_LETTERS = re.compile(r"[^\W\d_](?:[ \t][^\W\d_]){4,80}")
_VOWEL = re.compile("[^\x00-\x7f]|[aeiou]", re.IGNORECASE)
_WIDEST = 0.8  # sizes between letters; columns of a table are further apart
_WORDS = 1.6  # of the gap between letters: one between words is wider
_LONGEST = range(4, 25)  # letters of the longest word
_IN_ORDER = 0.5  # of the letters of an alphabet, as above an index


def join_letters(lines: Sequence[GlyphLine]) -> Iterator[SpaceRepair]:
    """Remove the spaces between letters of letterspaced lines, which then have no cells; yield the repairs."""
    for line in lines:
        if _LETTERS.fullmatch(line.body) and (spaces := _within_words(line)):
            before = line.body
            line.gaps = []
            line.changed |= {at: "" if at in spaces else " " for at in range(1, len(line.body), 2)}
            yield KIND, before.replace("\t", " "), line.text


def _within_words(line: GlyphLine) -> set[int]:
    """The indices of the spaces within words; none where these are no words."""
    boxes = [line.glyphs.ink(line.first + at) for at in range(0, len(line.body), 2)]
    gaps = [after[0] - before[2] for before, after in pairwise(boxes)]
    usual = median(gaps)
    if line.head.turn or line.head.slanted or not 0 < usual < _WIDEST * line.size:
        return set()
    within = {2 * at + 1 for at, gap in enumerate(gaps) if gap < _WORDS * usual}
    generated = all(line.glyphs.generated(line.first + at) for at in within)
    words = "".join("" if at in within else letter for at, letter in enumerate(line.body)).split()
    longest = max(words, key=len)
    is_word = len(longest) in _LONGEST and _VOWEL.search(longest) and not _is_alphabet(longest)
    return within if generated and is_word and words[0][0].isupper() else set()


def _is_alphabet(word: str) -> bool:
    """True if letters follow one another as in an alphabet."""
    return sum(ord(after) - ord(before) == 1 for before, after in pairwise(word)) > _IN_ORDER * len(word)
