"""Plain text, Markdown and tables of values."""

from __future__ import annotations

import csv
import re
from io import StringIO
from pathlib import PurePath

from specextend_cli.documents.decode import HEAD, decode
from specextend_cli.documents.document import Edit
from specextend_cli.documents.encoded import ENCODED, without_encoded
from specextend_cli.documents.errors import argument
from specextend_cli.documents.line import CELL_SEPARATOR, lines_of_text
from specextend_cli.documents.markdown import markdown
from specextend_cli.documents.paged import Paged
from specextend_cli.documents.sections import Parsed
from specextend_cli.documents.source import Source

_MARKDOWN_SUFFIXES = frozenset((".md", ".markdown", ".mdown", ".mkd", ".qmd", ".rmd"))
_TEXT_SUFFIXES = frozenset(("", ".txt", ".text"))
_MARKUP = frozenset((".adoc", ".fb2", ".ipynb", ".mediawiki", ".org", ".rst", ".tex", ".textile", ".typ"))
_TABLES = frozenset((".csv", ".tsv"))
_DELIMITERS = ",;\t|"
_SAMPLE = 4_096  # characters
_LEAST = 3  # rows, and cells in each of the first ones, of a text without a name that is a table
_FIRST_ROWS = 50
_HEADING = re.compile(r"(?:\A|\n[ \t]*\n)#{1,6} \S[^\n]*\n[ \t]*\n")


def parse(source: Source) -> Paged | Parsed:
    """The sections of a Markdown text, or the lines of a text; its pages end at form feeds."""
    name = source.name
    text, warnings = decode(name, source.content())
    suffix = PurePath(name).suffix.lower()
    if suffix in _MARKUP:
        fix = f"pandoc --to=plain --wrap=none {argument(name)} | specextend summarize -"
        warnings.append(f"The markup of {name} is read as text. For the text alone: {fix}")
    if suffix in _TABLES or not suffix:
        text = _table_rows(text, is_named=suffix in _TABLES)
    if _is_markdown(suffix, text):
        return markdown(text, warnings)
    pages = text.rstrip("\f\n").split("\f")
    found = Paged(source.numbers(len(pages)), warnings=warnings, kind="text")
    for number, page in enumerate(pages, 1):
        page, encoded = without_encoded(page)
        found.pages[number] = lines_of_text(page, number)
        found.edits += [Edit(ENCODED, number, block) for block in encoded if number in found.requested]
    return found


def _is_markdown(suffix: str, text: str) -> bool:
    """True if a text is Markdown: by its suffix, or without one (or .txt), and pages, by headings that stand alone."""
    headings = _HEADING.findall(text[:HEAD]) if suffix in _TEXT_SUFFIXES and "\f" not in text else ()
    return suffix in _MARKDOWN_SUFFIXES or len(headings) >= 2


def _table_rows(text: str, *, is_named: bool) -> str:
    """The rows of a table of values; the text itself where it is none."""
    try:
        dialect = csv.Sniffer().sniff(text[:_SAMPLE].rpartition("\n")[0] or text[:_SAMPLE], _DELIMITERS)
        rows = list(csv.reader(StringIO(text, newline=""), dialect))
    except csv.Error:
        return text
    widths = {len(row) for row in rows[:_FIRST_ROWS] if row}
    if not is_named and (len(rows) < _LEAST or len(widths) > 1 or min(widths, default=0) < _LEAST):
        return text
    return "\n".join(CELL_SEPARATOR.join(" ".join(cell.split()) for cell in row) for row in rows)
