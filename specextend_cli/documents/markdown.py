"""Markdown keeps its own layout: only its blocks and sections are found."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from specextend_cli.documents.assembly import Assembly
from specextend_cli.documents.document import Block, Edit, Page, Sheet
from specextend_cli.documents.layout import Text
from specextend_cli.documents.repairs.characters import plain_characters

_ATX = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_SETEXT = re.compile(r" {0,3}(?:=+|-{2,})\s*")
_FENCE = re.compile(r" {0,3}(```+|~~~+)")


def compose_markdown(sheets: Sequence[tuple[int, str]]) -> tuple[Text, list[Edit], list[Sheet]]:
    """The text of numbered pages, with its blocks; what was changed on the way."""
    edits: list[Edit] = []
    compared: list[Sheet] = []
    assembly = Assembly()
    for number, sheet in sheets:
        found = sheet.split("\n")
        lines = [_line(line, number, edits) for line in found]
        compared.append(Sheet(number, _shown(found), _shown(lines)))
        body = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")
        assembly.add(number, body, markdown_blocks(body))
    return assembly.text, edits, compared


def markdown_sections(text: Text) -> list[Page]:
    """The sections of a text without pages: one begins where a heading does that follows no other heading."""
    blocks = text.blocks
    heads = [b for a, b in zip([None, *blocks], blocks, strict=False) if _is_head(b) and not (a and _is_head(a))]
    starts = sorted({0: "", **{block.start: _title(text.text[block.start : block.end]) for block in heads}}.items())
    places = [*starts, (len(text.text), "")]
    return [Page(number, start, end, title) for number, ((start, title), (end, _)) in enumerate(pairwise(places), 1)]


def _is_head(block: Block) -> bool:
    return block.kind == "heading"


def _title(heading: str) -> str:
    return heading.strip().strip("#").strip()


def _shown(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(line for line in lines if line.strip())


def _line(line: str, page: int, edits: list[Edit]) -> str:
    """Indentation means something in Markdown; the rest of a line is repaired like any other."""
    body = line.lstrip(" \t")
    indent = line[: len(line) - len(body)].replace("\t", "    ")
    return (indent + plain_characters(body, page, edits)).rstrip()


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
