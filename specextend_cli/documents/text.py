"""Plain text and Markdown."""

from __future__ import annotations

import re
from pathlib import PurePath

from specextend_cli.documents.decode import HEAD, decode
from specextend_cli.documents.document import Edit
from specextend_cli.documents.encoded import ENCODED, without_encoded
from specextend_cli.documents.errors import argument
from specextend_cli.documents.line import lines_of_text
from specextend_cli.documents.markdown import markdown
from specextend_cli.documents.sections import Paged, Parsed
from specextend_cli.documents.source import Source

_MARKDOWN_SUFFIXES = frozenset((".md", ".markdown", ".mdown", ".mkd", ".qmd", ".rmd"))
_TEXT_SUFFIXES = frozenset(("", ".txt", ".text"))
_MARKUP = {
    *(".adoc", ".csv", ".fb2", ".ipynb", ".mediawiki", ".org", ".rst", ".tex", ".textile", ".tsv", ".typ"),
}
_HEADING = re.compile(r"(?:\A|\n[ \t]*\n)#{1,6} \S[^\n]*\n[ \t]*\n")


def parse(source: Source) -> Paged | Parsed:
    """The sections of a Markdown text, or the lines of a text; its pages end at form feeds."""
    name = source.name
    text, warnings = decode(name, source.content())
    suffix = PurePath(name).suffix.lower()
    if suffix in _MARKUP:
        fix = f"pandoc --to=plain --wrap=none {argument(name)} | specextend summarize -"
        warnings.append(f"The markup of {name} is read as text. For the text alone: {fix}")
    if _is_markdown(suffix, text):
        return markdown(text, warnings)
    pages = text.rstrip("\f\n").split("\f")
    found = Paged("text", warnings=warnings, requested=source.numbers(len(pages)))
    for number, page in enumerate(pages, 1):
        page, encoded = without_encoded(page)
        found.pages[number] = lines_of_text(page, number)
        found.edits += [Edit(ENCODED, number, block) for block in encoded if number in found.requested]
    return found


def _is_markdown(suffix: str, text: str) -> bool:
    """True if a text is Markdown: by its suffix, or without one (or .txt), and pages, by headings that stand alone."""
    headings = _HEADING.findall(text[:HEAD]) if suffix in _TEXT_SUFFIXES and "\f" not in text else ()
    return suffix in _MARKDOWN_SUFFIXES or len(headings) >= 2
