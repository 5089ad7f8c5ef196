"""Quoted lines of a mail: the marks of a paragraph stand before its first line only: its sentences are whole."""

from __future__ import annotations

import re

_QUOTED = re.compile(r"[ \t]?((?:>[ \t]?)+)(.*)")


def with_quoted_paragraphs(text: str) -> str:
    """The text, in which a paragraph ends where another depth of quotation begins."""
    lines: list[str] = []
    depth, open_paragraph = 0, False
    for line in text.split("\n"):
        match = _QUOTED.match(line)
        marks, body = (match[1].count(">"), match[2]) if match else (0, line)
        if open_paragraph and marks != depth:
            lines.append("")
            open_paragraph = False
        if not body.strip():
            lines.append("")
        else:
            lines.append(body if open_paragraph else "> " * marks + body)
        depth, open_paragraph = marks, bool(body.strip())
    return "\n".join(lines)
