"""What a parser found, cleaned and composed: one text with its pages and blocks, and the repairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate

from specextend_cli.documents.document import Block, Edit, StructuredText, pages_between
from specextend_cli.documents.encoded import ENCODED, without_encoded
from specextend_cli.documents.layout import compose
from specextend_cli.documents.line import Line, Pages, Repair, lines_of_text, runs
from specextend_cli.documents.repairs.characters import characters, plain_characters
from specextend_cli.documents.repairs.hyphens import drop_caps, hyphens
from specextend_cli.documents.repairs.line_numbers import line_numbers
from specextend_cli.documents.repairs.notes import interruptions, note_marks, remove_note_marks
from specextend_cli.documents.repairs.order import columns, list_markers, reading_order, side_headings
from specextend_cli.documents.repairs.rows import empty_cells, rows, wrapped_cells
from specextend_cli.documents.repairs.running import running_lines
from specextend_cli.documents.sections import Paged, Parsed, Section
from specextend_cli.documents.text import cleaned_markdown, markdown_blocks

_ORDER: tuple[Repair, ...] = (
    *(
        line_numbers,
        list_markers,
        wrapped_cells,
        columns,
        characters,
        drop_caps,
        rows,
        empty_cells,
        running_lines,
    ),
    *(side_headings, reading_order, interruptions, note_marks, hyphens),
)
"""Each repair relies on those before it."""


def clean(parsed: Parsed | Paged) -> tuple[StructuredText, list[Edit]]:
    """The cleaned text and all repairs. In a `Parsed` file each section is a page."""
    return _sections(parsed) if isinstance(parsed, Parsed) else _lines(parsed)


def _lines(parsed: Paged) -> tuple[StructuredText, list[Edit]]:
    """The repaired lines of pages, of which more may have been read than are kept."""
    keep = frozenset(parsed.requested)
    edits: list[Edit] = []
    repaired = repair_pages([parsed.pages[number] for number in sorted(parsed.pages)], edits)
    kept = [page for page in ([line for line in page if line.page in keep] for page in repaired) if page]
    text = compose(kept, parsed.outline)
    text.pages = [replace(page, label=parsed.labels.get(page.number, "")) for page in text.pages]
    return text, [*parsed.edits, *(edit for edit in edits if edit.page in keep)]


def repair_pages(pages: Pages, edits: list[Edit]) -> list[list[Line]]:
    """The repaired pages; all edits are added to the list."""
    for repair in _ORDER:
        pages = repair(pages, edits)
    return [list(page) for page in pages]


def _sections(parsed: Parsed) -> tuple[StructuredText, list[Edit]]:
    edits = list(parsed.edits)
    parts: list[tuple[int, str, list[Block]]] = []
    titles: dict[int, str] = {}
    for number, section in enumerate(parsed.sections, 1):
        titles[number] = _clean(section.title, number, [])
        parts += [(number, text, blocks) for text, blocks in _cleaned_parts(section, number, edits) if text]
    text = "\n\n".join(text for _, text, _ in parts)
    starts = list(accumulate((len(text) + 2 for _, text, _ in parts), initial=0))
    blocks = [
        Block(block.kind, start + block.start, start + block.end)
        for start, (*_, found) in zip(starts, parts, strict=False)
        for block in found
    ]
    pages = pages_between([number for number, *_ in parts], [*starts[:-1], len(text)])
    return StructuredText(text, [replace(page, title=titles[page.number]) for page in pages], blocks), edits


def _clean(line: str, number: int, edits: list[Edit]) -> str:
    return remove_note_marks(plain_characters(line, number, edits), number, edits).strip()


def _cleaned_parts(section: Section, number: int, edits: list[Edit]) -> Iterator[tuple[str, list[Block]]]:
    """The texts that blank lines separate (adjacent rows are one), each with its blocks."""
    for items in runs(section.items, lambda run, item: run[-1][0] == item[0] == "row"):
        kind, text = items[0][0], "\n".join(text for _, text in items)
        text, encoded = without_encoded(text)
        edits += [Edit(ENCODED, number, block) for block in encoded]
        if kind == "markdown":
            cleaned = cleaned_markdown(text, number, edits)
            yield cleaned, list(markdown_blocks(cleaned))
        elif kind in ("plain", "quote"):
            pages = repair_pages([lines_of_text(page, number) for page in text.split("\f")], edits)
            body = compose([page for page in pages if page])
            yield body.text, [replace(block, kind="quote") for block in body.blocks] if kind == "quote" else body.blocks
        else:
            cleaned = "\n".join(filter(None, (_clean(line, number, edits) for line in text.split("\n"))))
            yield cleaned, [Block("heading" if kind == "heading" else "paragraph", 0, len(cleaned))]
