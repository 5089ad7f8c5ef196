"""The blocks and sections of Markdown, whose layout is kept."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from specextend_cli.documents.document import Block, Edit
from specextend_cli.documents.repairs.characters import plain_characters
from specextend_cli.documents.sections import Parsed

_ATX = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_SETEXT = re.compile(r" {0,3}(?:=+|-{2,})\s*")
_CODE_OR_COMMENT = re.compile(
    r"^ {0,3}(?P<fence>```+|~~~+).*?(?:^ {0,3}(?P=fence)|\Z)|`<!--"
    r"|^ {0,3}<!--.*?(?:-->|\Z)|<!--(?:(?!\n\n).)*?(?:-->|(?=\n\n)|\Z)",
    re.MULTILINE | re.DOTALL,
)
_FENCE = re.compile(r" {0,3}(```+|~~~+)")


def markdown(text: str, warnings: list[str]) -> Parsed:
    """A Markdown text: one section begins at every heading that follows no other heading."""
    parsed = Parsed("markdown", warnings=warnings)
    text, comments = _without_comments(text.replace("\f", "\n"))
    starts = {0: ""}
    for before, block in pairwise([None, *markdown_blocks(text)]):
        if block and block.kind == "heading" and not (before and before.kind == "heading"):
            starts[block.start] = text[block.start : block.end].strip().strip("#").strip()
    for (start, title), (end, _) in pairwise([*starts.items(), (len(text), "")]):
        parsed.start_section()
        parsed.sections[-1].title = title
        parsed.add("markdown", text[start:end])
    for comment in comments:
        parsed.remove("hidden text", comment)
    return parsed


def cleaned_markdown(text: str, number: int, edits: list[Edit]) -> str:
    """The cleaned text of section `number`; the indentation of its lines is part of the syntax."""
    cleaned = []
    for line in text.split("\n"):
        body = line.lstrip(" \t")
        indent = line[: len(line) - len(body)].replace("\t", "    ")
        cleaned.append((indent + plain_characters(body, number, edits)).rstrip())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(cleaned)).strip("\n")


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
