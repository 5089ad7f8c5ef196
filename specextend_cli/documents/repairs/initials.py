"""Initials: a large first letter and the line it belongs to are one."""

from __future__ import annotations

from dataclasses import replace

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import Line
from specextend_cli.documents.repairs.hyphens import vocabulary
from specextend_cli.documents.repairs.repair import Pages, Repaired

_WORDS = ("A", "I", "O")  # letters that are words too


def initials(pages: Pages) -> Repaired:
    """A single capital at least 1.6 times as large as the line beside its head goes in front of that line."""
    if not any(map(_is_initial, (line for page in pages for line in page))):
        return [list(page) for page in pages], []
    words = vocabulary(pages)
    edits: list[Edit] = []
    fixed: list[list[Line]] = []
    for page in pages:
        kept: list[Line] = []
        for line in page:
            if kept and _is_initial(kept[-1]) and _begins(kept[-1], line):
                letter = kept.pop()
                word = line.text.split(maxsplit=1)[0].strip(".,;:!?").lower()
                apart = letter.text in _WORDS and words[word] > words[letter.text.lower() + word]
                joined = f"{letter.text}{' ' if apart else ''}{line.text}"
                edits.append(Edit("initial", line.page, f"{letter.text}\n{line.text}", joined))
                line = replace(line, text=joined)
            kept.append(line)
        fixed.append(kept)
    return fixed, edits


def _is_initial(line: Line) -> bool:
    return line.size != 1 and len(line.text) == 1 and line.text.isupper()


def _begins(letter: Line, line: Line) -> bool:
    large = letter.size > 1.6 * line.size
    beside = letter.base < line.base < letter.base + letter.size and line.left >= letter.right - 0.2 * letter.size
    return large and beside and line.left < letter.right + letter.size and line.text[0].isalpha()
