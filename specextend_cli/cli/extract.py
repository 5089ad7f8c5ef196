"""`specextend extract FILE`: the text that the model reads, and the repairs made to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from specextend_cli.cli import options
from specextend_cli.errors import UsageError
from specextend_cli.humanize import format_count, format_many

if TYPE_CHECKING:
    from specextend_cli.documents.document import Document


def extract(
    file: options.File = None,
    output: options.OutputPath = None,
    json: options.Json = False,
    diff: Annotated[bool, options.option("--diff", "Print what cleaning changed, not the text.")] = False,
    force: options.Force = False,
    quiet: options.Quiet = False,
    pages: options.Pages = None,
    ocr: options.UseOcr = False,
    ocr_languages: options.OcrLanguages = None,
    offline: options.Offline = False,
) -> None:
    """Print a document's text as the model reads it.

    What was repaired, left out or not read is counted on stderr.

    \b
    Examples:
      specextend extract report.pdf --pages 1-3 | less
      specextend extract report.pdf --diff
      specextend extract report.pdf -o report.txt
    """
    from specextend_cli.bench.formats import dumps
    from specextend_cli.cli.inputs import Reading, one_source, read_files
    from specextend_cli.ui.changes import diff as pages_of_diff
    from specextend_cli.ui.destination import destination, refuse_existing
    from specextend_cli.ui.output import Output, sanitize

    json = json or (output is not None and output.endswith(".json") and not diff)
    if diff and json:
        raise UsageError("--diff and --json contradict each other", fix="leave one of them out")
    source = one_source(file, Reading.of(pages, ocr, ocr_languages), command="extract", offline=offline)
    place = destination(output, "json" if json else "text", [(source.name, source.file)], many=False, force=force)
    place.check(read_files(source.file))
    refuse_existing(place.paths.values(), force=force)  # in a directory, too: nothing is to be resumed
    terminal = Output(quiet=quiet)
    if not place.paths:
        terminal.require_stdout()
    document = source.read_shown(terminal)
    if diff and not place.paths:
        for page in pages_of_diff(document):
            terminal.show(page)
    else:
        text = sanitize(document.text).rstrip("\n") + "\n"
        if json:
            text = dumps(_record(document), indent=2) + "\n"
        elif diff:
            text = "".join(f"{page.plain}\n" for page in pages_of_diff(document))
        with place.target(terminal.write, source.name) as write:
            write(text)
    terminal.status(_counts(document))


def _record(document: Document) -> dict[str, object]:
    found, names = document.extraction, ("pages", "empty", "failed", "ocr", "left_out", "unread")
    return {
        "document": document.name,
        "kind": document.kind,
        "title": document.title,
        "unit": document.unit,
        **{name: getattr(found, name) for name in names},
        "changes": dict(found.changes),
        "places": [[page.number, page.start, page.end, page.title] for page in document.pages],
        "labels": {page.number: page.label for page in document.pages if page.label},
        "text": document.text,
    }


def _counts(document: Document) -> str:
    """ "52 pages · 11,204 words · page number × 52 …", and what was not read."""
    from specextend_cli.summarize.events import Coverage
    from specextend_cli.summarize.words import count_words
    from specextend_cli.ui.progress import format_gaps

    found, unit = document.extraction, document.unit
    gaps = format_gaps(Coverage.of(document, 0, 0))
    size = [format_many(found.pages, unit), format_many(count_words(document.text), "word")]
    repairs = [f"{kind} × {format_count(count)}" for kind, count in found.changes.most_common()]
    return " · ".join([*size, *repairs, *gaps])
