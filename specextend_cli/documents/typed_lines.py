"""Lines of a typed text that stay lines, although a paragraph could be made of them: list items, `Key: value`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from specextend_cli.documents.document import Block, StructuredText
from specextend_cli.documents.line import Line, runs

_BULLET = re.compile(r"([•●▪■□◦‣∙○➢✓–—*·+-])\s+\S")
_NUMBER = re.compile(r"(\(?|\[)(?:(\d{1,3})|([a-z])|([A-Z])|([ivx]{2,4}))([.)\]])\s+\S")
_KEY = re.compile(r"[^\W\d_][\w.&/'’-]*(?: [\w(][\w.&/)'’-]*){0,3}:(?:\s|$)")
_MAX_KEY = 32  # characters


def keep_lines(text: StructuredText, pages: Sequence[Sequence[Line]]) -> StructuredText:
    """`text` as composed from these pages, with a line break before each of their items and keys.

    A break replaces a space, so that all positions stay.
    """
    lines = [line for page in pages for line in page]
    begins = {id(line) for page in pages for line in _beginnings(page)}
    made = list(text.text)
    at = broken = 0
    for line in lines:
        start = text.text.find(line.text, at)
        if text.text[at:start] == " " and id(line) in begins:
            made[at] = "\n"
            broken += 1
        at = start + len(line.text)
    whole = "".join(made)
    # A heading is one line, so that a block of several is none.
    blocks = [
        Block("paragraph" if "\n" in whole[block.start : block.end] else block.kind, block.start, block.end)
        for block in text.blocks
    ]
    return StructuredText(whole, text.pages, blocks, text.joined - broken) if broken else text


def _beginnings(page: Sequence[Line]) -> Iterator[Line]:
    """The lines of a page that begin an item or a key: two or more alike in one block of lines."""
    for block in runs(page, lambda run, line: 0 < run[-1].base - line.base <= 1):
        kinds = [_kind(line) for line in block]
        alike = Counter(kinds)
        for line, kind in zip(block, kinds, strict=True):
            # A single line that begins with "Note:" may be prose; keys come one after the other, from the first line.
            # So may two that begin with "she said:".
            least = 3 if kind is not None and kind[0] == "key" and line.text[0].islower() else 2
            if kind is not None and alike[kind] >= least and (kind[0] != "key" or kinds[0] == kind):
                yield line


def _kind(line: Line) -> tuple[str, float] | None:
    """What a line begins with, and in which column; None for neither an item nor a key."""
    if found := _BULLET.match(line.text):
        return found[1], line.left
    if found := _NUMBER.match(line.text):
        form = next(at for at in (2, 3, 4, 5) if found[at])
        return f"{found[1]}{form}{found[6]}", line.left
    found = _KEY.match(line.text)
    return ("key", line.left) if found and len(found[0]) <= _MAX_KEY else None
