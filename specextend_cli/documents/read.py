"""`read`: a path, or "-" for stdin, to a `Document`. Start here.

document = read("report.pdf", pages=parse_pages("3-10"))
chunks = chunk(document, encode, size=4096)
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
from specextend_cli.documents.names import STDIN, argument
from specextend_cli.documents.read_errors import MAX_BYTES, MAX_TEXT_BYTES, check_size, not_read, unreadable
from specextend_cli.documents.request import ReadOptions, ReadRequest
from specextend_cli.documents.sandbox import load
from specextend_cli.errors import InputError
from specextend_cli.humanize import printable


def read(path: str | Path, **options: Unpack[ReadOptions]) -> Document:
    """Read a document; InputError says what is wrong with it and what helps.

    The text "-" is stdin. For the options see `ReadOptions`.
    """
    request = ReadRequest("", **options)
    if path == "-":
        return _from_memory("-", sys.stdin.buffer.read(MAX_BYTES + 1), request)
    path = Path(path)
    name = printable(path.name)
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise InputError(f"{name} is a directory", fix=f"specextend summarize {argument(str(path))}/*")
        check_size(name, status.st_size)
        with path.open("rb") as file:
            if not stat.S_ISREG(status.st_mode):  # a pipe, as in <(command), can be read once and not sought
                return _from_memory(path.name, file.read(MAX_BYTES + 1), request)
            head = file.read(HEAD)
            kind = detect(head, path.suffix)
            if kind not in ("pdf", "zip"):
                check_size(name, status.st_size, MAX_TEXT_BYTES)
            if _needs_file(kind, request):
                return _read(replace(request, name=name, kind=kind, path=path))
            data = head + file.read(MAX_TEXT_BYTES)
    except OSError as error:
        raise unreadable(path, name, error) from error
    return _from_memory(path.name, data, request)


def read_bytes(name: str, data: bytes, **options: Unpack[ReadOptions]) -> Document:
    """Read a document from memory; `name` is for messages, and "-" for stdin."""
    return _from_memory(name, data, ReadRequest("", **options))


def _from_memory(name: str, data: bytes, request: ReadRequest) -> Document:
    name = STDIN if name == "-" else printable(name)
    check_size(name, len(data))
    kind = detect(data[:HEAD], PurePath(name).suffix)
    if not data.strip():
        raise InputError(f"{name} is empty", why=f"it has {len(data)} bytes")
    if kind not in ("pdf", "zip"):
        check_size(name, len(data), MAX_TEXT_BYTES)
    request = replace(request, name=name, kind=kind)
    if not _needs_file(kind, request):
        return _read(replace(request, data=data))
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        return _read(replace(request, path=Path(file.name)))


def _is_readable(kind: str, request: ReadRequest) -> bool:
    return not FORMATS[kind].hint and (request.ocr is not None or not FORMATS[kind].needs_ocr)


def _needs_file(kind: str, request: ReadRequest) -> bool:
    """Whether another process opens files of this kind."""
    return kind == "zip" or (kind != "text" and _is_readable(kind, request))


def _read(request: ReadRequest) -> Document:
    """Hand the request to the reader of its format."""
    kind = request.kind
    if kind != "zip" and not _is_readable(kind, request):
        inside = (known for part, known in OFFICE_PARTS.items() if kind == "doc" and part in request.data)
        raise not_read(request.name, next(inside, kind))
    document: Document = load(FORMATS[kind].reader)(request)
    return document
