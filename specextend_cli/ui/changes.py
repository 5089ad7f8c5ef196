"""The changes of cleaning a document, as a unified diff of each page before and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal

from rich.text import Text

from specextend_cli.documents.document import Document
from specextend_cli.humanize import format_count
from specextend_cli.ui.output import ACCENT, ADDED, REMOVED, sanitize

_Tag = Literal["replace", "delete", "insert", "equal"]
_CONTEXT = 1  # unchanged lines around changed ones
_BLOCK = 400  # lines compared at a time: the time grows with their square


def diff(document: Document) -> Iterator[Text]:
    """One text per changed page, headed by its number; without a final line end."""
    for page in document.extraction.page_diffs:
        if lines := list(_lines(page.before, page.after)):
            yield Text("\n").join([Text(f"@@ {document.unit} {page.number} @@", style=ACCENT), *lines])


def account(changes: Counter[str]) -> list[str]:
    """ "page number × 52", most frequent first."""
    return [f"{kind} × {format_count(count)}" for kind, count in changes.most_common()]


class _Matcher(SequenceMatcher[str]):
    """Compares long pages block by block, in time linear in their length."""

    def __init__(self, found: Sequence[str], cleaned: Sequence[str]) -> None:
        super().__init__(None, (), ())
        self._found, self._cleaned = found, cleaned

    def get_opcodes(self) -> list[tuple[_Tag, int, int, int, int]]:
        codes: list[tuple[_Tag, int, int, int, int]] = []
        i = j = 0
        while i < len(self._found) or j < len(self._cleaned):
            a, b = self._found[i : i + _BLOCK], self._cleaned[j : j + _BLOCK]
            found = SequenceMatcher(None, a, b).get_opcodes()
            whole = i + len(a) == len(self._found) and j + len(b) == len(self._cleaned)
            if not whole and len(found) > 1 and found[-1][0] != "equal":
                found.pop()  # cut by the block's end: compared again with the next block
            for tag, i1, i2, j1, j2 in found:
                if codes and codes[-1][0] == tag == "equal":  # it continues over the end of a block
                    (_, first, _, start, _) = codes.pop()
                    codes.append((tag, first, i + i2, start, j + j2))
                else:
                    codes.append((tag, i + i1, i + i2, j + j1, j + j2))
            i, j = codes[-1][2], codes[-1][4]
        return codes


def _lines(found: tuple[str, ...], cleaned: tuple[str, ...]) -> Iterator[Text]:
    for group in _Matcher(found, cleaned).get_grouped_opcodes(_CONTEXT):
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from (Text(f" {sanitize(line)}") for line in found[i1:i2])
                continue
            yield from (Text(f"-{sanitize(line)}", style=REMOVED) for line in found[i1:i2])
            yield from (Text(f"+{sanitize(line)}", style=ADDED) for line in cleaned[j1:j2])
