"""`read`: a path, or "-" for stdin, to a `Document`. Start here.

document = read("report.pdf", pages=parse_pages("3-10"))
chunks = chunk(document, encode, size=4096)
"""

from __future__ import annotations

import stat
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from specextend_cli.documents.cleaning import Cleaned, clean_lines, clean_markdown, clean_text
from specextend_cli.documents.decode import decode
from specextend_cli.documents.detect import HEAD, LABELS, LOCKED, detect, is_markdown
from specextend_cli.documents.document import Document, Extraction
from specextend_cli.documents.layout import Text
from specextend_cli.documents.legibility import UNREADABLE, meaningless
from specextend_cli.documents.line import Line
from specextend_cli.documents.markdown import markdown_sections
from specextend_cli.documents.names import STDIN, argument, count, places, printable
from specextend_cli.documents.pages import PageRange
from specextend_cli.documents.read_errors import (
    MAX_BYTES,
    MAX_TEXT_BYTES,
    check_size,
    contradiction,
    gibberish,
    no_pages,
    nothing_recognized,
    scanned,
    unmapped,
    unread,
    unreadable,
)
from specextend_cli.documents.repairs.characters import plain_characters
from specextend_cli.errors import InputError

if TYPE_CHECKING:
    from specextend_cli.documents.ocr import Ocr, Recognition
    from specextend_cli.documents.pdf import Scan

Progress = Callable[[int, int], None]

_NO_TEXT = {
    "text": "what it has is control characters or page furniture only",
    "pdf": "what it has is running heads and page numbers; the rest may be scanned: try --ocr",
    "html": "what it shows may be made by scripts, which are not run",
    "docx": "it may hold only pictures",
    "epub": "it may hold only pictures",
    "email": "it may be only attachments",
}
_TITLE = 1_000  # characters
_OPENED = frozenset(("pdf", "html", "email", "zip"))  # another process opens these


def read(
    path: str | Path,
    *,
    pages: PageRange | None = None,
    password: str | None = None,
    progress: Progress | None = None,
    ocr: Ocr | None = None,
    full_page: bool = False,
) -> Document:
    """Read a document; InputError says what is wrong with it and what helps. The text "-" is stdin.

    `progress(done, total)` is called as pages are read. `password` opens an encrypted PDF. `ocr` lets the pages of
    scans be recognized, and images be read. With `full_page` all of a web page is read, not only its article.
    """
    if path == "-":
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
        return read_bytes("-", data, pages=pages, password=password, progress=progress, ocr=ocr, full_page=full_page)
    path = Path(path)
    name = printable(path.name)
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise InputError(f"{name} is a directory", fix=f"specextend summarize {argument(str(path))}/*")
        check_size(name, status.st_size)
        with path.open("rb") as file:
            if not stat.S_ISREG(status.st_mode):  # a pipe, as in <(command): it can be read once and not sought
                data = file.read(MAX_BYTES + 1)
                return read_bytes(
                    path.name, data, pages=pages, password=password, progress=progress, ocr=ocr, full_page=full_page
                )
            head = file.read(HEAD)
            kind = detect(head)
            if kind not in ("pdf", "zip"):
                check_size(name, status.st_size, MAX_TEXT_BYTES)
            if kind in _OPENED or (ocr and kind == "image"):
                return _opened(path, kind, name, pages, password, progress, ocr, full_page)
            data = head + file.read(MAX_TEXT_BYTES)
    except OSError as error:
        raise unreadable(path, name, error) from error
    return read_bytes(path.name, data, pages=pages, progress=progress, ocr=ocr, full_page=full_page)


def read_bytes(
    name: str,
    data: bytes,
    *,
    pages: PageRange | None = None,
    password: str | None = None,
    progress: Progress | None = None,
    ocr: Ocr | None = None,
    full_page: bool = False,
) -> Document:
    """Read a document from memory; `name` is for messages, and "-" for stdin."""
    shown = STDIN if name == "-" else printable(name)
    check_size(shown, len(data))
    kind = detect(data[:HEAD])
    if not data.strip():
        raise InputError(f"{shown} is empty", why=f"it has {len(data)} bytes" if data else "it has 0 bytes")
    if kind not in ("pdf", "zip"):
        check_size(shown, len(data), MAX_TEXT_BYTES)
    if kind in _OPENED or (ocr and kind == "image"):
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            return _opened(Path(file.name), kind, shown, pages, password, progress, ocr, full_page)
    if kind != "text":
        raise unread(shown, "locked" if kind == "doc" and LOCKED in data else kind)
    document = _text(name, shown, data, pages)
    if progress:
        progress(document.extraction.pages, document.extraction.pages)
    return document


# -------------------------------------------------------------------------------------------------------- kinds


def _opened(
    path: Path,
    kind: str,
    name: str,
    pages: PageRange | None,
    password: str | None,
    progress: Progress | None,
    ocr: Ocr | None,
    full_page: bool,
) -> Document:
    if kind == "pdf":
        return _pdf(path, name, pages, password, progress, ocr)
    if ocr and kind == "image":
        return _image(path, name, pages, ocr)
    document = _structured(path, kind, name, pages, full_page)
    if progress:
        progress(document.extraction.pages, document.extraction.pages)
    return document


def _structured(path: Path, kind: str, name: str, pages: PageRange | None, full_page: bool) -> Document:
    from specextend_cli.documents.structured import parse

    parsed, cleaned = parse(path, kind=kind, name=name, whole=full_page)
    if pages is not None:
        raise no_pages(name, parsed.kind)
    warnings = parsed.warnings
    if other := contradiction(name, parsed.kind):
        warnings.insert(0, f"{name} is {LABELS[parsed.kind]}{other}.")
    failed = {number: section.failed for number, section in enumerate(parsed.sections, 1) if section.failed}
    if failed and len(failed) == len(parsed.sections):
        why = "; ".join(sorted(set(failed.values()))[:3])
        raise InputError(f"{name}: none of {count(len(failed), 'section')} could be read", why=why)
    if failed:
        warnings.append(f"{places(tuple(failed), 'section')} of {name} could not be read.")
    text = cleaned.text
    shown = {page.number for page in text.pages}
    empty = tuple(number for number in range(1, len(parsed.sections) + 1) if number not in shown | failed.keys())
    title = _title(parsed.title)
    extraction = _extraction(len(parsed.sections), cleaned, warnings, empty, tuple(failed))
    return _document(name, parsed.kind, text, extraction, title, unit="section")


def _pdf(
    path: Path,
    name: str,
    pages: PageRange | None,
    password: str | None,
    progress: Progress | None,
    ocr: Ocr | None,
) -> Document:
    from specextend_cli.documents.pdf import scan

    found = scan(path, name=name, pages=pages, password=password, progress=progress)
    recognized = _recognized(path, name, found, ocr, password)
    before = [found.pages[number] for number in sorted(found.pages)]
    asked = found.wanted
    empty = tuple(number for number in found.asked if not found.pages.get(number) and number not in found.failed)
    if recognized.failed and len(empty) + len(found.failed) == len(asked):
        raise nothing_recognized(name, len(asked), found.failed)
    if len(found.failed) == len(asked):
        reasons = "; ".join(sorted(set(found.failed.values())))
        raise InputError(f"{name}: none of {count(len(asked), 'page')} could be read", why=reasons)
    if len(empty) + len(found.failed) == len(asked):
        if ocr:
            raise nothing_recognized(name, len(asked), recognized.failed)
        raise scanned(name, len(asked), found.images)
    warnings = list(recognized.warnings(name))
    if found.cut_off:
        warnings.append(f"The end of {name} is missing: it looks cut off, and pages may be too.")
    if found.failed:
        warnings.append(f"{places(tuple(found.failed))} could not be read.")
    if found.second_reader:
        warnings.append(f"{places(found.second_reader)} needed the second reader: the layout there may be poor.")
    if found.images and len(empty) >= max(3, 0.1 * len(asked)) and not ocr:
        warnings.append(f"{places(empty)} of {name} hold images and no text: they look scanned; --ocr reads them.")
    cleaned = clean_lines(name, before, found.outline, asked)
    if found.labels:
        cleaned.text.pages = [replace(page, label=found.labels.get(page.number, "")) for page in cleaned.text.pages]
    if garbled := _unreadable(found, before):
        if not cleaned.text.text.strip():
            raise unmapped(name)
        warnings.append(gibberish(name, garbled))
    title = _title(found.title)
    cleaned.edits[:0] = found.edits
    extraction = _extraction(len(asked), cleaned, warnings, empty, tuple(found.failed))
    return _document(name, "pdf", cleaned.text, replace(extraction, ocr=tuple(sorted(recognized.pages))), title)


def _recognized(path: Path, name: str, found: Scan, ocr: Ocr | None, password: str | None) -> Recognition:
    """What OCR reads of a PDF; its pages take the place of those that `found` has."""
    from specextend_cli.documents.ocr import Recognition, needed, recognize_pdf

    if ocr is None:
        return Recognition()
    wanted = needed(found.pages, found.asked, found.failed)
    recognized = recognize_pdf(path, wanted, name=name, ocr=ocr, password=password)
    found.pages.update(recognized.pages)
    found.failed.update((number, why) for number, why in recognized.failed.items() if not found.pages.get(number))
    return recognized


def _image(path: Path, name: str, pages: PageRange | None, ocr: Ocr) -> Document:
    """A picture of a page, or a TIFF of several."""
    from specextend_cli.documents.ocr import recognize_image

    def choose(total: int) -> tuple[int, ...]:
        return pages.numbers(total, name) if pages else tuple(range(1, total + 1))

    asked, recognized = recognize_image(path, choose, name=name, ocr=ocr)
    seen = tuple(sorted(recognized.pages))
    cleaned = clean_lines(name, [recognized.pages[number] for number in seen], [], seen)
    if not cleaned.text.text:
        raise nothing_recognized(name, len(asked), recognized.failed)
    failed = tuple(sorted(recognized.failed))
    empty = tuple(number for number in asked if number not in {*seen, *failed})
    extraction = _extraction(len(asked), cleaned, recognized.warnings(name), empty, failed)
    return _document(name, "image", cleaned.text, replace(extraction, ocr=seen))


def _text(name: str, shown: str, data: bytes, wanted: PageRange | None) -> Document:
    text, warnings = decode(shown, data)
    sheets = text.rstrip("\f\n").split("\f")
    if is_markdown(name, text):
        return _markdown(shown, sheets, wanted, warnings)
    numbers = _numbers(sheets, wanted, shown)
    cleaned = clean_text(shown, sheets, numbers)
    empty = tuple(number for number in numbers if not sheets[number - 1].strip())
    return _document(shown, "text", cleaned.text, _extraction(len(numbers), cleaned, warnings, empty))


def _markdown(name: str, sheets: Sequence[str], wanted: PageRange | None, warnings: list[str]) -> Document:
    """A Markdown text has sections, unless form feeds give it pages."""
    if len(sheets) == 1 and wanted is not None:
        raise no_pages(name, "markdown")
    numbers = _numbers(sheets, wanted, name)
    cleaned = clean_markdown(name, [(number, sheets[number - 1]) for number in numbers])
    text = cleaned.text
    if len(sheets) == 1:
        text.pages = markdown_sections(text)
        extraction = _extraction(len(text.pages), cleaned, warnings)
        return _document(name, "markdown", text, extraction, unit="section")
    empty = tuple(sorted(set(numbers) - {page.number for page in text.pages}))
    return _document(name, "markdown", text, _extraction(len(numbers), cleaned, warnings, empty))


def _unreadable(found: Scan, pages: Sequence[Sequence[Line]]) -> dict[int, float]:
    """The pages asked for whose text cannot be read, each with the share of its characters that has no meaning."""
    shares: dict[int, float] = {}
    for page in pages:
        if page and (number := page[0].page) in found.wanted:
            unmapped = found.unmapped.get(number, 0.0)
            share = max(meaningless([line.text for line in page]), unmapped if unmapped > UNREADABLE else 0.0)
            if share:
                shares[number] = share
    return shares


def _title(text: str) -> str:
    """A document's own title, cleaned; of a very long one the beginning."""
    return plain_characters(" ".join(text[:_TITLE].split()), 0, [])


def _numbers(sheets: Sequence[str], wanted: PageRange | None, name: str) -> tuple[int, ...]:
    return wanted.numbers(len(sheets), name) if wanted else tuple(range(1, len(sheets) + 1))


def _extraction(
    pages: int,
    cleaned: Cleaned,
    warnings: Sequence[str],
    empty: tuple[int, ...] = (),
    failed: tuple[int, ...] = (),
) -> Extraction:
    changes = Counter(edit.kind for edit in cleaned.edits)
    if cleaned.text.joined:
        changes["line joined"] = cleaned.text.joined
    edits, sheets = tuple(cleaned.edits), tuple(cleaned.sheets)
    return Extraction(pages, empty, failed, changes, (*warnings, *cleaned.warnings), edits, sheets)


def _document(
    name: str,
    kind: str,
    text: Text,
    extraction: Extraction,
    title: str = "",
    unit: Literal["page", "section"] = "page",
) -> Document:
    if not text.text.strip():
        raise InputError(f"{name} holds no text", why=_NO_TEXT.get(kind, _NO_TEXT["text"]))
    return Document(name, kind, text.text, tuple(text.pages), tuple(text.blocks), extraction, title, unit)
