"""`specextend extract FILE`: the text that the model reads, and the repairs made to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from specextend_cli.cli import options
from specextend_cli.cli.inputs import one_source
from specextend_cli.errors import UsageError
from specextend_cli.humanize import format_many, format_numbers

if TYPE_CHECKING:
    from specextend_cli.documents.document import Document


def extract(
    *,
    file: options.File = None,
    output: options.OutputPath = None,
    json: options.Json = False,
    diff: Annotated[bool, options.option("--diff", "Print what cleaning changed, not the text.")] = False,
    changes: Annotated[bool, options.option("--changes", "List every repair on stderr.")] = False,
    force: options.Force = False,
    quiet: options.Quiet = False,
    reading: options.ReadOptions,
) -> None:
    """Print a document's text as the model reads it; repairs are counted on stderr.

    Examples:
      specextend extract report.pdf --pages 1-3 | less
      specextend extract report.pdf --diff
      specextend extract report.pdf -o report.txt
    """
    from specextend_cli.ui.changes import diff as pages_of_diff
    from specextend_cli.ui.changes import format_edit
    from specextend_cli.ui.destination import destination, refuse_existing
    from specextend_cli.ui.output import Output, format_json, sanitize

    json = json or (output is not None and output.endswith(".json") and not diff)
    if diff and json:
        raise UsageError("--diff and --json contradict each other", fix="leave one of them out")
    source = one_source(file, reading, example="specextend extract FILE")
    place = destination(output, "json" if json else "text", [(source.name, source.file)], many=False, force=force)
    place.check([source.name], options.files(source.file, reading.password_file))
    path = place.path(source.name)
    refuse_existing([path] if path is not None else [], force=force)  # in a directory, too: nothing is to be resumed
    terminal = Output(quiet=quiet)
    if place.is_stdout:
        terminal.require_stdout()
    document = source.read_shown(terminal)
    if path is None and diff:
        for page in pages_of_diff(document):
            terminal.show(page)
    else:
        text = sanitize(document.text).rstrip("\n") + "\n"
        if json:
            text = format_json(_record(document)) + "\n"
        elif diff:
            text = "".join(f"{page.plain}\n" for page in pages_of_diff(document))
        with place.target(terminal.write, source.name) as write:
            write(text)
    if quiet:
        return
    if changes:
        for edit in document.extraction.edits:
            terminal.note(f"{document.unit} {edit.page}: {format_edit(edit)}")
    terminal.note(_counts(document))


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
        "left_out": extraction.left_out,
        "unread": extraction.unread,
        "changes": dict(extraction.changes),
        "unit": document.unit,
        "places": [[page.number, page.start, page.end, page.title] for page in document.pages],
        "labels": {page.number: page.label for page in document.pages if page.label},
        "text": document.text,
    }


def _counts(document: Document) -> str:
    """ "52 pages · 181,204 characters · page number × 52 ...", or sections."""
    from specextend_cli.ui.changes import account

    extraction = document.extraction
    pieces = [format_many(extraction.pages, document.unit), format_many(len(document.text), "character")]
    pieces += account(extraction.changes)
    for label, pages in (
        ("without text", extraction.empty),
        ("by OCR", extraction.ocr),
        ("unreadable", extraction.failed),
    ):
        if pages:
            pieces.append(f"{label}: {format_numbers(pages)}")
    if extraction.left_out:
        pieces.append(f"{format_many(extraction.left_out, 'word')} left out")
    if extraction.unread:
        pieces.append(f"{format_many(extraction.unread, 'part')} not read")
    return " · ".join(pieces)
