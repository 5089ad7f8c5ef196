"""Notes: their marks are removed; sentences that they, or a figure or a table, interrupt are rejoined."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import SUPERSCRIPT_LETTERS, Line, Pages, body_size, page_by_page
from specextend_cli.documents.line import plain as as_plain

_DIGITS = "⁰¹²³⁴-⁹"
_MARK = f"[{_DIGITS}]+(?:[,–-][{_DIGITS}]+)*|[{SUPERSCRIPT_LETTERS}](?![^\\W_])"
# After a word, punctuation, a year, or a figure with a thousands separator: none of these is the base of a power.
_NOTE_MARK = re.compile(
    "(?:(?<=[^\\W\\d_]{3})|(?<=[.,;:)\\]”’\"'?!%])"
    "|(?<=(?<![\\d.,])1[5-9]\\d\\d)|(?<=(?<![\\d.,])20\\d\\d)|(?<=\\d,\\d{3}))"
    f"(?:{_MARK})"
)
_LETTER = re.compile(f"[{SUPERSCRIPT_LETTERS}]")
_OF_A_FIGURE = re.compile(r"\d{3}$|[.,]\d+$")
_BRACKETS = re.compile(r"\(([^()]{1,40})\)$")
_WORD = re.compile(r"[^\W\d_]{3}")
_ORDINAL = re.compile(r"[IVXLC]{1,7}$|\d{1,2}$")
_BASE = re.compile(r"(?<![^\W_])[^\W\d_]$|\)$")
NOTE_NUMBER = re.compile(f"^([{_DIGITS}]+|[{SUPERSCRIPT_LETTERS}](?![^\\W_]))\\s*")

_MAX_LINES = 1_000  # on a page: with more it is a list
_MOST = 60  # lines of what interrupts a sentence
_PROSE = 24  # characters of a line of text
_SMALL = 0.96  # of the body size: a note is set in less
_CLOSE = 1.6  # sizes: line spacing within a paragraph
_INDENT = 2.0
_CAPTION = re.compile(
    r"(?-i:(?=[A-ZÄ-Ü]))(?:figure|fig|table|chart|exhibit|box|map|graph|diagram|illustration|plate|photo|scheme|algorithm|listing"
    r"|abbildung|abb|tabelle|algorithmus|tableau|graphique|algorithme"
    r"|figura|tabla|cuadro|gráfico|tabela|tabella|grafico)\b[ .]*(?:\d|[IVX]+\b|[A-Z][.-]?\d)",
    re.IGNORECASE,
)
_ENDED = re.compile(r"[.!?:;。！？…][\"'”’)\]]*[⁰¹²³⁴-⁹,ᵃ-ᶻ]*$")


@page_by_page
def note_marks(page: Sequence[Line], edits: list[Edit]) -> list[Line]:
    """Remove superscripts after words: "grants⁶" would be read as a name or a figure.

    A note keeps its own number. A raised letter that is no note mark becomes plain (19e) or an exponent (x^n).
    """
    return [line._replace(text=remove_note_marks(line.text, line.page, edits)) for line in page]


def remove_note_marks(text: str, page: int, edits: list[Edit]) -> str:
    """One line without note marks; the removed ones are added to `edits`."""
    text = NOTE_NUMBER.sub(lambda match: as_plain(match[1]) + " ", text)

    def removed(match: re.Match[str]) -> str:
        before = match.string[max(match.start() - 48, 0) : match.start()]
        if (brackets := _BRACKETS.search(before)) and not _WORD.search(brackets[1]):
            return match[0]  # (1+x)²
        if _LETTER.match(match[0]) and _ORDINAL.search(before):
            return match[0]  # XXIᵉ
        edits.append(Edit("note mark", page, match[0]))
        return " " if before[-1:] in ".,;:" and match.string[match.end() : match.end() + 1].isdigit() else ""

    def plain(match: re.Match[str]) -> str:
        """A raised letter that follows neither punctuation nor a word of three letters."""
        before, letter = match.string[max(match.start() - 8, 0) : match.start()], as_plain(match[0])
        if _OF_A_FIGURE.search(before):
            edits.append(Edit("note mark", page, match[0]))
            return ""
        exponent = _BASE.search(before) or (before[-1:].isdigit() and letter in "ijkmnx")  # 2^n, but 19e and 3d
        return f"^{letter}" if exponent else letter

    return _LETTER.sub(plain, _NOTE_MARK.sub(removed, text))


def interruptions(pages: Pages, edits: list[Edit]) -> list[list[Line]]:
    """Move what interrupts a sentence above the paragraph of that sentence, as far as it is on its page.

    What is on a later page, or between two parts of one column, comes behind the rest of the paragraph. Nothing moves
    where the paragraph fills its page and began on the one before.
    """
    lines = [line for page in pages for line in page]
    body = body_size(lines)
    long = {page[0].page for page in pages if len(page) > _MAX_LINES}
    at = 0
    while body != 1 and at < len(lines):
        moved: list[Line] = []
        if lines[at].page not in long and _is_open(lines, at, body):
            first = _continued(lines, at, body)
            moved = [] if first is None else _rejoin(lines, at, first, body)
        edits += [Edit("moved", line.page, line.text, line.text) for line in moved]
        at += len(moved) or 1
    ends = accumulate(map(len, pages))  # a line never leaves its page
    return [lines[end - len(page) : end] for page, end in zip(pages, ends, strict=True)]


def _is_open(lines: Sequence[Line], at: int, body: float) -> bool:
    """True if the sentence of a line of text is interrupted behind it."""
    line, goes_on = lines[at], lines[at + 1] if at + 1 < len(lines) else None
    text = _is_prose(line, body) or (at > 0 and _is_prose(lines[at - 1], body) and _follows(lines[at - 1], line))
    return text and goes_on is not None and not _ENDED.search(line.text) and not _follows(line, goes_on)


def _continued(lines: Sequence[Line], at: int, body: float) -> int | None:
    """The place of the line that continues the interrupted one at `at`, or None."""
    line, captioned = lines[at], False
    first = lines[at + 1]
    numbered = line.base - first.base > _CLOSE * first.size and NOTE_NUMBER.match(first.text) is not None
    notes = first.page == line.page and first.base < line.base and (first.size < _SMALL * body or numbered)
    if _is_prose(first, body) and not notes:
        return None
    for place in range(at + 2, min(at + 2 + _MOST, len(lines))):
        other, before = lines[place], lines[place - 1]
        captioned = captioned or _CAPTION.match(before.text) is not None
        apart = other.page != line.page or other.base > line.base
        goes_on = other.text[0].islower() or abs(other.left - line.left) < _INDENT
        if notes and apart and goes_on and _is_prose(other, body, least=1):
            return place
        notes = notes and not apart and (first.size >= _SMALL * body or other.size < _SMALL * body)
        if not notes and _is_prose(other, body):
            beside = other.page == line.page and abs(other.left - line.left) > 2 and other.left <= line.right
            runs_on = _follows(before, other) or beside or not other.text[0].islower()
            return None if not captioned or runs_on else place
    return None


def _rejoin(lines: list[Line], at: int, first: int, body: float) -> list[Line]:
    """Rejoin the paragraph that is interrupted behind `at` with its rest from `first` on; the lines that were moved."""
    start, end = _paragraph(lines, at), first + 1
    while end < len(lines) and _follows(lines[end - 1], lines[end]):
        end += 1
    line, rest = lines[at], lines[first:end]
    if rest[0].page == line.page and rest[0].base < line.base:
        step = rest[0].base - rest[1].base if len(rest) > 1 else 1.2 * line.size
        up = line.base - step - rest[0].base  # closely below the line
        lines[at + 1 : end] = [*(other._replace(base=other.base + up) for other in rest), *lines[at + 1 : first]]
        return rest
    here = [other for other in lines[at + 1 : first] if other.page == line.page]
    there = lines[at + 1 + len(here) : first]
    before = [other for other in lines[max(start - _MOST, 0) : start] if _is_prose(other, body)]
    begun_before = bool(before) and lines[start - 1].page != line.page and not _ENDED.search(before[-1].text)
    if here and begun_before:
        return []
    lines[start:end] = here + lines[start : at + 1] + rest + there
    return here + (rest if there else [])


def _paragraph(lines: Sequence[Line], at: int) -> int:
    """The first line of the paragraph to which a line belongs, on its page."""
    while at > 0 and lines[at - 1].page == lines[at].page:
        above, line = lines[at - 1], lines[at]
        alike = abs(above.size - line.size) < (1 - _SMALL) * line.size and above.bold == line.bold
        indented = line.left - above.left > _INDENT and _ENDED.search(above.text)
        if not alike or indented or not 0 < above.base - line.base < _CLOSE * line.size:
            break
        at -= 1
    return at


def _is_prose(line: Line, body: float, *, least: int = _PROSE) -> bool:
    """True if it is a line of running text, of at least so many characters: in body type, and no table row."""
    usual = abs(line.size - body) < 0.04 * body and not line.bold and not line.gaps
    return usual and len(line.text) >= least and "  " not in line.text and not _CAPTION.match(line.text)


def _follows(a: Line, b: Line) -> bool:
    """True if `b` is closely below `a` in the same type."""
    alike = a.page == b.page and abs(a.size - b.size) < 0.04 * a.size and a.bold == b.bold and not b.gaps
    return alike and abs(a.left - b.left) < 2 and 0 < a.base - b.base < _CLOSE * b.size
