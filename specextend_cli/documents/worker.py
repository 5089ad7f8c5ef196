"""What runs in the sandbox: a file is parsed, its text is repaired and composed, and what came of it is counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pkgutil import resolve_name
from typing import Any

from specextend_cli.documents.archive import Archive
from specextend_cli.documents.cleaning import clean
from specextend_cli.documents.document import Document, Edit, Extraction
from specextend_cli.documents.encoded import ENCODED
from specextend_cli.documents.errors import ERRORS, contradiction, not_read, places, with_ocr
from specextend_cli.documents.formats import FORMATS
from specextend_cli.documents.repairs.characters import plain_characters
from specextend_cli.documents.repairs.running import KEPT
from specextend_cli.documents.sandbox import Send
from specextend_cli.documents.sections import Paged, Parsed, TooMuchError
from specextend_cli.documents.source import ScannedError, Source
from specextend_cli.errors import InputError, SpecextendError, UsageError
from specextend_cli.humanize import format_many

_TITLE = 1_000  # characters


def respond(job: dict[str, Any], send: Send) -> None:
    """Send what is read next, as `page`, `done` and `total`, the number of `characters` before they are put in order,
    and a last response: the `document`, the `scanned` pages that need OCR, or an `error`: [kind, what, why, fix].
    """
    source = Source.of_job(job, lambda page, done, total: send({"page": page, "done": done, "total": total}))
    try:
        parsed = parse(source)
        send({"characters": parsed.characters})
        send({"document": document_of(source, parsed)})
    except ScannedError as error:
        send({"scanned": error.pages})
    except SpecextendError as error:
        kind = next(kind for kind, known in ERRORS.items() if isinstance(error, known))
        send({"error": [kind, error.what, error.why, error.fix]})
    except TooMuchError as error:
        send({"error": ["input", f"{source.name} has too much text", str(error), "split it and give the parts"]})
    except RecursionError:
        send({"error": ["input", f"{source.name} cannot be read", "it is nested too deeply", "give it as PDF or text"]})


def parse(source: Source) -> Parsed | Paged:
    """What the parser of a file's format makes of it; InputError for a format that is not read."""
    kind = Archive(source.path, source.name).kind if source.kind == "zip" else source.kind
    if not FORMATS[kind].parser:
        raise not_read(source, kind)
    parsed: Parsed | Paged = resolve_name(FORMATS[kind].parser)(source)
    if source.pages is not None and parsed.unit == "section":
        why, fix = f"it is {FORMATS[kind].label}: it has sections", "leave --pages out, or convert it to PDF first"
        raise UsageError(f"{source.name} has no pages to choose from", why=why, fix=fix)
    return parsed.finish() if isinstance(parsed, Parsed) else parsed


def document_of(source: Source, parsed: Parsed | Paged) -> Document:
    """The document of a parsed file; InputError where it holds no text."""
    name, kind, failed = source.name, parsed.kind, parsed.failed
    count, unit = len(parsed.requested), parsed.unit
    if failed and len(failed) == count:
        why = "; ".join(sorted(set(failed.values()))[:3])
        raise InputError(f"{name}: none of {format_many(count, unit)} could be read", why=why)
    text, edits = clean(parsed)
    if not text.text.strip() and parsed.scanned:
        why = "its fonts lack a text encoding, or its pages are pictures: its characters have no meaning"
        raise InputError(f"{name} holds no text", why=why, fix=with_ocr(source))
    if not text.text.strip():
        raise InputError(f"{name} holds no text", why=FORMATS[kind].empty or FORMATS["text"].empty)
    filled = {page.number for page in text.pages}
    empty = tuple(number for number in parsed.requested if number not in filled and number not in failed)
    ocr = tuple(number for number in source.recognized if number in filled)
    warnings = tuple(_warnings(source, parsed, edits))
    extraction = Extraction(count, empty, tuple(failed), warnings, tuple(edits), ocr, parsed.unread)
    title = plain_characters(" ".join(parsed.title[:_TITLE].split()), 0, [])
    return Document(name, kind, text.text, tuple(text.pages), tuple(text.blocks), extraction, title, unit)


def _warnings(source: Source, parsed: Parsed | Paged, edits: Sequence[Edit]) -> Iterator[str]:
    name, failed = source.name, tuple(parsed.failed)
    if other := contradiction(name, parsed.kind):
        yield f"{name} is {FORMATS[parsed.kind].label}{other}."
    yield from parsed.warnings
    if failed:
        yield f"{places(failed, parsed.unit)} of {name} could not be read."
    if numbers := {edit.page for edit in edits if edit.kind == KEPT} - set(parsed.scanned):
        where = f"{places(tuple(numbers))} of {name}: lines that return at the edge of the pages"
        yield f"{where} were kept, because they are a large part of the text there."
    if encoded := [edit for edit in edits if edit.kind == ENCODED]:
        size = format_many(sum(len(edit.before) for edit in encoded), "character")
        yield f"Encoded data of {name} (base64 or the like) was left out: {size}."
