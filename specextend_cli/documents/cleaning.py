"""Cleaning and layout of what was read, within limits: a large text is cleaned in the sandbox.

The repairs are linear in the size of the text. The limits hold where one of them turns out not to be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from specextend_cli.documents.document import Block, Document, Edit, Extraction, Page, PageDiff, StructuredText
from specextend_cli.documents.encoded import ENCODED, without_encoded
from specextend_cli.documents.errors import places
from specextend_cli.documents.formats import FORMATS
from specextend_cli.documents.gutenberg import LICENCE, without_licence
from specextend_cli.documents.layout import Outline, compose, keep_lines
from specextend_cli.documents.line import HYPHEN, Pages, lines_from_json, lines_of_text
from specextend_cli.documents.markdown import compose_markdown
from specextend_cli.documents.repairs import repair_pages
from specextend_cli.documents.repairs.characters import plain_characters
from specextend_cli.documents.repairs.running import KEPT
from specextend_cli.documents.sandbox import SandboxError, sandbox
from specextend_cli.errors import InputError
from specextend_cli.humanize import format_many

SECONDS = 60.0
SECONDS_PER_CHARACTER = 1e-5
SECONDS_PER_PAGE = 2e-3
MEMORY = 4 << 30
SMALL = 8_000
"""Characters; a text of no more is cleaned in this process: even quadratic work on it ends within seconds."""
MAX_RESPONSE = 1 << 30

_WORKER = "specextend_cli.documents.cleaning:respond"
_TITLE = 1_000  # characters


@dataclass(slots=True)
class Cleaned:
    """The text of a document, or of some of its pages, with its repairs and their effect on each page."""

    text: StructuredText = field(default_factory=StructuredText)
    edits: list[Edit] = field(default_factory=list)
    page_diffs: list[PageDiff] = field(default_factory=list)

    def document(
        self, name: str, kind: str, extraction: Extraction, title: str = "", unit: Literal["page", "section"] = "page"
    ) -> Document:
        """The document, whose `extraction` lacks the repairs so far; InputError where it holds no text."""
        text = self.text
        if not text.text.strip():
            raise InputError(f"{name} holds no text", why=FORMATS[kind].empty or FORMATS["text"].empty)
        changes = Counter(edit.kind for edit in self.edits)
        if text.joined:
            changes["line joined"] = text.joined
        warnings = list(extraction.warnings)
        if numbers := sorted({edit.page for edit in self.edits if edit.kind == KEPT}):
            where = f"{places(numbers)} of {name}: lines that return at the edge of the pages"
            warnings.append(f"{where} were kept, because they are a large part of the text there.")
        if encoded := [edit for edit in self.edits if edit.kind == ENCODED]:
            size = format_many(sum(len(edit.before) for edit in encoded), "character")
            warnings.append(f"Encoded data of {name} (base64 or the like) was left out: {size}.")
        if licence := sum(len(edit.before.split()) for edit in self.edits if edit.kind == LICENCE):
            warnings.append(f"The licence of Project Gutenberg in {name} was left out: {format_many(licence, 'word')}.")
        edits, diffs = tuple(self.edits), tuple(self.page_diffs)
        extraction = replace(extraction, changes=changes, warnings=tuple(warnings), edits=edits, page_diffs=diffs)
        title = plain_characters(" ".join(title[:_TITLE].split()), 0, [])
        return Document(name, kind, text.text, tuple(text.pages), tuple(text.blocks), extraction, title, unit)

    @classmethod
    def from_json(cls, values: Sequence[Any]) -> Cleaned:
        """From the fields of each, as the sandbox sends them."""
        (text, pages, blocks, joined), edits, diffs = values
        return cls(
            StructuredText(text, [Page(*page) for page in pages], [Block(*block) for block in blocks], joined),
            [Edit(*edit) for edit in edits],
            [PageDiff(number, tuple(before), tuple(after)) for number, before, after in diffs],
        )


def clean_lines(name: str, pages: Pages, outline: Outline, keep: Iterable[int]) -> Cleaned:
    """Clean pages of lines; those not in `keep` only help to recognize running heads. InputError beyond the limits."""
    job = {"form": "lines", "pages": pages, "outline": outline, "keep": sorted(keep)}
    return _clean(name, job, sum(len(line.text) for page in pages for line in page))


def clean_text(name: str, pages: Sequence[str], keep: Iterable[int]) -> Cleaned:
    """Clean the pages of a plain text, and keep those of these numbers. InputError beyond the limits."""
    return _clean(name, {"form": "text", "pages": pages, "keep": sorted(keep)}, sum(map(len, pages)))


def clean_markdown(name: str, pages: Sequence[tuple[int, str]]) -> Cleaned:
    """Clean numbered pages of Markdown. InputError beyond the limits."""
    return _clean(name, {"form": "markdown", "pages": pages}, sum(len(text) for _, text in pages))


def _clean(name: str, job: dict[str, Any], size: int) -> Cleaned:
    if size <= SMALL:
        return _cleaned(job)
    seconds = SECONDS + SECONDS_PER_CHARACTER * size + SECONDS_PER_PAGE * len(job["pages"])
    try:
        with sandbox(_WORKER, {**job, "memory": MEMORY}, first=seconds, most=MAX_RESPONSE) as process:
            return Cleaned.from_json(process.head["cleaned"])
    except SandboxError:
        why = f"putting its text in order took more than {seconds:,.0f} seconds or {MEMORY >> 30} GB of memory"
        raise InputError(f"{name} could not be read", why=why, fix="split it and give the parts") from None


def respond(job: dict[str, Any], requests: Iterator[Any]) -> Iterator[dict[str, Any]]:
    """In the sandbox: one response."""
    if job["form"] == "lines":
        job["pages"] = [lines_from_json(page) for page in job["pages"]]
    yield {"cleaned": _cleaned(job)}


def _cleaned(job: Mapping[str, Any]) -> Cleaned:
    if job["form"] == "markdown":
        return _cleaned_markdown(job["pages"])
    found: Pages = job["pages"]
    readable, encoded = found, list[Edit]()
    if job["form"] == "text":
        found = [lines_of_text(text, number) for number, text in enumerate(job["pages"], 1)]
        texts = list(_readable(enumerate(job["pages"], 1), encoded))
        readable = [lines_of_text(text, number) for number, text in texts] if encoded else found
    keep = frozenset(job["keep"])
    repaired, edits = repair_pages(readable)
    kept = [page for page in ([line for line in page if line.page in keep] for page in repaired) if page]
    text = compose(kept, job.get("outline", ()))
    if job["form"] == "text":
        text = keep_lines(text, kept)
    diffs = []
    for page, after in zip(found, repaired, strict=True):
        if page and page[0].page in keep:
            before = (line.text.replace(HYPHEN, "-").replace("\t", "  ") for line in page)
            diffs.append(PageDiff(page[0].page, tuple(before), tuple(line.text for line in after)))
    return Cleaned(text, [edit for edit in (*encoded, *edits) if edit.page in keep], diffs)


def _cleaned_markdown(pages: Sequence[tuple[int, str]]) -> Cleaned:
    encoded: list[Edit] = []
    text, edits, diffs = compose_markdown(list(_readable(pages, encoded)))
    for at, (number, page) in enumerate(pages if encoded else ()):
        diffs[at] = PageDiff(number, tuple(line for line in page.split("\n") if line.strip()), diffs[at].after)
    return Cleaned(text, [*encoded, *edits], diffs)


def _readable(pages: Iterable[tuple[int, str]], edits: list[Edit]) -> Iterator[tuple[int, str]]:
    """Numbered pages without encoded data and licences, each block of which is an edit."""
    for number, page in pages:
        text, removed = without_encoded(page)
        edits += [Edit(ENCODED, number, block) for block in removed]
        text, removed = without_licence(text)
        edits += [Edit(LICENCE, number, part) for part in removed]
        yield number, text
