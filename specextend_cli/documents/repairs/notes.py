"""Marks of notes go."""

from __future__ import annotations

import re
from dataclasses import replace

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import Line
from specextend_cli.documents.repairs.repair import Pages, Repaired

_NOTE_MARK = re.compile("(?:(?<=[^\\W\\d_]{3})|(?<=[.,;:)\\]”’\"'?!]))[⁰¹²³⁴-⁹]+")
NOTE_NUMBER = re.compile("^([⁰¹²³⁴-⁹]+)\\s*")
_DIGITS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")


def note_marks(pages: Pages) -> Repaired:
    """Raised numbers after words go: "grants⁶" would be read as a name or a figure. A note keeps its own number."""
    edits: list[Edit] = []

    def repaired(line: Line) -> Line:
        text = unmarked(line.text, line.page, edits)
        return line if text == line.text else replace(line, text=text)

    return [[repaired(line) for line in page] for page in pages], edits


def unmarked(text: str, page: int, edits: list[Edit]) -> str:
    """One line without marks of notes; what went goes to `edits`."""
    text = NOTE_NUMBER.sub(lambda match: match[1].translate(_DIGITS) + " ", text)
    edits.extend(Edit("note mark", page, match[0]) for match in _NOTE_MARK.finditer(text))
    return _NOTE_MARK.sub("", text)
