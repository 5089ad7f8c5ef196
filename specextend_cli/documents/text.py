"""Plain text, and Markdown, whose layout is kept."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate, pairwise
from pathlib import PurePath
from typing import Literal

from specextend_cli.documents.decode import HEAD, decode
from specextend_cli.documents.document import Block, Edit
from specextend_cli.documents.encoded import ENCODED, without_encoded
from specextend_cli.documents.errors import argument
from specextend_cli.documents.line import lines_of_text, runs
from specextend_cli.documents.repairs.characters import plain_characters
from specextend_cli.documents.sections import Paged, Parsed
from specextend_cli.documents.source import Source

_MARKDOWN_SUFFIXES = frozenset((".md", ".markdown", ".mdown", ".mkd", ".qmd", ".rmd"))
_TEXT_SUFFIXES = frozenset(("", ".txt", ".text"))
_MARKUP = {".adoc", ".csv", ".fb2", ".ipynb", ".mediawiki", ".org", ".rst", ".tex", ".textile", ".tsv", ".typ"}
_HEADING = re.compile(r"(?:\A|\n[ \t]*\n)#{1,6} \S[^\n]*\n[ \t]*\n")
# A comment ends within its paragraph, or anywhere if it begins a line.
_CODE_OR_COMMENT = re.compile(
    r"^ {0,3}(?P<fence>```+|~~~+).*?(?:^ {0,3}(?P=fence)|\Z)|`<!--"
    r"|^ {0,3}<!--.*?(?:-->|\Z)|<!--(?:(?!\n\n).)*?(?:-->|(?=\n\n)|\Z)",
    re.MULTILINE | re.DOTALL,
)


def parse(source: Source) -> Paged | Parsed:
    """The sections of a Markdown text, or the lines of a text; its pages end at form feeds."""
    name = source.name
    text, warnings = decode(name, source.path.read_bytes())
    suffix = PurePath(name).suffix.lower()
    if suffix in _MARKUP:
        fix = f"pandoc --to=plain --wrap=none {argument(name)} | specextend summarize -"
        warnings.append(f"The markup of {name} is read as text. For the text alone: {fix}")
    # Markdown by its suffix, or without one (or .txt), and pages, by headings that stand alone.
    headings = _HEADING.findall(text[:HEAD]) if suffix in _TEXT_SUFFIXES and "\f" not in text else ()
    if suffix in _MARKDOWN_SUFFIXES or len(headings) >= 2:
        return _markdown(text, warnings)
    pages = text.rstrip("\f\n").split("\f")
    found = Paged("text", warnings=warnings, requested=source.numbers(len(pages)))
    for number, page in enumerate(pages, 1):
        page, encoded = without_encoded(page)
        found.pages[number] = lines_of_text(page, number)
        found.edits += [Edit(ENCODED, number, block) for block in encoded if number in found.requested]
    return found


def _markdown(text: str, warnings: list[str]) -> Parsed:
    """A Markdown text: one section begins at every heading that follows no other heading."""
    parsed = Parsed("markdown", warnings=warnings)

    def without_comment(match: re.Match[str]) -> str:
        """No reader of a text sees its comments; code stays as it is."""
        if match["fence"] or not match[0].endswith("-->"):
            return match[0]
        parsed.remove("hidden text", match[0])
        return ""

    text = _CODE_OR_COMMENT.sub(without_comment, text.replace("\f", "\n"))
    starts = {0: ""}
    for before, block in pairwise([None, *markdown_blocks(text)]):
        if block and block.kind == "heading" and not (before and before.kind == "heading"):
            starts[block.start] = text[block.start : block.end].strip().strip("#").strip()
    for (start, title), (end, _) in pairwise([*starts.items(), (len(text), "")]):
        parsed.start_section(title)
        parsed.add("markdown", text[start:end])
    return parsed


def cleaned_markdown(text: str, number: int, edits: list[Edit]) -> str:
    """The cleaned text of section `number`; the indentation of its lines is part of the syntax."""
    cleaned = []
    for line in text.split("\n"):
        body = line.lstrip(" \t")
        indent = line[: len(line) - len(body)].replace("\t", "    ")
        cleaned.append((indent + plain_characters(body, number, edits)).rstrip())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(cleaned)).strip("\n")


def markdown_blocks(text: str) -> Iterator[Block]:
    """Headings ('#', and single lines that are underlined) and paragraphs, which end at blank lines outside of code."""
    from markdown_it import MarkdownIt

    lines = text.split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    code, headings = set[int](), set[int]()  # their lines; of an underlined heading the first one
    for token in MarkdownIt("commonmark").disable("inline").parse(text):
        first, end = token.map or (0, 0)
        underlined = end - first == 2 and (first == 0 or not lines[first - 1].strip())
        if token.type == "fence":
            code.update(range(first, end))
        elif token.type == "heading_open" and token.level == 0 and (token.markup[0] == "#" or underlined):
            headings.add(first)
    filled = (at for at, line in enumerate(lines) if line.strip() or at in code)
    for block in runs(filled, lambda run, at: at == run[-1] + 1 and headings.isdisjoint((at, run[-1]))):
        kind: Literal["heading", "paragraph"] = "heading" if block[0] in headings else "paragraph"
        yield Block(kind, starts[block[0]], starts[block[-1]] + len(lines[block[-1]]))
