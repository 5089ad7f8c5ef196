"""Email to sections: the header of each message, then its text or HTML, then the messages that it forwards.

A file is one message or a mailbox (mbox). Attachments are not read; they are listed in a warning and counted.

Header fields are kept as they are written (compat32): the newer policies of the standard library lose parameters that
are not quoted as they should be, and with the boundary of a message all of its text.
"""

from __future__ import annotations

import email
import email.policy
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from email.header import decode_header, make_header
from email.message import Message
from email.policy import Compat32
from itertools import chain
from typing import Any, TypeVar

from specextend_cli.documents.decode import HEAD, codec, decode, encoding
from specextend_cli.documents.encoded import without_encoded
from specextend_cli.documents.errors import unread
from specextend_cli.documents.html.read import read_html
from specextend_cli.documents.markup import MarkupError
from specextend_cli.documents.quotes import html_with_quotes, with_quotes
from specextend_cli.documents.sections import ItemKind, Parsed
from specextend_cli.documents.source import Source
from specextend_cli.errors import InputError

MAX_HEADER = 10_000
"""Characters of a header field that are read: the time to parse one grows faster than its length."""
MAX_DEPTH = 30
"""Levels of parts in parts, and of messages in messages, that are read."""
_STUB = 4  # times shorter than the HTML part: such a text part only refers to it
_SIGNATURES = {"application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature"}
_SEALED = {"multipart/encrypted", "application/pkcs7-mime", "application/x-pkcs7-mime"}
_RECORDS = {"text/calendar", "text/vcard", "text/x-vcard", "text/directory", "text/rtf"}
_ENCRYPTED = "an encrypted or sealed text"
_LOCKED = "-----BEGIN PGP MESSAGE-----"
_MAX_NAME = 200  # characters of the name of an attachment
_POSTMARK = rb"From \S[^\n]{0,200}?\d\d:\d\d(?::\d\d)?[^\n]{0,40}\r?\n"
_BETWEEN = re.compile(rb"(?:\A|(?<=\n\n)|(?<=\n\r\n))(?=" + _POSTMARK + rb"(?:>?[!-9;-~]{1,76}:|>From ))")
_ESCAPED = re.compile(rb"^>(>*From )", re.MULTILINE)
_T = TypeVar("_T")
_Items = list[tuple[ItemKind, str]]


def parse(source: Source) -> Parsed:
    """The sections of a message or a mailbox; InputError when it has no readable text."""
    mail = _Mail(source.name)
    parsed = mail.parsed
    for number, message in enumerate(_messages(source.path.read_bytes())):
        parsed.title = "" if number else _header(message, "Subject")
        mail.read(message, 0)
    if mail.attachments:
        parsed.unread = len(mail.attachments)
        parsed.warnings.append(unread(mail.attachments))
        if not mail.has_text:
            fix = "save them decrypted, and give those that are documents"
            raise InputError(f"{source.name} is an email without a text", why=unread(mail.attachments)[:-1], fix=fix)
    return parsed


class _Mail:
    """Reads messages into sections."""

    def __init__(self, name: str) -> None:
        self.parsed = Parsed("email")
        self.attachments: list[str] = []
        self.has_text = False  # whether any message has a text beside its header
        self._name = name
        self._inner: list[Message] = []  # what the message that is read forwards

    def read(self, message: Message, depth: int) -> None:
        """One message with those that it forwards, each a section or more."""
        parsed = self.parsed
        parsed.start_section()
        parsed.add("heading", _header(message, "Subject"))
        if any(len(str(value)) > MAX_HEADER for _, value in message.raw_items()):
            self._warn(f"Headers of more than {MAX_HEADER:,} characters were cut there.")
        for name in ("From", "To", "Date"):
            if value := _header(message, name):
                parsed.add("row", f"{name}: {value}")
        for kind, text in self._items(message, depth):
            parsed.add(kind, text)
            self.has_text = self.has_text or bool(without_encoded(text)[0].strip())
        inner, self._inner = self._inner, []
        for one in inner:
            self.read(one, depth + 1)

    def _items(self, part: Message, depth: int) -> _Items:
        """The text of a part with those in it; what it has beside a text is noted."""
        kind = part.get_content_type()
        children: Any = part.get_payload() if part.is_multipart() else []
        is_attached = _known(None, part.get_content_disposition) == "attachment"
        if kind in _SEALED:
            self.attachments.append(_ENCRYPTED)
        elif depth > MAX_DEPTH:
            self.attachments.append("parts in parts, too deep to be read")
        elif children and kind.startswith("multipart/"):
            texts, edits = list[_Items](), self.parsed.edits
            ends = [len(edits)]
            for child in children:
                texts.append(self._items(child, depth + 1))
                ends.append(len(edits))
            if kind == "multipart/alternative":
                chosen = _chosen(texts, [child.get_content_type() for child in children])
                edits[ends[0] :] = edits[ends[chosen] : ends[chosen + 1]]
                return texts[chosen]
            return [*chain(*texts)]
        elif children and kind.startswith("message/"):
            self._inner += children
        elif _filename(part).lower().endswith(".eml"):
            self._inner.append(_parse_message(_content(part)))
        elif not kind.startswith(("text/", "multipart/")) or kind in _RECORDS or (depth and is_attached):
            if kind not in _SIGNATURES:
                self.attachments.append(_filename(part) or f"one without a name ({kind[:60]})")
        else:
            charset = codec(_known("", lambda: part.get_content_charset() or ""))
            text, warnings = decode(self._name, _content(part), charset)
            self._warn(*warnings)
            if _LOCKED in text:
                self.attachments.append(_ENCRYPTED)
            return self._html(text) if kind == "text/html" else with_quotes(text)
        return []

    def _html(self, text: str) -> _Items:
        web = Parsed("html")
        try:
            read_html(text, web)
        except MarkupError as error:
            self.attachments.append(f"a text in HTML ({error})")
        for edit in web.edits:
            self.parsed.remove(edit.kind, edit.before)
        return html_with_quotes([item for section in web.sections for item in section.items])

    def _warn(self, *warnings: str) -> None:
        self.parsed.warnings += [warning for warning in warnings if warning not in self.parsed.warnings]


def _chosen(texts: list[_Items], kinds: list[str]) -> int:
    """The alternative to be read: the plain text, unless another has much more text."""
    sizes = [sum(len(body.split()) for _, body in text) for text in texts]
    plain, longest = kinds.index("text/plain") if "text/plain" in kinds else -1, sizes.index(max(sizes))
    return plain if plain >= 0 and sizes[longest] <= _STUB * sizes[plain] else longest


class _Written(Compat32):
    """Header fields as text of limited length; bytes beyond ASCII, which should not be there, are decoded."""

    def header_fetch_parse(self, name: str, value: str) -> str:
        value = value[:MAX_HEADER]
        return value if value.isascii() else decode("", value.encode("utf-8", "surrogateescape"))[0]


def _messages(data: bytes) -> Iterator[Message]:
    """The messages of a file: one, or those of an mbox. UTF-16 is read as such."""
    if (found := encoding(data[:HEAD])) and found.startswith(("utf-16", "utf-32")):
        data = data.decode(found, "replace").encode("utf-8", "replace")
    starts = [match.start() for match in _BETWEEN.finditer(data)]
    if len(starts) < 2:
        yield _parse_message(data)
        return
    for start, end in zip(starts, [*starts[1:], len(data)], strict=True):
        yield _parse_message(_ESCAPED.sub(rb"\1", data[start:end]))


def _parse_message(data: bytes) -> Message:
    """One message; a broken one is parsed as far as it goes."""
    return email.message_from_bytes(data, policy=_Written())


def _header(message: Message, field: str) -> str:
    """A header field as people read it, on one line, of `MAX_HEADER` characters at most; "" where there is none."""
    written = " ".join(str(message.get(field, "")).split())
    return _known(written, lambda: " ".join(str(email.policy.default.header_factory(field, written)).split()))


def _filename(part: Message) -> str:
    """The name of an attachment on one line, or ""."""
    found = _known("", lambda: part.get_filename() or "")
    return " ".join(_known(found, lambda: str(make_header(decode_header(found)))).split())[:_MAX_NAME]


def _content(part: Message) -> bytes:
    """The content of a part; none where it is not encoded as it says."""
    data: Any = _known(None, lambda: part.get_payload(decode=True))
    return data or b""


def _known(otherwise: _T, get: Callable[[], _T]) -> _T:
    """What the standard library finds; `otherwise` where it fails at what is written, in whatever way."""
    with suppress(Exception):
        return get()
    return otherwise
