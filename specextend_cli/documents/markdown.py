"""The blocks and sections of Markdown, whose layout is kept."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from specextend_cli.documents.document import Block, Edit, Page, PageDiff, StructuredText, TextBuilder
from specextend_cli.documents.repairs.characters import plain_characters

_ATX = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_SETEXT = re.compile(r" {0,3}(?:=+|-{2,})\s*")
_CODE_OR_COMMENT = re.compile(
    r"^ {0,3}(?P<fence>```+|~~~+).*?(?:^ {0,3}(?P=fence)|\Z)|`<!--"
    r"|^ {0,3}<!--.*?(?:-->|\Z)|<!--(?:(?!\n\n).)*?(?:-->|(?=\n\n)|\Z)",
    re.MULTILINE | re.DOTALL,
)
_FENCE = re.compile(r" {0,3}(```+|~~~+)")


def compose_markdown(pages: Sequence[tuple[int, str]]) -> tuple[StructuredText, list[Edit], list[PageDiff]]:
    """The text of numbered pages with its blocks, the repairs, and their effect on each page."""
    edits: list[Edit] = []
    diffs: list[PageDiff] = []
    builder = TextBuilder()
    for number, page in pages:
        before = page.split("\n")
        page, comments = _without_comments(page)
        edits += [Edit("hidden text", number, " ".join(comment.split())) for comment in comments]
        after = []
        for line in page.split("\n"):  # the indentation is part of the syntax
            text = line.lstrip(" \t")
            indent = line[: len(line) - len(text)].replace("\t", "    ")
            after.append((indent + plain_characters(text, number, edits)).rstrip())
        diffs.append(PageDiff(number, *(tuple(line for line in lines if line.strip()) for lines in (before, after))))
        body = re.sub(r"\n{3,}", "\n\n", "\n".join(after)).strip("\n")
        builder.add(number, body, markdown_blocks(body))
    return builder.text, edits, diffs


def _without_comments(page: str) -> tuple[str, list[str]]:
    """The text without HTML comments, which no reader of it sees, and these; code stays as it is.

    A comment ends within its paragraph, or anywhere if it begins a line.
    """
    comments: list[str] = []

    def take(match: re.Match[str]) -> str:
        if match["fence"] or not match[0].endswith("-->"):
            return match[0]
        comments.append(match[0].strip())
        return ""

    return _CODE_OR_COMMENT.sub(take, page), comments


def markdown_sections(text: StructuredText) -> list[Page]:
    """The sections of a text without pages: one begins at every heading that follows no other heading."""
    starts = {0: ""}
    for before, block in pairwise([None, *text.blocks]):
        if block and block.kind == "heading" and not (before and before.kind == "heading"):
            starts[block.start] = text.text[block.start : block.end].strip().strip("#").strip()
    places = [*starts.items(), (len(text.text), "")]
    return [Page(number, start, end, title) for number, ((start, title), (end, _)) in enumerate(pairwise(places), 1)]


def markdown_blocks(text: str) -> Iterator[Block]:
    """Headings ('#' and underlined) and paragraphs, which end at blank lines outside of fenced code."""
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
