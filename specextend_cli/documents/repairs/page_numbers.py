"""Recognize page numbers at the edge of pages: numbers that increase with the pages, and have no other label."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from specextend_cli.documents.line import Line

_NUMBER = re.compile(r"\d+")
_DIGITS = 9  # a longer number is no page number
_ROMAN = re.compile(r"^((?:page )?)[ivxlc]{1,7}$", re.IGNORECASE)
_ALONE = re.compile(r"(?:page|p\.?|seite|[a-z]{1,3}[-–])?\s*#(?:\s*(?:of|/)\s*#)?", re.IGNORECASE)
_PAGE = re.compile(r"\b(?:pages?|pp?|pg|seite|página|pagina|sida|side|sivu|str|стр)\b\W*(?:no|nr|number)?\W*$", re.I)
# What is numbered like pages: a bundle of invoices may have one a page.
_LABEL = re.compile(
    r"(?:[#№]|\b(?:no|nr|nos|num|number|id|ref|reference|inv|invoice|bill|receipt|order|po|case|claim|account|acct"
    r"|customer|client|ticket|contract|policy|exhibit|lot|item|serial|batch|rechnung|kunde|auftrag|vertrag|beleg"
    r"|facture|commande|dossier|reçu|factura|fattura|fatura|pedido|recibo|ordine|bestelling|faktura))"
    r"\W*$",
    re.IGNORECASE,
)


def modulo_digits(text: str) -> str:
    """A line without case, digits, and the punctuation around a page number."""
    plain = " ".join(text.split()).strip("-–—•|[]() ")
    return _NUMBER.sub("#", _ROMAN.sub(r"\1#", plain)).casefold()


def is_alone(key: str) -> bool:
    """Whether a line is nothing but a page number, by its `modulo_digits`."""
    return _ALONE.fullmatch(key) is not None


def numbered(lines: Sequence[Line]) -> list[str | None]:
    """Lines that are equal but for digits, each with "#" for its page number; None where it has none.

    At least half of the page numbers must increase with the pages, roman numerals excepted.
    """
    best: Counter[int] = Counter()
    place = -1
    found = [list(_NUMBER.finditer(line.text)) for line in lines]
    for k in range(max(map(len, found), default=0)):
        offsets = Counter[int]()
        for line, numbers in zip(lines, found, strict=True):
            if (number := _page_number(line, numbers, k)) is not None:
                offsets[number - line.page] += 1
        if offsets and (not best or offsets.most_common(1)[0][1] > best.most_common(1)[0][1]):
            best, place = offsets, k
    roman = [not numbers for numbers in found]
    in_step = sum(roman) + (best.most_common(1)[0][1] if best else 0) >= 0.5 * len(lines)
    texts: list[str | None] = []
    for line, numbers, plain in zip(lines, found, roman, strict=True):
        number = _page_number(line, numbers, place) if place >= 0 else None
        if plain and _ROMAN.match(" ".join(line.text.split()).strip("-–—•|[]() ")):
            texts.append("#" if in_step else None)
        elif in_step and number is not None and best[number - line.page] > 1:
            start, end = numbers[place].span()
            texts.append(f"{line.text[:start]}#{line.text[end:]}")
        else:
            texts.append(None)
    return texts


def _page_number(line: Line, numbers: Sequence[re.Match[str]], k: int) -> int | None:
    """Number `k` of a line where it may be a page number."""
    if k >= len(numbers) or len(numbers[k][0]) > _DIGITS:
        return None
    before = line.text[max(numbers[k].start() - 40, 0) : numbers[k].start()]
    return None if _LABEL.search(before) and not _PAGE.search(before) else int(numbers[k][0])
