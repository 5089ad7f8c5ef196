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
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Unpack

from specextend_cli.documents.decode import HEAD
from specextend_cli.documents.document import Document
from specextend_cli.documents.formats import FORMATS, OFFICE_PARTS, detect
from specextend_cli.documents.read_errors import (
    MAX_BYTES,
    MAX_TEXT_BYTES,
    STDIN,
    argument,
    check_size,
    not_read,
    unreadable,
)
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
            request = _recognized(ReadRequest(name, path=path, **options), head, path.suffix, status.st_size)
            if _needs_file(request):
                return FORMATS[request.kind].read(request)
            request = replace(request, data=head + file.read(MAX_TEXT_BYTES))
    except OSError as error:
        raise unreadable(path, name, error) from error
    return _read_data(request)


def read_bytes(name: str, data: bytes, **options: Unpack[ReadOptions]) -> Document:
    """Read a document from memory; `name` is for messages, and "-" for stdin."""
    request = ReadRequest(STDIN if name == "-" else printable(name), **options)
    request = _recognized(request, data[:HEAD], PurePath(request.name).suffix, len(data))
    if not _needs_file(request):
        return _read_data(replace(request, data=data))
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        return FORMATS[request.kind].read(replace(request, path=Path(file.name)))


def _recognized(request: ReadRequest, head: bytes, suffix: str, size: int) -> ReadRequest:
    """The request with the format of the file, which has `size` bytes. InputError: it is too large."""
    check_size(request.name, size)
    kind = detect(head, suffix)
    if kind not in ("pdf", "zip"):
        check_size(request.name, size, MAX_TEXT_BYTES)
    return replace(request, kind=kind)


def _is_readable(request: ReadRequest) -> bool:
    return not FORMATS[request.kind].hint and (request.ocr is not None or not FORMATS[request.kind].needs_ocr)


def _needs_file(request: ReadRequest) -> bool:
    """Another process opens files of this format."""
    return request.kind == "zip" or (request.kind != "text" and _is_readable(request))


def _read_data(request: ReadRequest) -> Document:
    """A text, by its bytes. InputError: they are none, or of a format that is not read."""
    if not request.data.strip():
        raise InputError(f"{request.name} is empty", why=f"it has {len(request.data)} bytes")
    if not _is_readable(request):
        inside = (known for part, known in OFFICE_PARTS.items() if request.kind == "doc" and part in request.data)
        raise not_read(request.name, next(inside, request.kind))
    return FORMATS[request.kind].read(request)
