"""Plain text, Markdown, and what is read as Markdown, to a document."""

from __future__ import annotations

import re
from pathlib import PurePath

from specextend_cli.documents.cleaning import clean_markdown, clean_text
from specextend_cli.documents.decode import HEAD, decode
from specextend_cli.documents.document import Document, Extraction
from specextend_cli.documents.errors import argument, contradiction, no_pages
from specextend_cli.documents.formats import FORMATS, kind_by_suffix
from specextend_cli.documents.markdown import markdown_sections
from specextend_cli.documents.request import ReadRequest
from specextend_cli.documents.text.notebook import SUFFIX, as_markdown
from specextend_cli.documents.text.tables import is_table, table_rows

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
_HEADING = re.compile(r"(?:\A|\n[ \t]*\n)#{1,6} \S[^\n]*\n[ \t]*\n")


def read_text(request: ReadRequest) -> Document:
    """The document; its pages end at form feeds. A Markdown text without form feeds has sections."""
    name = request.name
    text, warnings = decode(name, request.data)
    suffix = PurePath(name).suffix.lower()
    if source := _SOURCES.get(suffix):
        what, command = source
        fix = f"{command} {argument(name)} | specextend summarize -"
        warnings.append(f"{name} is {what}: its markup is read as text. For the text alone: {fix}")
    notebook = as_markdown(text) if suffix == SUFFIX else None
    if suffix in _TABLES or (not suffix and is_table(text)):
        text = table_rows(text)
    if notebook:
        text, pictures = notebook
        if pictures:
            were = "1 picture was" if pictures == 1 else f"{pictures:,} pictures were"
            warnings.append(f"{were} not read that {name} has as output.")
    pages = text.rstrip("\f\n").split("\f")
    markdown = notebook is not None or _is_markdown(name, text)
    sections = markdown and len(pages) == 1
    if sections and request.pages is not None:
        raise no_pages(name, "markdown")
    numbers = request.numbers(len(pages))
    if markdown:
        cleaned = clean_markdown(name, [(number, pages[number - 1]) for number in numbers])
        filled = {page.number for page in cleaned.text.pages}
    else:
        cleaned = clean_text(name, pages, numbers)
        filled = {number for number in numbers if pages[number - 1].strip()}
    count, empty = len(numbers), tuple(number for number in numbers if number not in filled)
    if sections:
        cleaned.text.pages = markdown_sections(cleaned.text)
        count, empty = len(cleaned.text.pages), ()
    kind = "markdown" if markdown else "text"
    if (other := contradiction(name, "text")) and kind_by_suffix(PurePath(name).suffix) not in ("text", "markdown"):
        warnings.insert(0, f"{name} is {FORMATS[kind].label}{other}.")
    unread = notebook[1] if notebook else 0
    extraction = Extraction(count, empty, warnings=tuple(warnings), unread=unread)
    document = cleaned.document(name, kind, extraction, unit="section" if sections else "page")
    if request.progress:
        request.progress(count, count)
    return document


def _is_markdown(name: str, text: str) -> bool:
    """True if a text is Markdown: by its suffix, or without one (or .txt) by headings that stand alone."""
    suffix = PurePath(name).suffix.lower()
    return suffix in _MARKDOWN_SUFFIXES or (suffix in _TEXT_SUFFIXES and len(_HEADING.findall(text[:HEAD])) >= 2)
