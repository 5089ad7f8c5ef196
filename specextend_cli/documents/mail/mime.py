"""The messages in a file of mail, their header fields and their parts, with limits on what hostile mail can cost.

Header fields are kept as they are written (compat32): the newer policies of the standard library lose parameters that
are not quoted as they should be, and with the boundary of a message all of its text.
"""

from __future__ import annotations

import email
import email.policy
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from email.errors import MessageError
from email.header import decode_header, make_header
from email.message import Message
from email.policy import Compat32
from typing import TypeVar

from specextend_cli.documents.decode import HEAD, codec, decode, encoding

MAX_HEADER = 10_000
"""Characters of a header field that are read: the time to parse one grows faster than its length."""
_MAX_NAME = 200  # characters of the name of an attachment
# What the standard library raises for unexpected headers and encodings.
_BROKEN = (
    *(MessageError, ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError),
    *(TypeError, ValueError),
)
_POSTMARK = rb"From \S[^\n]{0,200}?\d\d:\d\d(?::\d\d)?[^\n]{0,40}\r?\n"
_BETWEEN = re.compile(rb"(?:\A|(?<=\n\n)|(?<=\n\r\n))(?=" + _POSTMARK + rb"(?:>?[!-9;-~]{1,76}:|>From ))")
_ESCAPED = re.compile(rb"^>(>*From )", re.MULTILINE)
_T = TypeVar("_T")
_BOUNDARY = re.compile(r"^--(\S[^\n\"]{0,68}?)[ \t]*\n(?=[!-9;-~]{1,76}:|[ \t]*\n)", re.MULTILINE)


class _Written(Compat32):
    """Header fields as text of limited length; bytes beyond ASCII, which should not be there, are decoded."""

    def header_fetch_parse(self, name: str, value: str) -> str:
        value = value[:MAX_HEADER]
        return value if value.isascii() else decode("", value.encode("utf-8", "surrogateescape"))[0]


def messages(data: bytes) -> Iterator[Message]:
    """The messages of a file: one, or those of an mbox. UTF-16 is read as such."""
    if (found := encoding(data[:HEAD])) and found.startswith(("utf-16", "utf-32")):
        data = data.decode(found, "replace").encode("utf-8", "replace")
    starts = [match.start() for match in _BETWEEN.finditer(data)]
    if len(starts) < 2:
        yield parse_message(data)
        return
    for start, end in zip(starts, [*starts[1:], len(data)], strict=True):
        yield parse_message(_ESCAPED.sub(rb"\1", data[start:end]))


def parse_message(data: bytes) -> Message:
    """One message; a broken one is parsed as far as it goes."""
    return email.message_from_bytes(data, policy=_Written())


def header(message: Message, field: str) -> str:
    """A header field as people read it, on one line, of `MAX_HEADER` characters at most; "" where there is none."""
    written = " ".join(str(message.get(field, "")).split())
    return _known(written, lambda: " ".join(str(email.policy.default.header_factory(field, written)).split()))


def filename(part: Message) -> str:
    """The name of an attachment on one line, or ""."""
    found = _known("", lambda: part.get_filename() or "")
    return " ".join(_known(found, lambda: str(make_header(decode_header(found)))).split())[:_MAX_NAME]


def is_attached(part: Message) -> bool:
    """True if a part is to be saved rather than shown."""
    return _known("", lambda: part.get_content_disposition() or "") == "attachment"


def decoded(part: Message, name: str) -> tuple[str, list[str]]:
    """The decoded text of a part, and warnings where its encoding was guessed or bytes were replaced."""
    return decode(name, content(part), codec(_known("", lambda: part.get_content_charset() or "")))


def content(part: Message) -> bytes:
    """The content of a part; as it is written where it is not encoded as it says."""
    data = _known(None, lambda: part.get_payload(decode=True))
    if isinstance(data, bytes):
        return data
    payload = part.get_payload()
    return payload.encode("ascii", "surrogateescape") if isinstance(payload, str) and payload.isascii() else b""


def subparts(part: Message) -> list[Message]:
    """The parts of a multipart or of a `message/*`, by the boundary that is there if it is not the declared one."""
    payload = _known(None, lambda: part.get_payload())
    if isinstance(payload, str) and (found := _BOUNDARY.search(payload)):
        head = f'Content-Type: multipart/mixed; boundary="{found[1]}"\n\n'
        payload = parse_message((head + payload).encode("utf-8", "surrogateescape")).get_payload()
    return [child for child in payload if isinstance(child, Message)] if isinstance(payload, list) else []


def _known(otherwise: _T, get: Callable[[], _T]) -> _T:
    """What the standard library finds; `otherwise` where it fails at what is written."""
    with suppress(*_BROKEN):
        return get()
    return otherwise
