"""What cleaning changed in a document, as a unified diff: pages as they were found against pages as they are read."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from difflib import SequenceMatcher

from rich.text import Text

from specextend_cli.documents.document import Document
from specextend_cli.figures import format_count
from specextend_cli.ui.colours import ACCENT, ADDED, REMOVED
from specextend_cli.ui.streams import sanitize

_AROUND = 1  # unchanged lines shown beside changed ones


def diff(document: Document) -> Iterator[Text]:
    """One text a page that was changed, its last line end left out; the repairs are counted by kind above it."""
    kinds: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for edit in document.extraction.edits:
        kinds[edit.page][edit.kind] += 1
    numbered = document.unit == "page" or len(document.extraction.sheets) > 1
    for sheet in document.extraction.sheets:
        lines = list(_lines(sheet.found, sheet.cleaned))
        if not lines:
            continue
        counted = " · ".join((f"{document.unit} {sheet.number}" if numbered else "text", *account(kinds[sheet.number])))
        yield Text("\n").join([Text(f"@@ {counted} @@", style=ACCENT), *lines])


def account(changes: Counter[str]) -> list[str]:
    """ "page number × 52", most frequent first."""
    return [f"{kind} × {format_count(count)}" for kind, count in changes.most_common()]


def _lines(found: tuple[str, ...], cleaned: tuple[str, ...]) -> Iterator[Text]:
    for group in SequenceMatcher(None, found, cleaned).get_grouped_opcodes(_AROUND):
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from (Text(f" {sanitize(line)}") for line in found[i1:i2])
                continue
            yield from (Text(f"-{sanitize(line)}", style=REMOVED) for line in found[i1:i2])
            yield from (Text(f"+{sanitize(line)}", style=ADDED) for line in cleaned[j1:j2])
