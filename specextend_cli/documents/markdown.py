"""Markdown keeps its own layout: only its blocks are found."""

from __future__ import annotations

import re
from collections.abc import Iterator

from specextend_cli.documents.document import Block

_ATX = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_SETEXT = re.compile(r" {0,3}(?:=+|-{2,})\s*")
_FENCE = re.compile(r" {0,3}(```+|~~~+)")


def markdown_blocks(text: str) -> Iterator[Block]:
    """Headings ('#' and underlined) and paragraphs, which blank lines end except inside fenced code."""
    start, at, fence = -1, 0, ""
    lines = text.split("\n")
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        end = at + len(line)
        mark = _FENCE.match(line)
        if fence or mark:
            start = at if start < 0 else start
            if mark and not fence:
                fence = mark[1]
            elif line.strip().startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        elif not line.strip():
            if start >= 0:
                yield Block("paragraph", start, at - 1)
            start = -1
        elif _ATX.match(line) or (start < 0 and _SETEXT.fullmatch(following)):
            if start >= 0:
                yield Block("paragraph", start, at - 1)
            start = -1
            yield Block("heading", at, end)
        elif start < 0:
            start = at
        at = end + 1
    if start >= 0:
        yield Block("paragraph", start, len(text))
