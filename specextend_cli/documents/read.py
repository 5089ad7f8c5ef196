"""`read`: a path, or "-" for stdin, to a `Document`. Start here.

document = read("report.pdf", pages=parse_pages("3-10"))
chunks = chunk(document, encode, size=4096)

The way of a document has one direction: `read` recognizes its format, and has the `worker` in the sandbox parse it,
repair and compose its text. A page at which that process hangs or dies is left out by the next one.
"""

from __future__ import annotations

import stat
import sys
import tempfile
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any, Unpack

from specextend_cli.documents.decode import HEAD
from specextend_cli.documents.document import Document
from specextend_cli.documents.errors import ERRORS, MAX_BYTES, MAX_TEXT_BYTES, STDIN, argument, not_read, unreadable
from specextend_cli.documents.formats import FORMATS, detect
from specextend_cli.documents.ocr import recognized
from specextend_cli.documents.sandbox import WORKER, SandboxError, receive, sandbox, send_job
from specextend_cli.documents.source import Progress, ReadOptions, Source
from specextend_cli.errors import InputError
from specextend_cli.humanize import printable

SECONDS = 60.0
"""To read a file without pages, and to put a text in order."""
SECONDS_TO_OPEN = 30.0
SECONDS_A_PAGE = 15.0
SECONDS_A_CHARACTER = 1e-5
"""To put a text in order."""
MEMORY = 4 << 30
MAX_CRASHES = 8
MAX_RESPONSE = 1 << 30
SMALL = 8_000
"""Bytes; a text of no more is read in this process: even quadratic work on it ends within seconds."""
DIED = "took too long, or too much memory"
GIVEN_UP = "given up after too many failures"

_TYPED = ("text", "markdown")
_IMAGES = tuple(range(1, 1_001))  # pages of an image: a TIFF may have several


def read(path: str | Path, **options: Unpack[ReadOptions]) -> Document:
    """Read a document; InputError says what is wrong with it and what helps.

    The text "-" is stdin. For the options see `ReadOptions`.
    """
    if path == "-":
        return read_bytes("-", sys.stdin.buffer.read(MAX_BYTES + 1), **options)
    path = Path(path)
    name = printable(path.name)
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise InputError(f"{name} is a directory", fix=f"specextend summarize {argument(str(path))}/*")
        with path.open("rb") as file:
            if not stat.S_ISREG(status.st_mode):  # a pipe, as in <(command), can be read once and not sought
                return read_bytes(path.name, file.read(MAX_BYTES + 1), **options)
            head = file.read(HEAD)
    except OSError as error:
        raise unreadable(path, name, error) from error
    kind = _recognize(name, head, path.suffix, status.st_size)
    return _read(Source(name, kind, path, given=str(path)), head, status.st_size, options)


def read_bytes(name: str, data: bytes, **options: Unpack[ReadOptions]) -> Document:
    """Read a document from memory; `name` is for messages, and "-" for stdin."""
    name = STDIN if name == "-" else printable(name)
    kind = _recognize(name, data[:HEAD], PurePath(name).suffix, len(data))
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        return _read(Source(name, kind, Path(file.name)), data[:HEAD], len(data), options)


def _recognize(name: str, head: bytes, suffix: str, size: int) -> str:
    """The format of a file of `size` bytes. InputError: it is too large."""
    kind = detect(head, suffix)
    limit = MAX_BYTES if kind in ("pdf", "zip") else MAX_TEXT_BYTES
    if size > limit:
        why = f"it has {size / (1 << 20):,.0f} MB" if size > limit + 1 else "more than this is not read"
        fix = "split it (qpdf --split-pages, split -C) and give the parts"
        raise InputError(f"{name} is larger than {limit >> 20} MB", why=why, fix=fix)
    return kind


def _read(source: Source, head: bytes, size: int, options: ReadOptions) -> Document:
    """The document of a source of `size` bytes that begins with `head`."""
    kind, progress, ocr = source.kind, options.get("progress"), options.get("ocr")
    source = replace(source, pages=options.get("pages"), password=options.get("password"), ocr=ocr is not None)
    if not head.strip() and size <= HEAD:
        raise InputError(f"{source.name} is empty", why="it has only white space" if size else "it has 0 bytes")
    if kind == "image" and ocr is not None:
        return replace(_with_ocr(source, (), ocr, options), kind=kind)
    if not FORMATS[kind].parser and kind != "zip":
        raise not_read(source, kind)
    if kind in _TYPED and size <= SMALL:
        from specextend_cli.documents.worker import document_of, parse

        document = document_of(source, parse(source))
    else:
        response = _response(source, progress)
        if "scanned" in response and ocr is not None:
            return _with_ocr(source, tuple(response["scanned"]), ocr, options)
        document = Document.of_json(response["document"])
    if progress and kind != "pdf":
        progress(document.extraction.pages, document.extraction.pages)
    return document


def _with_ocr(source: Source, pages: tuple[int, ...], languages: str, options: ReadOptions) -> Document:
    """The document with the text of these pages, or of an image, by OCR."""
    path = recognized(source, pages, languages, options.get("recognizing"))
    source = replace(source, kind="pdf", path=path, ocr=False, recognized=pages or _IMAGES)
    return Document.of_json(_response(source, options.get("progress"))["document"])


def _response(source: Source, progress: Progress | None) -> dict[str, Any]:
    """The last response of the worker, without an error. InputError: it has one, or takes too long."""
    skipped = dict(source.skipped)
    while True:
        page, seconds, fix = 0, SECONDS_TO_OPEN if source.kind == "pdf" else SECONDS, "convert it to PDF or text"
        job = {**replace(source, skipped=skipped).job(), "memory": MEMORY}
        try:
            with sandbox(WORKER) as process:
                send_job(process, job)
                while (response := receive(process, seconds, MAX_RESPONSE)).keys() & {"page", "characters"}:
                    page, seconds = response.get("page", 0), SECONDS_A_PAGE
                    if "characters" in response:
                        seconds = SECONDS + SECONDS_A_CHARACTER * response["characters"]
                        fix = "split it and give the parts"
                    elif progress and response["done"]:
                        progress(response["done"], response["total"])
        except SandboxError:
            if not page:
                why = f"it took more than {seconds:,.0f} seconds, or {MEMORY >> 30} GB of memory"
                raise InputError(f"{source.name} could not be read", why=why, fix=fix) from None
            skipped[page] = DIED
            if len(skipped) > MAX_CRASHES:
                skipped[0] = GIVEN_UP
        else:
            if "error" in response:
                kind, what, why, fix = response["error"]
                raise ERRORS[kind](what, why=why, fix=fix)
            return response
