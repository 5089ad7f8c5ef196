"""PDF to lines, by PDFium. Runs in the sandbox: a page on which PDFium hangs or crashes ends that process only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from specextend_cli.documents.document import Edit
from specextend_cli.documents.errors import argument_of, page_label, places, unread, with_ocr
from specextend_cli.documents.pdf.fonts import MappedPages
from specextend_cli.documents.pdf.forms import insert_annotations, read_annotations
from specextend_cli.documents.pdf.legibility import UNREAD, Pictures, pictures_of, unreadable_share
from specextend_cli.documents.pdf.lines import page_lines
from specextend_cli.documents.sections import Paged
from specextend_cli.documents.source import ScannedError, Source
from specextend_cli.errors import InputError
from specextend_cli.humanize import format_many, printable

MAX_CHARACTERS = 2_000_000
"""On one page."""
MAX_LINES = 5_000
"""On one page."""
MAX_OUTLINE = 5_000
MAX_ATTACHMENTS = 1_000
_CONTEXT_PAGES = 12
_LONGEST = 40  # characters of a word


def parse(source: Source) -> Paged:
    """The lines of a PDF by page.

    InputError when it is locked, damaged beyond reading, or lacks the pages asked for; `ScannedError` for pages that
    need OCR, where that is asked for.
    """
    pdf = _open(source)
    reader = _Reader(source, pdf)
    found = reader.found
    context = _with_context(found.requested, len(pdf))
    given_up = max(source.skipped) if 0 in source.skipped else len(pdf)
    for number in context:
        source.report(number, reader.done, len(found.requested))
        if why := source.skipped.get(number) or (source.skipped[0] if number > given_up else ""):
            reader.fail(number, why)
        else:
            reader.read(number)
    source.report(0, reader.done, len(found.requested))
    reader.finish()
    return found


def _open(source: Source) -> Any:
    import pypdfium2

    try:
        pdf = pypdfium2.PdfDocument(source.path, password=source.password)
    except pypdfium2.PdfiumError as error:
        raise _not_opened(source, str(error)) from None
    if len(pdf) == 0:
        raise InputError(f"{source.name} has no pages")
    with suppress(pypdfium2.PdfiumError):  # without it the fields of a form are not read, but the rest is
        pdf.init_forms()
    return pdf


def _not_opened(source: Source, detail: str) -> InputError:
    name = source.name
    if "password" in detail.lower():
        fix = f"SPECEXTEND_PDF_PASSWORD=... specextend summarize {argument_of(source)}"
        if source.password:
            return InputError(f"{name} is encrypted and the password does not open it", fix=fix)
        return InputError(f"{name} is encrypted", why="it opens only with a password", fix=fix)
    fix = f"qpdf {argument_of(source)} repaired.pdf, then try again"
    if _is_truncated(source.path):
        detail, fix = "the end of the file is missing: it looks cut off", "download or copy it again"
    return InputError(f"{name} is a damaged PDF", why=detail, fix=fix)


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


class _Reader:
    """Reads the pages of an open PDF into `found`; `done` counts the requested ones."""

    def __init__(self, source: Source, pdf: Any) -> None:
        self._source, self._pdf = source, pdf
        self._maps = MappedPages(source.path, source.password)
        self.found = Paged("pdf", str(pdf.get_metadata_dict().get("Title", "")), requested=source.numbers(len(pdf)))
        self.found.outline = [_bookmark(item) for item in islice(pdf.get_toc(max_depth=6), MAX_OUTLINE)]
        self._wanted = frozenset(self.found.requested)
        self._unmapped: dict[int, float] = {}
        self._pictures: dict[int, Pictures] = {}
        self.done = 0

    def fail(self, number: int, why: str) -> None:
        """Leave a page out."""
        if number in self._wanted:
            self.found.failed[number] = why
            self.done += 1

    def read(self, number: int) -> None:
        """Read one page."""
        import pypdfium2

        try:
            page = self._pdf[number - 1]
            text = page.get_textpage()
            if text.count_chars() > MAX_CHARACTERS:
                self.fail(number, "more text than a page can hold")
                return
            read = page_lines(text, number, self._maps)
            if len(read.lines) > MAX_LINES:
                self.fail(number, "more lines than a page can hold")
                return
            annotations = list(read_annotations(self._pdf, page))
            lines = insert_annotations(read.lines, annotations, number)
            if number in self._wanted:
                self._pictures[number] = pictures_of(page, lines)
                self.done += 1
                self._unmapped[number] = read.unmapped
                if label := page_label(self._pdf.get_page_label(number - 1) or "", number):
                    self.found.labels[number] = label
                self.found.edits += read.edits
                self.found.edits += [Edit(one.kind, number, "", one.text) for one in annotations]
            self.found.pages[number] = lines
            text.close()
            page.close()
        except (pypdfium2.PdfiumError, MemoryError) as error:
            self.fail(number, str(error) or "out of memory")

    def finish(self) -> None:
        """What the pages say together: those that need OCR, characters without a meaning, warnings."""
        found, source = self.found, self._source
        blank = {number for number in found.requested if not found.pages.get(number) and number not in found.failed}
        garbled, covered = self._garbled(), self._scanned()
        if source.ocr and (needed := blank | garbled.keys() | covered):
            raise ScannedError(tuple(sorted(needed)))
        if blank and len(blank) + len(found.failed) == len(found.requested):
            raise self._without_text()
        found.scanned = tuple(
            sorted({number for number in blank if self._pictures[number].number} | garbled.keys() | covered)
        )
        attached = _attachments(self._pdf)
        found.unread = len(set(found.scanned) - blank) + len(attached)
        found.warnings += self._warnings(covered - blank, blank, garbled, attached)

    def _scanned(self) -> set[int]:
        """The pages that pictures cover; what several of them have behind more than a stamp is their background."""
        found = {number: pictures for number, pictures in self._pictures.items() if pictures.covering}
        counts = Counter(pictures.covering for pictures in found.values())
        covered = {at for at, one in found.items() if one.has_margin_only or counts[one.covering] == 1}
        return covered.difference(self._source.recognized)

    def _garbled(self) -> dict[int, float]:
        """The pages whose text cannot be read, with the share of meaningless characters of each."""
        pages = {number: self.found.pages.get(number) for number in sorted(self._wanted)}
        shares = {
            n: unreadable_share([line.text for line in lines], self._unmapped[n]) for n, lines in pages.items() if lines
        }
        return {number: share for number, share in shares.items() if share}

    def _without_text(self) -> InputError:
        source, count = self._source, len(self.found.requested)
        if source.recognized:
            what = f"{source.name}: OCR found no text on {format_many(count, 'page')}"
            return InputError(what, why="its pages are blank, or pictures", fix="--ocr-lang names its language")
        images = sum(pictures.number for pictures in self._pictures.values())
        nothing = f"0 characters on {format_many(count, 'page')}, {format_many(images, 'image')}"
        why = "it looks scanned" if images else "its pages are blank or drawn"
        return InputError(f"{source.name} has no text layer ({nothing})", why=why, fix=with_ocr(source))

    def _warnings(
        self, covered: set[int], blank: set[int], garbled: dict[int, float], attached: Sequence[str]
    ) -> Iterator[str]:
        """Sentences for the user; `covered` pages have a text beside their pictures, `blank` ones none."""
        name, found = self._source.name, self.found
        if _is_truncated(self._source.path):
            yield f"The end of {name} is missing: it looks cut off, and pages may be too."
        scanned = covered.union(number for number in blank if self._pictures[number].number)
        if covered or len(scanned) >= max(3, 0.1 * len(found.requested)):
            look = "looks scanned: it is a picture" if len(scanned) == 1 else "look scanned: they are pictures"
            yield f"{places(sorted(scanned))} of {name} {look} with hardly any text, which --ocr reads."
        if garbled:
            share = sum(garbled.values()) / len(garbled)
            yield (
                f"{places(tuple(garbled))} of {name} cannot be read: {share:.0%} of the characters have no meaning, as"
                " the fonts lack a text encoding; --ocr reads them."
            )
        lines = (line.text for number in sorted(self._wanted - garbled.keys()) for line in found.pages.get(number, ()))
        if strange := [word[:_LONGEST] for line in lines if UNREAD in line for word in line.split() if UNREAD in word]:
            yield (
                f"{format_many(sum(word.count(UNREAD) for word in strange), 'character')} of {name} could not be read,"
                f" as in “{max(strange, key=len)}”: the fonts do not name them, and the text has {UNREAD} instead."
            )
        if attached:
            yield unread(attached)


def _attachments(pdf: Any) -> list[str]:
    """The names of the files that a PDF carries."""
    names = (pdf.get_attachment(number).get_name() for number in range(min(pdf.count_attachments(), MAX_ATTACHMENTS)))
    return [" ".join(printable(name).split())[:_LONGEST] for name in names]


def _bookmark(item: Any) -> tuple[str, int | None]:
    """The title of a bookmark and the page (1-based) that it leads to."""
    target = item.get_dest()
    index = None if target is None else target.get_index()
    return str(item.get_title()), None if index is None else index + 1
