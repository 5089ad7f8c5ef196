"""Email to sections: who, when and what about, then the text; HTML only where a message has no text of its own.

Attachments are named in a warning and not read.
"""

from __future__ import annotations

import email
import email.policy
from email.errors import MessageError
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from specextend_cli.documents.decode import decode
from specextend_cli.documents.html import read_html
from specextend_cli.documents.labels import codec
from specextend_cli.documents.markup import MarkupError
from specextend_cli.documents.sections import Parsed
from specextend_cli.errors import InputError

MAX_HEADER = 10_000
"""Characters of a header that are read: parsing one takes time that grows faster than its length."""
_HEADERS = ("From", "To", "Date")
_STUB = 4  # a text part that has so many times fewer words than the HTML part only says that there is one
_NAMED = 10
# What the standard library lets through when a header or an encoding is not what it expects.
_BROKEN = (MessageError, ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)


class _Bounded(email.policy.EmailPolicy):
    """The default policy, for headers of a bounded length."""

    def header_fetch_parse(self, name: str, value: str) -> Any:
        return super().header_fetch_parse(name, value if len(value) <= MAX_HEADER else value[:MAX_HEADER])


_POLICY = _Bounded()


def parse(path: Path, shown: str) -> Parsed:
    """The sections of a message; InputError when it has no text that can be read."""
    parsed = Parsed("email")
    with path.open("rb") as file:
        message = email.message_from_binary_file(file, policy=_POLICY)
    assert isinstance(message, EmailMessage)
    parsed.title = _header(message, "Subject")
    parsed.add("heading", parsed.title)
    if any(len(value) > MAX_HEADER for _, value in message.raw_items()):
        parsed.warnings.append(f"Headers of more than {MAX_HEADER:,} characters were cut there.")
    for field in _HEADERS:
        if value := _header(message, field):
            parsed.add("row", f"{field}: {value}")
    _body(message, parsed, shown)
    if names := _attachments(message):
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        were = "1 attachment was" if len(names) == 1 else f"{len(names)} attachments were"
        parsed.warnings.append(f"{were} not read: {', '.join(names[:_NAMED])}{more}.")
    return parsed


def _header(message: EmailMessage, field: str) -> str:
    try:
        return " ".join(str(message[field] or "").split())
    except _BROKEN:
        return ""


def _body(message: EmailMessage, parsed: Parsed, shown: str) -> None:
    plain, page = _part(message, "plain", shown), _part(message, "html", shown)
    web = Parsed("html")
    if page.strip():
        try:
            read_html(page, web)
        except MarkupError as error:
            if not plain.strip():
                raise InputError(f"{shown} is an email that cannot be read", why=str(error)) from None
    words = sum(len(text.split()) for section in web.sections for _, text in section.items)
    if words > _STUB * len(plain.split()):
        for section in web.sections:
            for item in section.items:
                parsed.add(*item)
        for kind, _, text in web.removed:
            parsed.remove(kind, text)
    else:
        parsed.add("plain", plain)


def _part(message: EmailMessage, subtype: str, shown: str) -> str:
    try:
        part = message.get_body(preferencelist=(subtype,))
        data = part.get_payload(decode=True) if part is not None else None
        charset = part.get_content_charset() if part is not None else None
    except _BROKEN:
        return ""
    if not isinstance(data, bytes):
        return ""
    return decode(shown, data, codec(charset or ""))[0]


def _attachments(message: EmailMessage) -> list[str]:
    names = []
    for part in message.walk():
        try:
            name = part.get_filename() or ""
            forwarded = part.get_content_type() == "message/rfc822"
        except _BROKEN:
            continue
        if forwarded or name or part.get_content_disposition() == "attachment":
            names.append(" ".join(name.split()) or ("a forwarded message" if forwarded else "one without a name"))
    return names
