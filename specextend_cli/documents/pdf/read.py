"""PDF to a document: PDFium reads it in the sandbox, with limits on time and memory, and pypdf as the fallback.

A page on which PDFium hangs, crashes or fails is read again by pypdf; what neither can read is reported as failed.
This module never parses a file itself.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from specextend_cli.documents.cleaning import clean_lines
from specextend_cli.documents.document import Document, Edit, Extraction
from specextend_cli.documents.errors import argument_of, nothing_recognized, page_label, places, with_ocr
from specextend_cli.documents.layout import Outline
from specextend_cli.documents.line import Line, lines_from_json, lines_of_text
from specextend_cli.documents.ocr import Recognition, pages_needing_ocr, recognize
from specextend_cli.documents.ocr_engine import find_engine
from specextend_cli.documents.pdf.legibility import UNREAD, UNREADABLE, repair_ligatures, unreadable_share
from specextend_cli.documents.request import ReadRequest
from specextend_cli.documents.sandbox import DIED, GIVEN_UP, SandboxError, SandboxProcess, page_responses, sandbox
from specextend_cli.errors import InputError
from specextend_cli.humanize import format_many

SECONDS_A_PAGE = 15.0
SECONDS_TO_OPEN = 30.0
MEMORY = 4 << 30
MAX_CRASHES = 8
_CONTEXT_PAGES = 12
_LONGEST = 40  # characters of a word

_WORKER = "specextend_cli.documents.pdf.worker:respond"


@dataclass(slots=True)
class PdfLines:
    """The lines of a PDF by page, and what to report about it.

    `requested` are the pages to be kept. `pages` may hold a few more, as running heads are recognized by repetition.
    `labels` are the page labels ("iv", "A-1") that differ from the page numbers. `unmapped` is the share of each
    page's characters that its fonts do not map to letters. `edits` are repairs made while reading.
    """

    requested: tuple[int, ...]
    title: str = ""
    outline: Outline = ()
    pages: dict[int, list[Line]] = field(default_factory=dict)
    labels: dict[int, str] = field(default_factory=dict)
    edits: list[Edit] = field(default_factory=list)
    unmapped: dict[int, float] = field(default_factory=dict)
    images: int = 0
    failed: dict[int, str] = field(default_factory=dict)
    fallback_pages: list[int] = field(default_factory=list)
    truncated: bool = False
    wanted: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        self.wanted = frozenset(self.requested)

    def add(self, number: int, response: dict[str, Any]) -> None:
        """Keep the response of the sandbox about one page."""
        if "error" in response:
            self.failed[number] = str(response["error"])
        elif "text" in response:
            self.pages[number] = lines_of_text(response["text"], number)
        else:
            self.pages[number] = lines_from_json(response["lines"])
        if number in self.wanted:
            self.images += int(response.get("images", 0))
            if label := page_label(str(response.get("label", "")), number):
                self.labels[number] = label
            self.unmapped[number] = float(response.get("unmapped", 0.0))
            self.edits += [Edit("hidden text", number, text) for text in response.get("hidden", ())]
            self.edits += [Edit(kind, number, "", text) for kind, text in response.get("added", ())]
            self.edits += [Edit(kind, number, before, after) for kind, before, after in response.get("repairs", ())]

    def unreadable_pages(self) -> dict[int, float]:
        """The requested pages whose text cannot be read, with the share of meaningless characters of each."""
        shares: dict[int, float] = {}
        for number in sorted(self.wanted & self.pages.keys()):
            unmapped = self.unmapped.get(number, 0.0)
            share = unreadable_share([line.text for line in self.pages[number]])
            if self.pages[number] and (share := max(share, unmapped if unmapped > UNREADABLE else 0.0)):
                shares[number] = share
        return shares

    def unread_words(self, garbled: Set[int]) -> list[str]:
        """The words with an unread character on the requested pages, without those that are unreadable as a whole."""
        lines = (line for number in sorted(self.wanted - garbled) for line in self.pages.get(number, ()))
        return [
            word[:_LONGEST] for line in lines if UNREAD in line.text for word in line.text.split() if UNREAD in word
        ]


def read_pdf(request: ReadRequest) -> Document:
    """The document; pages without text are recognized with `request.ocr`."""
    name, ocr = request.name, request.ocr
    found = read_lines(request)
    recognized = Recognition()
    if ocr and (scanned := pages_needing_ocr(found.pages, found.requested, found.failed)):
        recognized = recognize(request, ocr, scanned, find_engine(ocr.languages, name))
        found.pages |= recognized.pages
        found.failed |= {number: why for number, why in recognized.failed.items() if not found.pages.get(number)}
    total = len(found.requested)
    empty = [number for number in found.requested if not found.pages.get(number) and number not in found.failed]
    if len(found.failed) == total and not recognized.failed:
        why = "; ".join(sorted(set(found.failed.values())))
        raise InputError(f"{name}: none of {format_many(total, 'page')} could be read", why=why)
    if len(empty) + len(found.failed) == total:
        if ocr:
            raise nothing_recognized(name, total, found.failed if recognized.failed else {})
        nothing = f"0 characters on {format_many(total, 'page')}, {format_many(found.images, 'image')}"
        why = "it looks scanned" if found.images else "its pages are blank or drawn"
        raise InputError(f"{name} has no text layer ({nothing})", why=why, fix=with_ocr(request))
    warnings = list(recognized.warnings(name))
    if found.truncated:
        warnings.append(f"The end of {name} is missing: it looks cut off, and pages may be too.")
    if found.failed:
        warnings.append(f"{places(tuple(found.failed))} of {name} could not be read.")
    if found.fallback_pages:
        where = f"{places(found.fallback_pages)} of {name}"
        warnings.append(f"{where} needed the second reader: the layout there may be poor.")
    if found.images and len(empty) >= max(3, 0.1 * total) and not ocr:
        warnings.append(f"{places(empty)} of {name} hold images and no text: they look scanned; --ocr reads them.")
    found.pages, repaired = repair_ligatures(found.pages)
    found.edits += (edit for edit in repaired if edit.page in found.wanted)
    pages = [found.pages[number] for number in sorted(found.pages)]
    cleaned = clean_lines(name, pages, found.outline, found.requested)
    if found.labels:
        cleaned.text.pages = [replace(page, label=found.labels.get(page.number, "")) for page in cleaned.text.pages]
    if garbled := found.unreadable_pages():
        if not cleaned.text.text.strip():
            why = "its fonts lack a text encoding: its characters have no meaning"
            raise InputError(f"{name} holds no text", why=why, fix=with_ocr(request))
        share = sum(garbled.values()) / len(garbled)
        warnings.append(
            f"{places(tuple(garbled))} of {name} cannot be read: {share:.0%} of the characters have no meaning, as the"
            " fonts lack a text encoding; --ocr reads them."
        )
    if unread := found.unread_words(set(garbled)):
        warnings.append(
            f"{format_many(sum(word.count(UNREAD) for word in unread), 'character')} of {name} could not be read, as in"
            f" “{max(unread, key=len)}”: the fonts do not name them, and the text has {UNREAD} instead."
        )
    cleaned.edits[:0] = found.edits
    pages_by_ocr = tuple(sorted(recognized.pages))
    extraction = Extraction(total, tuple(empty), tuple(found.failed), warnings=tuple(warnings), ocr=pages_by_ocr)
    return cleaned.document(name, "pdf", extraction, found.title)


def read_lines(request: ReadRequest) -> PdfLines:
    """The lines of a PDF. InputError when it is locked, damaged beyond reading, or lacks the pages asked for."""
    path, password, progress = request.path, request.password, request.progress
    with ExitStack() as stack:
        reader, process = _open(stack, request)
        total = int(process.head["pages"])
        if total == 0:
            raise InputError(f"{request.name} has no pages")
        found = PdfLines(request.numbers(total), str(process.head["title"] or ""), process.head["outline"])
        found.truncated = _is_truncated(path)
        first: AbstractContextManager[SandboxProcess] = nullcontext(process)
        processes = chain([first], (_process(path, reader, password) for _ in range(MAX_CRASHES)))
        responses = stack.enter_context(closing(page_responses(processes, _with_context(found.requested, total))))
        done = 0
        for number, response in responses:
            found.add(number, response)
            done += number in found.wanted
            if progress and number in found.wanted and response.get("error") not in (DIED, GIVEN_UP):
                progress(done, len(found.requested))
    if reader == "pdfium" and GIVEN_UP not in found.failed.values():
        for failed in [number for number in found.failed if number in found.wanted][:MAX_CRASHES]:
            for number, response in page_responses([_process(path, "pypdf", password)], [failed]):
                if "error" not in response:
                    del found.failed[number]
                    found.fallback_pages.append(number)
                    found.add(number, response)
    found.failed = {number: why for number, why in sorted(found.failed.items()) if number in found.wanted}
    return found


def _open(stack: ExitStack, request: ReadRequest) -> tuple[str, SandboxProcess]:
    """The reader that can open the file, and its process, which `stack` ends."""
    name, path, detail = request.name, request.path, ""
    for reader in ("pdfium", "pypdf"):
        try:
            with ExitStack() as opening:
                process = opening.enter_context(_process(path, reader, request.password))
                if "error" not in process.head:
                    stack.enter_context(opening.pop_all())
                    return reader, process
        except SandboxError:
            continue
        if process.head["error"] == "password":
            fix = f"SPECEXTEND_PDF_PASSWORD=... specextend summarize {argument_of(request)}"
            if request.password:
                raise InputError(f"{name} is encrypted and the password does not open it", fix=fix)
            raise InputError(f"{name} is encrypted", why="it opens only with a password", fix=fix)
        detail = detail or str(process.head["detail"])
    why, fix = detail or "no reader can open it", f"qpdf {argument_of(request)} repaired.pdf, then try again"
    if _is_truncated(path):
        why, fix = "the end of the file is missing: it looks cut off", "download or copy it again"
    raise InputError(f"{name} is a damaged PDF", why=why, fix=fix)


def _is_truncated(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - 2048, 0))
        return b"%%EOF" not in file.read()


def _with_context(requested: Sequence[int], total: int) -> list[int]:
    """The requested pages and, where they are few, enough neighbours to recognize running heads."""
    pages, reach = set(requested), 1
    while len(pages) < min(_CONTEXT_PAGES, total):
        pages |= {page + step for page in requested for step in (reach, -reach) if 1 <= page + step <= total}
        reach += 1
    return sorted(pages)


def _process(path: Path, reader: str, password: str | None) -> AbstractContextManager[SandboxProcess]:
    job = {"path": str(path.resolve()), "password": password, "reader": reader, "memory": MEMORY}
    return sandbox(_WORKER, job, first=SECONDS_TO_OPEN, following=SECONDS_A_PAGE)
