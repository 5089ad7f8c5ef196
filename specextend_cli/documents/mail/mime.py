"""The messages in a file of mail, their header fields and their parts, with limits on what hostile mail can cost.

Header fields are kept as they are written (compat32): the newer policies of the standard library lose parameters that
are not quoted as they should be, and with the boundary of a message all of its text.
"""

from __future__ import annotations

import email
import email.policy
import re
from collections.abc import Iterator
from contextlib import suppress
from email.errors import MessageError
from email.header import decode_header, make_header
from email.message import Message
from email.policy import Compat32

from specextend_cli.documents.decode import HEAD, codec, decode, encoding

MAX_HEADER = 10_000
"""Characters of a header field that are read: the time to parse one grows faster than its length."""
_MAX_NAME = 200  # characters of the name of an attachment
# What the standard library raises for unexpected headers and encodings.
BROKEN = (
    *(MessageError, ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError),
    *(TypeError, ValueError),
)

_POSTMARK = rb"From \S[^\n]{0,200}?\d\d:\d\d(?::\d\d)?[^\n]{0,40}\r?\n"
_BETWEEN = re.compile(rb"(?:\A|(?<=\n\n)|(?<=\n\r\n))(?=" + _POSTMARK + rb"(?:>?[!-9;-~]{1,76}:|>From ))")
_QUOTED = re.compile(rb"^>(>*From )", re.MULTILINE)
_BOUNDARY = re.compile(r"^--(\S[^\n\"]{0,68}?)[ \t]*\n(?=[!-9;-~]{1,76}:|[ \t]*\n)", re.MULTILINE)


class _Written(Compat32):
    """Header fields as text of limited length; bytes beyond ASCII, which should not be there, are decoded."""

    def header_fetch_parse(self, name: str, value: str) -> str:
        return _text(value[:MAX_HEADER])


_POLICY = _Written()


def messages(data: bytes) -> Iterator[Message]:
    """The messages of a file: one, or those of an mbox. UTF-16 is read as such."""
    if (found := encoding(data[:HEAD])) and found.startswith(("utf-16", "utf-32")):
        data = data.decode(found, "replace").encode("utf-8", "replace")
    starts = [match.start() for match in _BETWEEN.finditer(data)]
    if len(starts) < 2:
        yield parse_message(data)
        return
    for start, end in zip(starts, [*starts[1:], len(data)], strict=True):
        yield parse_message(_QUOTED.sub(rb"\1", data[start:end]))


def parse_message(data: bytes) -> Message:
    """One message; a broken one is parsed as far as it goes."""
    return email.message_from_bytes(data, policy=_POLICY)


def header(message: Message, field: str) -> str:
    """A header field as people read it, on one line, of `MAX_HEADER` characters at most; "" where there is none."""
    return header_text(field, str(message.get(field, "")))


def header_text(field: str, written: str) -> str:
    """The same of a field as it is written."""
    written = " ".join(written.split())
    with suppress(*BROKEN):
        return " ".join(str(email.policy.default.header_factory(field, written)).split())
    return written


def has_long_header(message: Message) -> bool:
    """True if a header field is longer than what is read of it."""
    return any(len(str(value)) > MAX_HEADER for _, value in message.raw_items())


def filename(part: Message) -> str:
    """The name of an attachment on one line, or ""."""
    with suppress(*BROKEN):
        found = part.get_filename() or ""
        with suppress(*BROKEN):
            found = str(make_header(decode_header(found)))
        return " ".join(found.split())[:_MAX_NAME]
    return ""


def parameter(part: Message, key: str) -> str:
    """A parameter of the content type in lower case, or ""."""
    with suppress(*BROKEN):
        return str(part.get_param(key, "")).lower()
    return ""


def disposition(part: Message) -> str:
    """ "attachment", "inline" or ""."""
    with suppress(*BROKEN):
        return part.get_content_disposition() or ""
    return ""


def part_text(part: Message, name: str) -> tuple[str, list[str]]:
    """The decoded text of a part, and warnings where its encoding was guessed or bytes were replaced."""
    charset = ""
    with suppress(*BROKEN):
        charset = part.get_content_charset() or ""
    return decode(name, part_bytes(part), codec(charset))


def part_bytes(part: Message) -> bytes:
    """The content of a part; as it is written where it is not encoded as it says."""
    with suppress(*BROKEN):
        data = part.get_payload(decode=True)
        if isinstance(data, bytes):
            return data
    payload = part.get_payload()
    return payload.encode("ascii", "surrogateescape") if isinstance(payload, str) and payload.isascii() else b""


def subparts(part: Message) -> list[Message]:
    """The parts of a multipart, by the boundary that is really there if it is not the declared one; [] for none."""
    payload = part.get_payload()
    if isinstance(payload, str) and (found := _BOUNDARY.search(payload)):
        head = f'Content-Type: multipart/mixed; boundary="{found[1]}"\n\n'
        payload = parse_message((head + payload).encode("utf-8", "surrogateescape")).get_payload()
    return [child for child in payload if isinstance(child, Message)] if isinstance(payload, list) else []


def enclosed(part: Message) -> list[Message]:
    """The message in a `message/*` part: usually one; the blocks of fields of a delivery status are several."""
    payload = part.get_payload()
    encoded = str(part.get("content-transfer-encoding", "")).strip().lower() in ("base64", "quoted-printable")
    if isinstance(payload, list) and encoded and len(payload) == 1 and isinstance(payload[0], Message):
        inner = Message(policy=_POLICY)
        inner["Content-Transfer-Encoding"] = str(part["content-transfer-encoding"])
        written = payload[0].get_payload()
        if isinstance(written, str) and not payload[0].items():  # against the standard, but it is written so
            inner.set_payload(written)
            return [parse_message(part_bytes(inner))]
    return [child for child in payload if isinstance(child, Message)] if isinstance(payload, list) else []


def _text(written: str) -> str:
    """Header text whose bytes beyond ASCII were kept as surrogates, decoded."""
    return decode("", written.encode("utf-8", "surrogateescape"))[0] if not written.isascii() else written
