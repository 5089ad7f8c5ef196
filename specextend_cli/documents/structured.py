"""HTML, Word, EPUB and email to sections and to text: another process parses and cleans, within limits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from specextend_cli.documents.assembly import Assembly
from specextend_cli.documents.clean import tidy
from specextend_cli.documents.cleaning import MAX_ANSWER, Cleaned
from specextend_cli.documents.document import Block, Edit, Sheet
from specextend_cli.documents.layout import compose
from specextend_cli.documents.line import grid
from specextend_cli.documents.process import StoppedError, worker
from specextend_cli.documents.read_errors import unread
from specextend_cli.documents.repairs.characters import plain_characters
from specextend_cli.documents.repairs.footnotes import unmarked
from specextend_cli.documents.sections import Kind, Parsed, Section
from specextend_cli.errors import InputError

SECONDS = 60.0
MEMORY = 3 << 30

_START = "from specextend_cli.documents.structured_worker import serve; serve()"


def parse(
    path: Path, *, kind: str, name: str, whole: bool = False, seconds: float = SECONDS, memory: int = MEMORY
) -> tuple[Parsed, Cleaned]:
    """The sections of a file that `detect` calls `kind`, and their text; InputError when it cannot be read.

    Of a web page those of its article, unless it has none, or is wanted `whole`.
    """
    job = {"path": str(path.resolve()), "kind": kind, "name": name, "whole": whole, "memory": memory}
    to_find_it = seconds / 3 if kind == "html" and not whole else seconds
    try:
        with worker(_START, job, first=to_find_it, most=MAX_ANSWER) as answers:
            answer = next(answers)
    except StoppedError:
        if kind == "html" and not whole:  # what took too long may have been to find the article
            return parse(path, kind=kind, name=name, whole=True, seconds=seconds, memory=memory)
        why = f"it took more than {seconds:.0f} seconds, or too much memory"
        raise InputError(f"{name} could not be read", why=why, fix="convert it to PDF or text") from None
    if "error" in answer:
        what, why, fix = answer["error"]
        raise InputError(what, why=why, fix=fix)
    if "unread" in answer:
        raise unread(name, answer["unread"])
    return Parsed.from_json(answer), Cleaned.from_json(answer["cleaned"])


def compose_sections(parsed: Parsed) -> Cleaned:
    """The cleaned text, in which each section is a page, and what was changed on the way."""
    edits = [Edit(kind, number, text) for kind, number, text in parsed.removed]
    assembly = Assembly()
    compared: list[Sheet] = []
    for number, section in enumerate(parsed.sections, 1):
        parts: list[str] = []
        cleaned: list[str] = []
        blocks: list[Block] = []
        at = 0
        for text, found, lines in _parts(section, number, edits):
            cleaned += lines
            at += 2 * bool(parts)
            parts.append(text)
            blocks += (Block(block.kind, at + block.start, at + block.end) for block in found)
            at += len(text)
        before = (line.replace("\t", "  ") for _, text in section.items for line in text.split("\n") if line.strip())
        gone = (text for _, place, text in parsed.removed if place == number)
        compared.append(Sheet(number, (*gone, *before), tuple(cleaned)))
        title = unmarked(plain_characters(section.title, number, []), number, [])
        assembly.add(number, "\n\n".join(parts), blocks, title.strip())
    return Cleaned(assembly.text, edits, compared)


def _parts(section: Section, number: int, edits: list[Edit]) -> Iterator[tuple[str, list[Block], list[str]]]:
    """The texts that blank lines separate, with their blocks and the lines that they were made of."""
    for kind, text in _together(section):
        if kind == "plain":
            pages, made = tidy([grid(sheet, number) for sheet in text.split("\f")])
            edits += made
            body = compose([page for page in pages if page])
            if body.text:
                yield body.text, body.blocks, [line.text for page in pages for line in page]
            continue
        lines = (unmarked(plain_characters(line, number, edits), number, edits).strip() for line in text.split("\n"))
        kept = [line for line in lines if line]
        if cleaned := "\n".join(kept):
            yield cleaned, [Block("heading" if kind == "heading" else "paragraph", 0, len(cleaned))], kept


def _together(section: Section) -> Iterator[tuple[Kind, str]]:
    """The items, rows that follow each other as one."""
    rows: list[str] = []
    for kind, text in section.items:
        if kind == "row":
            rows.append(text)
            continue
        if rows:
            yield "row", "\n".join(rows)
            rows = []
        yield kind, text
    if rows:
        yield "row", "\n".join(rows)
