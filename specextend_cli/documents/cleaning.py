"""What a parser found, cleaned and composed: one text with its pages and blocks, and the repairs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from specextend_cli.documents.document import Block, Edit, PageDiff, StructuredText, TextBuilder
from specextend_cli.documents.encoded import ENCODED, without_encoded
from specextend_cli.documents.layout import compose
from specextend_cli.documents.line import HYPHEN, lines_of_text, runs
from specextend_cli.documents.markdown import markdown_blocks, markdown_lines
from specextend_cli.documents.paged import Paged
from specextend_cli.documents.repairs import repair_pages
from specextend_cli.documents.repairs.characters import plain_characters
from specextend_cli.documents.repairs.notes import remove_note_marks
from specextend_cli.documents.sections import Parsed, Section

Cleaned = tuple[StructuredText, list[Edit], list[PageDiff]]
"""A text with its repairs, and their effect on each page."""


def clean(parsed: Parsed | Paged) -> Cleaned:
    """The cleaned text. In a `Parsed` file each section is a page."""
    return _sections(parsed) if isinstance(parsed, Parsed) else _lines(parsed)


def _lines(parsed: Paged) -> Cleaned:
    """The repaired lines of pages, of which more may have been read than are kept."""
    found, keep = [parsed.pages[number] for number in sorted(parsed.pages)], frozenset(parsed.requested)
    repaired, edits = repair_pages(found)
    kept = [page for page in ([line for line in page if line.page in keep] for page in repaired) if page]
    removed, diffs = _removed(parsed.edits), list[PageDiff]()
    for page, after in zip(found, repaired, strict=True):
        if page and (number := page[0].page) in keep:
            before = (line.text.replace(HYPHEN, "-").replace("\t", "  ") for line in page)
            diffs.append(PageDiff(number, (*removed[number], *before), tuple(line.text for line in after)))
    text = compose(kept, parsed.outline, typed=parsed.kind == "text")
    text.pages = [replace(page, label=parsed.labels.get(page.number, "")) for page in text.pages]
    return text, [*parsed.edits, *(edit for edit in edits if edit.page in keep)], diffs


def _sections(parsed: Parsed) -> Cleaned:
    edits, removed = list(parsed.edits), _removed(parsed.edits)
    builder, diffs = TextBuilder(), list[PageDiff]()
    for number, section in enumerate(parsed.sections, 1):
        body, after = TextBuilder(), list[str]()
        for text, blocks, lines in _cleaned_parts(section, number, edits):
            after += lines
            body.add(number, text, blocks)
        before = (line.replace("\t", "  ") for _, text in section.items for line in text.split("\n") if line.strip())
        diffs.append(PageDiff(number, (*removed[number], *before), tuple(after)))
        made = body.text
        builder.add(number, made.text, made.blocks, _clean(section.title, number, []))
    return builder.text, edits, diffs


def _removed(edits: Sequence[Edit]) -> defaultdict[int, list[str]]:
    """The lines that a parser left out, by page."""
    removed = defaultdict[int, list[str]](list)
    for edit in edits:
        removed[edit.page] += edit.before.split("\n") if not edit.after else ()
    return removed


def _clean(line: str, number: int, edits: list[Edit]) -> str:
    return remove_note_marks(plain_characters(line, number, edits), number, edits).strip()


def _cleaned_parts(section: Section, number: int, edits: list[Edit]) -> Iterator[tuple[str, list[Block], list[str]]]:
    """The texts that blank lines separate (adjacent rows are one), each with its blocks and its lines."""
    for rows in runs(section.items, lambda run, item: run[-1][0] == item[0] == "row"):
        kind, text = rows[0][0], "\n".join(text for _, text in rows)
        text, encoded = without_encoded(text)
        edits += [Edit(ENCODED, number, block) for block in encoded]
        if kind == "markdown":
            lines = markdown_lines(text, number, edits)
            yield "\n".join(lines), list(markdown_blocks("\n".join(lines))), lines
            continue
        if kind in ("plain", "quote"):
            pages, made = repair_pages([lines_of_text(page, number) for page in text.split("\f")])
            edits += made
            pages = [page for page in pages if page]
            body = compose(pages, typed=True)
            blocks = [replace(block, kind="quote") for block in body.blocks] if kind == "quote" else body.blocks
            yield body.text, blocks, [line.text for page in pages for line in page]
            continue
        lines = [line for line in (_clean(line, number, edits) for line in text.split("\n")) if line]
        cleaned = "\n".join(lines)
        yield cleaned, [Block("heading" if kind == "heading" else "paragraph", 0, len(cleaned))], lines
