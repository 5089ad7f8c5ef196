"""Plain text, Markdown, notebooks and tables of values."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from io import StringIO
from pathlib import PurePath
from typing import Any, Literal

from specextend_cli.documents.decode import HEAD, decode
from specextend_cli.documents.errors import argument
from specextend_cli.documents.line import CELL_SEPARATOR
from specextend_cli.documents.paged import Typed
from specextend_cli.documents.source import Source

_MARKDOWN_SUFFIXES = frozenset((".md", ".markdown", ".mdown", ".mkd", ".qmd", ".rmd"))
_TEXT_SUFFIXES = frozenset(("", ".txt", ".text"))
_SOURCES = {
    ".rst": ("reStructuredText", "pandoc --from=rst --to=plain --wrap=none"),
    ".adoc": ("AsciiDoc", "asciidoctor -o -"),
    ".tex": ("LaTeX", "pandoc --from=latex --to=plain --wrap=none"),
    ".org": ("Org", "pandoc --from=org --to=plain --wrap=none"),
    ".fb2": ("FictionBook", "pandoc --from=fb2 --to=plain --wrap=none"),
    ".mediawiki": ("MediaWiki", "pandoc --from=mediawiki --to=plain --wrap=none"),
    ".textile": ("Textile", "pandoc --from=textile --to=plain --wrap=none"),
    ".typ": ("Typst", "pandoc --from=typst --to=plain --wrap=none"),
    ".wiki": ("MediaWiki", "pandoc --from=mediawiki --to=plain --wrap=none"),
    ".xml": ("XML", "xmllint --xpath 'string()'"),
    ".json": ("JSON", "jq -r '.. | strings'"),
    ".jsonl": ("JSON", "jq -r '.. | strings'"),
}
"""Names of markup that is read as it is written, by suffix, and what makes a plain text of it."""
_TABLES = frozenset((".csv", ".tsv"))
_DELIMITERS = ",;\t|"
_SAMPLE = 4_096  # characters
_ROWS, _LEAST_ROWS, _LEAST_CELLS = 50, 3, 3
_HEADING = re.compile(r"(?:\A|\n[ \t]*\n)#{1,6} \S[^\n]*\n[ \t]*\n")

SUFFIX = ".ipynb"


def parse(source: Source) -> Typed:
    """The text; its pages end at form feeds. A Markdown text without form feeds has sections."""
    name = source.name
    text, warnings = decode(name, source.content())
    suffix, unread = PurePath(name).suffix.lower(), 0
    if markup := _SOURCES.get(suffix):
        what, command = markup
        fix = f"{command} {argument(name)} | specextend summarize -"
        warnings.append(f"{name} is {what}: its markup is read as text. For the text alone: {fix}")
    notebook = as_markdown(text) if suffix == SUFFIX else None
    if suffix in _TABLES or (not suffix and _is_table(text)):
        text = _table_rows(text)
    if notebook:
        text, unread = notebook
        if unread:
            were = "1 picture was" if unread == 1 else f"{unread:,} pictures were"
            warnings.append(f"{were} not read that {name} has as output.")
    pages = text.rstrip("\f\n").split("\f")
    kind: Literal["text", "markdown"] = "markdown" if notebook or _is_markdown(name, text) else "text"
    sections = kind == "markdown" and len(pages) == 1
    return Typed(kind, pages, (1,) if sections else source.numbers(len(pages)), warnings, unread)


def _is_markdown(name: str, text: str) -> bool:
    """True if a text is Markdown: by its suffix, or without one (or .txt) by headings that stand alone."""
    suffix = PurePath(name).suffix.lower()
    return suffix in _MARKDOWN_SUFFIXES or (suffix in _TEXT_SUFFIXES and len(_HEADING.findall(text[:HEAD])) >= 2)


def _is_table(text: str) -> bool:
    """Whether a text without a name is such a table: its first lines are rows of equally many cells, three or more."""
    lines = text[:_SAMPLE].splitlines()[:_ROWS]
    lines = lines[:-1] if len(text) > _SAMPLE and len(lines) < _ROWS else lines  # the last one may be cut
    widths = [{len(row) for row in csv.reader(lines, delimiter=one) if row} for one in _DELIMITERS]
    return len(lines) >= _LEAST_ROWS and any(len(found) == 1 and min(found) >= _LEAST_CELLS for found in widths)


def _table_rows(text: str) -> str:
    """The rows of a table; the text itself where it is none."""
    try:
        dialect = csv.Sniffer().sniff(text[:_SAMPLE].rpartition("\n")[0] or text[:_SAMPLE], _DELIMITERS)
        rows = list(csv.reader(StringIO(text, newline=""), dialect))
    except csv.Error:
        return text
    return "\n".join(CELL_SEPARATOR.join(" ".join(cell.split()) for cell in row) for row in rows)


def as_markdown(text: str) -> tuple[str, int] | None:
    """The Markdown of a Jupyter notebook, and the number of pictures in it; None for other texts.

    Its cells are in their order; code and what it printed are in fences.
    """
    try:
        book = json.loads(text)
    except (ValueError, RecursionError):
        return None
    # Notebooks of before 2015 have sheets of cells.
    sheets = [book, *_list(book, "worksheets")] if isinstance(book, dict) and "nbformat" in book else []
    cells = [cell for sheet in sheets for cell in _list(sheet, "cells")]
    if not cells:
        return None
    outputs = [output for cell in cells for output in _list(cell, "outputs")]
    pictures = sum(_is_picture(output) for output in outputs)
    return "\n\n".join(part for cell in cells for part in _parts(cell)), pictures


def _parts(cell: dict[str, Any]) -> Iterator[str]:
    source = _joined(cell.get("source", cell.get("input", "")))
    if cell.get("cell_type") != "code":
        level = cell.get("level") if cell.get("cell_type") == "heading" else 0
        yield "#" * level + " " * (level > 0) + source if isinstance(level, int) else source
        return
    for block in (source, *map(_printed, _list(cell, "outputs"))):
        if block.strip():
            fence = "```" if "```" not in block else "~~~~~~"
            yield f"{fence}\n{block.rstrip()}\n{fence}"


def _printed(output: dict[str, Any]) -> str:
    """The text that an output is or has beside a picture or a table."""
    data = output.get("data")
    return _joined(data.get("text/plain", "") if isinstance(data, dict) else output.get("text", ""))


def _is_picture(output: dict[str, Any]) -> bool:
    data = output.get("data")
    return isinstance(data, dict) and any(kind.startswith("image/") for kind in data)


def _joined(lines: Any) -> str:
    return "".join(filter(lambda line: isinstance(line, str), lines)) if isinstance(lines, list | str) else ""


def _list(element: dict[str, Any], key: str) -> list[dict[str, Any]]:
    found = element.get(key)
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []
