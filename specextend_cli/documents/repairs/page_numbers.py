"""Page numbers in lines at the edge of pages: alone, beside a title, with or without a label."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from specextend_cli.documents.line import Line

_NUMBER = re.compile(r"\d+")
_OF_CHAPTER = re.compile(r"\d{1,3}\s?[-–]\s?(\d{1,9})")  # 3-1: chapter, and page in it
_DIGITS = 9  # a longer number is no page number
_ROMAN = re.compile(r"^((?:page )?)[ivxlc]{1,7}$", re.IGNORECASE)
ALONE = re.compile(
    r"(?:page|pag\.?|p\.?|seite|s\.|página|pág\.?|pagina|blz\.?|strona|strana|str\.?|страница|стр\.?|с\.|sayfa|σελίδα|σελ\."
    r"|sida|side|sivu|trang|halaman|หน้า|صفحة|पृष्ठ|第|(?:[a-z]{1,3}|#\s?)[-–])?\s*#\s*(?:页|頁|ページ|쪽|페이지)?"
    r"(?:[\s,，]*(?:of|von|sur|de|di|van|z|ze|из|av|af|από|จาก|من|共|/)\s*#)?\s*(?:页|頁|ページ|쪽|페이지)?",
    re.IGNORECASE,
)
"""A line that is nothing but a page number, by its `modulo_digits`."""
# What is numbered like pages: a bundle of invoices may have one a page.
_LABEL = re.compile(
    r"(?:#|№|\b(?:inv|invoice|bill|receipt|order|case|claim|account|customer|contract|rechnung|facture|factura|fattura)\b"
    r"\W*(?:no|nr|number)?)\W*$",
    re.IGNORECASE,
)
_TITLE_NUMBER = re.compile(r"(?!(?:19|20)\d\d$)\d{1,9}")  # no year
_MAX_TITLE = 200  # characters


def beside_title(text: str) -> int | None:
    """The number beside a title, or the number that a line is."""
    plain = " ".join(text.split()).strip("-–—•|[]() ")
    if len(plain) > _MAX_TITLE:
        return None
    if of_chapter := _OF_CHAPTER.fullmatch(plain):
        return int(of_chapter[1])
    if ALONE.fullmatch(modulo_digits(plain)) and (alone := re.search(r"\d{1,9}", plain)):
        return int(alone[0])
    # At an end of a title of several words: "Chapter 3" and "Budget 2020" are titles.
    words = plain.split()
    for number, title in ((words[0], words[1:]), (words[-1], words[:-1])) if words else ():
        named = [any(map(str.isalpha, word)) for word in title]
        if _TITLE_NUMBER.fullmatch(number) and sum(named) > 1 and title[0][0].isalpha():
            return int(number)
    return None


def modulo_digits(text: str) -> str:
    """A line without case, digits, and the punctuation around a page number."""
    plain = " ".join(text.split()).strip("-–—•|[]() ")
    return _NUMBER.sub("#", _ROMAN.sub(r"\1#", plain)).casefold()


def numbered(lines: Sequence[Line]) -> list[str | None]:
    """Lines that are equal but for digits, each with "#" for its page number; None where it has none.

    Of the numbers of a line that is the one which increases with the pages most steadily.
    """
    found = [list(_NUMBER.finditer(line.text)) for line in lines]
    offsets: list[int | None] = [None] * len(lines)
    place, most = 0, 0
    for k in range(max(map(len, found), default=0)):
        at_k = [_offset(line, numbers, k) for line, numbers in zip(lines, found, strict=True)]
        steady = sum(a == b and a is not None for a, b in pairwise(at_k))
        if steady > most:
            offsets, place, most = at_k, k, steady
    counts = Counter(offsets)
    texts: list[str | None] = []
    for line, numbers, offset in zip(lines, found, offsets, strict=True):
        begins = 0 < place < len(numbers) and numbers[place][0] == "1"  # the first page of a numbered chapter
        if not numbers and _ROMAN.match(" ".join(line.text.split()).strip("-–—•|[]() ")):
            texts.append("#")
        elif offset is not None and (counts[offset] > 1 or begins):
            start, end = numbers[place].span()
            texts.append(f"{line.text[:start]}#{line.text[end:]}")
        else:
            texts.append(None)
    return texts


def _offset(line: Line, numbers: Sequence[re.Match[str]], k: int) -> int | None:
    """How far number `k` of a line is from the number of its page, where it may be that of the page."""
    if k >= len(numbers) or len(numbers[k][0]) > _DIGITS or is_labelled(line.text[: numbers[k].end()]):
        return None
    return int(numbers[k][0]) - line.page


def is_labelled(text: str) -> bool:
    """True if the last number of a text is that of an invoice or the like."""
    return _LABEL.search(text.rstrip("0123456789")[-40:]) is not None
