"""Structured formats (HTML, Word, EPUB, email) to a document: the sandbox parses and cleans, within limits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from specextend_cli.documents.archive import Archive
from specextend_cli.documents.cleaning import MAX_RESPONSE, Cleaned
from specextend_cli.documents.document import Block, Document, Edit, Extraction, PageDiff, TextBuilder
from specextend_cli.documents.encoded import ENCODED, without_encoded
from specextend_cli.documents.errors import contradiction, no_pages, not_read, places
from specextend_cli.documents.formats import FORMATS, load
from specextend_cli.documents.layout import compose, keep_lines
from specextend_cli.documents.line import lines_of_text, runs
from specextend_cli.documents.repairs import repair_pages
from specextend_cli.documents.repairs.characters import plain_characters
from specextend_cli.documents.repairs.notes import remove_note_marks
from specextend_cli.documents.request import ReadRequest
from specextend_cli.documents.sandbox import SandboxError, sandbox
from specextend_cli.documents.sections import Parsed, Section, Source, TooMuchError
from specextend_cli.errors import InputError
from specextend_cli.humanize import format_many

SECONDS = 60.0
MEMORY = 3 << 30

_WORKER = "specextend_cli.documents.structured:respond"


def read_structured(request: ReadRequest) -> Document:
    """The document of a format with a `parser`, or of a ZIP that turns out to be one; InputError otherwise."""
    name = request.name
    response = _parse_in_sandbox(request, full_page=request.full_page)
    if "error" in response:
        what, why, fix = response["error"]
        raise InputError(what, why=why, fix=fix)
    kind: str = response["kind"]
    if "cleaned" not in response:
        raise not_read(request, kind)
    if request.pages is not None:
        raise no_pages(name, kind)
    warnings: list[str] = response["warnings"]
    if other := contradiction(name, kind):
        warnings.insert(0, f"{name} is {FORMATS[kind].label}{other}.")
    failures = {number: why for number, why in enumerate(response["failures"], 1) if why}
    sections = len(response["failures"])
    if failures and len(failures) == sections:
        why = "; ".join(sorted(set(failures.values()))[:3])
        raise InputError(f"{name}: none of {format_many(sections, 'section')} could be read", why=why)
    if failures:
        warnings.append(f"{places(tuple(failures), 'section')} of {name} could not be read.")
    cleaned = Cleaned.from_json(response["cleaned"])
    empty = set(range(1, sections + 1)) - {page.number for page in cleaned.text.pages} - failures.keys()
    extraction = Extraction(
        sections, tuple(sorted(empty)), tuple(failures), warnings=tuple(warnings), unread=response["unread"]
    )
    document = cleaned.document(name, kind, extraction, response["title"], "section")
    if request.progress:
        request.progress(sections, sections)
    return document


def _parse_in_sandbox(request: ReadRequest, *, full_page: bool) -> dict[str, Any]:
    """The response of `respond`. A web page whose article is not found within a third of the time is read whole."""
    extracts_article = request.kind == "html" and not full_page
    job: dict[str, Any] = {"path": str(request.path.resolve()), "name": request.name, "full_page": full_page}
    job |= {"parser": FORMATS[request.kind].parser, "memory": MEMORY}
    try:
        with sandbox(_WORKER, job, first=SECONDS / 3 if extracts_article else SECONDS, most=MAX_RESPONSE) as process:
            return process.head
    except SandboxError:
        if extracts_article:
            return _parse_in_sandbox(request, full_page=True)
        why = f"it took more than {SECONDS:.0f} seconds, or too much memory"
        raise InputError(f"{request.name} could not be read", why=why, fix="convert it to PDF or text") from None


def respond(job: dict[str, Any], requests: Iterator[Any]) -> Iterator[dict[str, Any]]:
    """In the sandbox: one response about the file at `job["path"]`, by its parser or, without one, as a ZIP.

    It has the `kind`, `title` and `warnings`, the number of parts that were `unread`, the reason why each section
    failed (or "") as `failures`, and the text as `cleaned`; of a ZIP that is not read the `kind` alone; or an `error`:
    [what, why, fix].
    """
    name = job["name"]
    try:
        parsed = parse(Source(Path(job["path"]), name, job["full_page"]), job["parser"])
        if isinstance(parsed, str):
            yield {"kind": parsed}
            return
        yield {
            "kind": parsed.finish().kind,
            "title": parsed.title,
            "warnings": parsed.warnings,
            "unread": parsed.unread,
            "failures": [section.failed for section in parsed.sections],
            "cleaned": compose_sections(parsed),
        }
    except InputError as error:
        yield {"error": [error.what, error.why, error.fix]}
    except TooMuchError as error:
        yield {"error": [f"{name} has too much text", str(error), "split it and give the parts"]}
    except RecursionError:
        yield {"error": [f"{name} cannot be read", "it is nested too deeply", "convert it to PDF or text"]}


def parse(source: Source, parser: str = "") -> Parsed | str:
    """The sections of a file; of a ZIP (no `parser`) that holds none of our formats its kind."""
    kind = "" if parser else Archive(source.path, source.name).kind
    parser = parser or FORMATS[kind].parser
    parsed: Parsed | str = load(parser)(source) if parser else kind
    return parsed


def compose_sections(parsed: Parsed) -> Cleaned:
    """The cleaned text, in which each section is a page."""
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
        if kind == "plain":
            pages, made = repair_pages([lines_of_text(page, number) for page in text.split("\f")])
            edits += made
            pages = [page for page in pages if page]
            body = keep_lines(compose(pages), pages)
            yield body.text, body.blocks, [line.text for page in pages for line in page]
            continue
        lines = [line for line in (_clean(line, number, edits) for line in text.split("\n")) if line]
        cleaned = "\n".join(lines)
        yield cleaned, [Block("heading" if kind == "heading" else "paragraph", 0, len(cleaned))], lines
