"""The outline (bookmarks) of a PDF: which lines of its pages are the headings that it lists."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from specextend_cli.documents.line import Line

Outline = Sequence[tuple[str, int | None]]
"""Headings in order, with their pages (1-based) where the file says them."""


def listed(pages: Sequence[Sequence[Line]], outline: Outline) -> dict[int, int]:
    """The lines that are headings by the outline: the id of each, and which heading it belongs to.

    A heading may have up to three lines. The first place on its page that reads so is taken; a page may be off by one.
    """
    titles: defaultdict[int | None, set[str]] = defaultdict(set)
    for title, page in outline:
        if letters := _letters(title):
            for near in (None,) if page is None else (page - 1, page, page + 1):
                titles[near].add(letters)
    found: dict[int, int] = {}
    if not titles:
        return found
    for lines in pages:
        wanted = titles[lines[0].page] | titles[None] if lines else set()
        spelled = [_letters(line.text) for line in lines]
        for at, first in enumerate(lines):
            for count in (1, 2, 3):
                heading = "".join(spelled[at : at + count])
                if heading in wanted and id(first) not in found:
                    wanted.discard(heading)
                    found.update((id(line), id(first)) for line in lines[at : at + count])
    return found


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text)).casefold()
