"""Notes: their marks are removed, powers are kept, and sentences that notes at the foot interrupt are rejoined."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import SUPERSCRIPT_LETTERS, Line, Pages, Repaired, body_size, page_by_page
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
_BASE = re.compile(r"(?<![^\W_])[^\W\d_]$|\)$")
NOTE_NUMBER = re.compile(f"^([{_DIGITS}]+|[{SUPERSCRIPT_LETTERS}](?![^\\W_]))\\s*")

_MOST = 60  # lines of notes
_PROSE = 24  # characters of a line of text
_SMALL = 0.96  # of the body size: a note is set in less
_CLOSE = 1.6  # sizes: line spacing within a paragraph
_INDENT = 2.0
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


def interruptions(pages: Pages) -> Repaired:
    """Move notes that interrupt a sentence above its paragraph, as far as that is on their page."""
    lines = [line for page in pages for line in page]
    body = body_size(lines)
    edits: list[Edit] = []
    at = 0
    while body != 1 and at + 1 < len(lines):
        end = _end_of_notes(lines, at, body)
        if end > at + 1:
            start, notes = _paragraph(lines, at), lines[at + 1 : end]
            lines[start:end] = notes + lines[start : at + 1]
            edits += [Edit("moved", line.page, line.text, line.text) for line in notes]
        at = end
    ends = accumulate(map(len, pages))  # a line never leaves its page
    return [lines[end - len(page) : end] for page, end in zip(pages, ends, strict=True)], edits


def _end_of_notes(lines: Sequence[Line], at: int, body: float) -> int:
    """The place of the line on the next page, or in the next column, that goes on behind the notes after line `at`."""
    line = lines[at]
    if _ENDED.search(line.text) or not _is_prose(line, body, _PROSE) or lines[at + 1].size >= _SMALL * body:
        return at + 1
    for place in range(at + 2, min(at + 2 + _MOST, len(lines))):
        other = lines[place]
        if other.page != line.page or other.base > line.base:
            goes_on = other.text[0].islower() or abs(other.left - line.left) < _INDENT
            return place if goes_on and _is_prose(other, body) else at + 1
    return at + 1


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


def _is_prose(line: Line, body: float, least: int = 1) -> bool:
    """True if it is a line of running text, of at least so many characters: in body type, and no table row."""
    usual = abs(line.size - body) < (1 - _SMALL) * body and not line.bold and not line.gaps
    return usual and len(line.text) >= least and "  " not in line.text
