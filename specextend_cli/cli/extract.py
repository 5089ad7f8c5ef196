"""`specextend extract FILE`: exactly the text that the model would see, and what was done to get it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from specextend_cli.cli import options
from specextend_cli.cli.reading import one_source, recognizing
from specextend_cli.errors import UsageError

if TYPE_CHECKING:
    from specextend_cli.documents.document import Document


def extract(
    file: options.File = None,
    pages: options.Pages = None,
    password_file: options.PasswordFile = None,
    ocr: options.OcrOption = False,
    ocr_lang: options.OcrLanguages = None,
    full_page: options.FullPage = False,
    allow_url: options.AllowUrl = False,
    changes: Annotated[
        bool, typer.Option("--changes", help="List every repair on stderr.", rich_help_panel=options.OUTPUT)
    ] = False,
    diff: Annotated[
        bool,
        typer.Option("--diff", help="Print what cleaning changed, not the text.", rich_help_panel=options.OUTPUT),
    ] = False,
    output: options.OutputPath = None,
    json: options.Json = False,
    force: options.Force = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Print the text of a document as the model would see it; what was removed or joined is counted on stderr.

    Examples:
      specextend extract report.pdf --pages 1-3 | less
      specextend extract report.pdf --diff
      specextend extract report.pdf -o report.txt
    """
    from specextend_cli.ui.changes import diff as pages_of_diff
    from specextend_cli.ui.destination import destination
    from specextend_cli.ui.streams import Output

    json = json or (output is not None and output.endswith(".json") and not diff)
    if diff and json:
        raise UsageError("--diff and --json contradict each other", fix="leave one of them out")
    source = one_source(
        file,
        example="specextend extract FILE",
        pages=pages,
        password_file=password_file,
        allow_url=allow_url,
        ocr=options.ocr(ocr, ocr_lang),
        full_page=full_page,
    )
    place = destination(output, "json" if json else "text", many=False, force=force)
    place.check([source.name], options.files(source.file, password_file))
    terminal = Output()
    if place.is_stdout:
        terminal.require_stdout()
    document = source.read(recognizing=None if quiet else partial(recognizing, terminal))
    for message in document.extraction.warnings:
        terminal.warn(message)
    path = place.path(source.name)
    if path is None and diff:
        for page in pages_of_diff(document):
            terminal.show(page)
    elif path is not None and place.keeps(path):
        terminal.note(f"{path} exists already; --force writes it again")
    else:
        place.put(terminal.write, _text(document, diff=diff, json=json), path)
    if quiet:
        return
    if changes:
        for edit in document.extraction.edits:
            terminal.note(f"{document.unit} {edit.page}: {edit.kind}: {_quoted(edit.before)} -> {_quoted(edit.after)}")
    terminal.note(_account(document))


def _text(document: Document, *, diff: bool, json: bool) -> str:
    """What is written: the text, the changes, or all of it as JSON."""
    from specextend_cli.ui.changes import diff as pages_of_diff
    from specextend_cli.ui.jsonl import format_json
    from specextend_cli.ui.streams import sanitize

    if json:
        return format_json(_record(document)) + "\n"
    if diff:
        return "".join(f"{page.plain}\n" for page in pages_of_diff(document))
    return sanitize(document.text).rstrip("\n") + "\n"


def _record(document: Document) -> dict[str, object]:
    extraction = document.extraction
    return {
        "document": document.name,
        "kind": document.kind,
        "title": document.title,
        "pages": extraction.pages,
        "empty": list(extraction.empty),
        "failed": list(extraction.failed),
        "ocr": list(extraction.ocr),
        "changes": dict(extraction.changes),
        "unit": document.unit,
        "places": [[page.number, page.start, page.end, page.title] for page in document.pages],
        "labels": {page.number: page.label for page in document.pages if page.label},
        "text": document.text,
    }


def _account(document: Document) -> str:
    """ "52 pages · 181,204 characters · page number × 52 ...", or sections."""
    from specextend_cli.humanize import format_many, format_numbers
    from specextend_cli.ui.changes import account

    extraction = document.extraction
    pieces = [format_many(extraction.pages, document.unit), format_many(len(document.text), "character")]
    pieces += account(extraction.changes)
    if extraction.empty:
        pieces.append(f"without text: {format_numbers(extraction.empty)}")
    if extraction.ocr:
        pieces.append(f"by OCR: {format_numbers(extraction.ocr)}")
    if extraction.failed:
        pieces.append(f"unreadable: {format_numbers(extraction.failed)}")
    return " · ".join(pieces)


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:59] + "…")
