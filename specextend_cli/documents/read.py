"""`read`: a path, or "-" for stdin, to a `Document`. Start here.

document = read("report.pdf", pages=parse_pages("3-10"))
chunks = chunk(document, encode, size=4096)

The way of a document has one direction: `read` recognizes its format, whose reader (`structured`, `pdf`, `ocr`; `text`
without a process) has a worker parse the file in the sandbox, and makes a `Document` of the cleaned lines.
"""

from __future__ import annotations

import stat
import sys
import tempfile
from pathlib import Path, PurePath
from typing import Unpack

from specextend_cli.documents.decode import HEAD
from specextend_cli.documents.document import Document
from specextend_cli.documents.errors import (
    MAX_BYTES,
    MAX_TEXT_BYTES,
    STDIN,
    argument,
    check_size,
    not_read,
    unreadable,
)
from specextend_cli.documents.formats import FORMATS, OFFICE_PARTS, detect
from specextend_cli.documents.ocr_engine import Ocr
from specextend_cli.documents.request import ReadOptions, ReadRequest
from specextend_cli.errors import InputError
from specextend_cli.humanize import printable


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
            kind = _recognize(name, head, path.suffix, status.st_size)
            if _needs_file(kind, options.get("ocr")):
                return FORMATS[kind].read(ReadRequest(name, kind=kind, path=path, given=str(path), **options))
            data = head + file.read(MAX_TEXT_BYTES)
    except OSError as error:
        raise unreadable(path, name, error) from error
    return _read_data(ReadRequest(name, kind=kind, data=data, given=str(path), **options))


def read_bytes(name: str, data: bytes, **options: Unpack[ReadOptions]) -> Document:
    """Read a document from memory; `name` is for messages, and "-" for stdin."""
    name = STDIN if name == "-" else printable(name)
    kind = _recognize(name, data[:HEAD], PurePath(name).suffix, len(data))
    if not _needs_file(kind, options.get("ocr")):
        return _read_data(ReadRequest(name, kind=kind, data=data, **options))
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        return FORMATS[kind].read(ReadRequest(name, kind=kind, path=Path(file.name), **options))


def _recognize(name: str, head: bytes, suffix: str, size: int) -> str:
    """The format of a file of `size` bytes. InputError: it is too large."""
    kind = detect(head, suffix)
    check_size(name, size)
    if kind not in ("pdf", "zip"):
        check_size(name, size, MAX_TEXT_BYTES)
    return kind


def _is_readable(kind: str, ocr: Ocr | None) -> bool:
    return not FORMATS[kind].hint and (ocr is not None or not FORMATS[kind].needs_ocr)


def _needs_file(kind: str, ocr: Ocr | None) -> bool:
    """Another process opens files of this format."""
    return kind == "zip" or (kind != "text" and _is_readable(kind, ocr))


def _read_data(request: ReadRequest) -> Document:
    """A text, by its bytes. InputError: they are none, or of a format that is not read."""
    kind = request.kind
    if not request.data.strip():
        why = "it has only white space" if request.data else "it has 0 bytes"
        raise InputError(f"{request.name} is empty", why=why)
    if not _is_readable(kind, request.ocr):
        inside = (known for part, known in OFFICE_PARTS.items() if kind == "doc" and part in request.data)
        raise not_read(request, next(inside, kind))
    return FORMATS[kind].read(request)
