"""The repairs of a document, page by page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby

from rich.text import Text

from specextend_cli.documents.document import Document, Edit
from specextend_cli.humanize import format_count
from specextend_cli.ui.output import ACCENT, ADDED, REMOVED, sanitize


def diff(document: Document) -> Iterator[Text]:
    """One text per page with repairs, headed by its number; without a final line end."""
    in_order = sorted(document.extraction.edits, key=lambda edit: edit.page)
    for number, edits in groupby(in_order, key=lambda edit: edit.page):
        lines = [line for edit, count in Counter(edits).items() for line in _lines(edit, count)]
        yield Text("\n").join([Text(f"@@ {document.unit} {number} @@", style=ACCENT), *lines])


def _lines(edit: Edit, count: int) -> Iterator[Text]:
    """The kind of a repair and how often it was made, the lines before and those after it; or those that were moved."""
    yield Text(edit.kind if count == 1 else f"{edit.kind} × {format_count(count)}")
    if edit.before == edit.after:
        yield from (Text(f" {sanitize(line)}") for line in edit.before.split("\n"))
        return
    yield from (Text(f"-{sanitize(line)}", style=REMOVED) for line in filter(None, edit.before.split("\n")))
    yield from (Text(f"+{sanitize(line)}", style=ADDED) for line in filter(None, edit.after.split("\n")))
