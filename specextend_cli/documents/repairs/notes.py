"""Remove the marks of footnotes, and keep powers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import SUPERSCRIPT_LETTERS, Line, page_by_page
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
_MARKS = re.compile(r"(?:\d{1,3}|[*†‡§]{1,3})(?:[\s,–-]+(?:\d{1,3}|[*†‡§]{1,3})){0,39}")
_LOW, _HIGH = 0.1, 0.7  # sizes: how much higher a mark stands
_SMALLER = 0.85  # of the size of its line
NOTE_NUMBER = re.compile(f"^([{_DIGITS}]+|[{SUPERSCRIPT_LETTERS}](?![^\\W_]))\\s*")


@page_by_page
def late_marks(page: Sequence[Line], edits: list[Edit]) -> list[Line]:
    """Remove raised marks that a page draws after its text, each a line of its own."""
    marks = [line for line in page if _MARKS.fullmatch(as_plain(line.text))]
    hosts = [line for line in page if _WORD.search(line.text)]
    late = {id(mark) for mark in marks if any(_is_raised(mark, line) for line in hosts)} if marks else set()
    edits += [Edit("note mark", line.page, line.text) for line in marks if id(line) in late]
    return [line for line in page if id(line) not in late]


def _is_raised(mark: Line, line: Line) -> bool:
    """True if a mark stands where those of a line do: a little higher, and smaller."""
    within = line.left < mark.left < line.right + 0.25 * line.size
    return within and _LOW < (mark.base - line.base) / line.size < _HIGH and mark.size < _SMALLER * line.size


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
