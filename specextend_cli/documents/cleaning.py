"""What a parser found, cleaned and composed: one text with its pages and blocks, and the repairs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from specextend_cli.documents.document import Block, Edit, PageDiff, StructuredText, TextBuilder
from specextend_cli.documents.encoded import ENCODED, without_encoded
from specextend_cli.documents.layout import compose
from specextend_cli.documents.line import HYPHEN, Line, lines_of_text, runs
from specextend_cli.documents.markdown import compose_markdown, markdown_sections
from specextend_cli.documents.paged import Paged, Typed
from specextend_cli.documents.repairs import repair_pages
from specextend_cli.documents.repairs.characters import plain_characters
from specextend_cli.documents.repairs.notes import remove_note_marks
from specextend_cli.documents.sections import Parsed, Section


@dataclass(slots=True)
class Cleaned:
    """The text of a document, or of some of its pages, with its repairs and their effect on each page."""

    text: StructuredText = field(default_factory=StructuredText)
    edits: list[Edit] = field(default_factory=list)
    page_diffs: list[PageDiff] = field(default_factory=list)


def clean(parsed: Parsed | Paged | Typed) -> Cleaned:
    """The cleaned text. In a `Parsed` file each section is a page."""
    if isinstance(parsed, Parsed):
        return _sections(parsed)
    if isinstance(parsed, Paged):
        return _lines(parsed)
    return _markdown(parsed) if parsed.kind == "markdown" else _typed(parsed)


def _lines(parsed: Paged) -> Cleaned:
    found = [parsed.pages[number] for number in sorted(parsed.pages)]
    cleaned, kept = _repaired(found, found, parsed.requested, [])
    cleaned.text = compose(kept, parsed.outline)
    if parsed.labels:
        pages = cleaned.text.pages
        cleaned.text.pages = [replace(page, label=parsed.labels.get(page.number, "")) for page in pages]
    cleaned.edits[:0] = parsed.edits
    return cleaned


def _typed(parsed: Typed) -> Cleaned:
    encoded: list[Edit] = []
    found = [lines_of_text(text, number) for number, text in enumerate(parsed.pages, 1)]
    texts = list(_readable(enumerate(parsed.pages, 1), encoded))
    readable = [lines_of_text(text, number) for number, text in texts] if encoded else found
    cleaned, kept = _repaired(found, readable, parsed.requested, encoded)
    cleaned.text = compose(kept, typed=True)
    return cleaned


def _repaired(
    found: Sequence[list[Line]], readable: Sequence[list[Line]], requested: Iterable[int], encoded: Iterable[Edit]
) -> tuple[Cleaned, list[list[Line]]]:
    """The repairs of `readable` pages, which come from those that were `found`, and what is kept of them."""
    keep = frozenset(requested)
    repaired, edits = repair_pages(readable)
    kept = [page for page in ([line for line in page if line.page in keep] for page in repaired) if page]
    diffs = []
    for page, after in zip(found, repaired, strict=True):
        if page and page[0].page in keep:
            before = (line.text.replace(HYPHEN, "-").replace("\t", "  ") for line in page)
            diffs.append(PageDiff(page[0].page, tuple(before), tuple(line.text for line in after)))
    return Cleaned(edits=[edit for edit in chain(encoded, edits) if edit.page in keep], page_diffs=diffs), kept


def _markdown(parsed: Typed) -> Cleaned:
    encoded: list[Edit] = []
    pages = [(number, parsed.pages[number - 1]) for number in parsed.requested]
    text, edits, diffs = compose_markdown(list(_readable(pages, encoded)))
    for at, (number, page) in enumerate(pages if encoded else ()):
        diffs[at] = PageDiff(number, tuple(line for line in page.split("\n") if line.strip()), diffs[at].after)
    if parsed.has_sections:
        text.pages = markdown_sections(text)
    return Cleaned(text, [*encoded, *edits], diffs)


def _readable(pages: Iterable[tuple[int, str]], edits: list[Edit]) -> Iterator[tuple[int, str]]:
    """Numbered pages without encoded data, each block of which is an edit."""
    for number, page in pages:
        text, removed = without_encoded(page)
        edits += [Edit(ENCODED, number, block) for block in removed]
        yield number, text


def _sections(parsed: Parsed) -> Cleaned:
    edits = [Edit(kind, number, text) for kind, number, text in parsed.removed]
    removed = defaultdict[int, list[str]](list)
    for _, number, text in parsed.removed:
        removed[number].append(text)
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
    return Cleaned(builder.text, edits, diffs)


def _clean(line: str, number: int, edits: list[Edit]) -> str:
    return remove_note_marks(plain_characters(line, number, edits), number, edits).strip()


def _cleaned_parts(section: Section, number: int, edits: list[Edit]) -> Iterator[tuple[str, list[Block], list[str]]]:
    """The texts that blank lines separate (adjacent rows are one), each with its blocks and its lines."""
    for rows in runs(section.items, lambda run, item: run[-1][0] == item[0] == "row"):
        kind, text = rows[0][0], "\n".join(text for _, text in rows)
        text, encoded = without_encoded(text)
        edits += [Edit(ENCODED, number, block) for block in encoded]
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
