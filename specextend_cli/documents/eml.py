"""Email to sections: the header, then the text part, or the HTML part where there is no real text part.

Attachments are listed in a warning and not read.
"""

from __future__ import annotations

import email
import email.policy
from contextlib import suppress
from email.errors import MessageError
from email.message import EmailMessage
from typing import Any

from specextend_cli.documents.decode import codec, decode
from specextend_cli.documents.html import read_html
from specextend_cli.documents.markup import MarkupError
from specextend_cli.documents.sections import Parsed, Source
from specextend_cli.errors import InputError

MAX_HEADER = 10_000
"""Characters of a header that are read: the time to parse one grows faster than its length."""
_HEADERS = ("From", "To", "Date")
_STUB = 4  # times fewer words than the HTML part: such a text part only refers to it
_NAMED = 10
# What the standard library raises for unexpected headers and encodings.
_BROKEN = (MessageError, ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)


class _Bounded(email.policy.EmailPolicy):
    """The default policy with headers of limited length."""

    def header_fetch_parse(self, name: str, value: str) -> Any:
        # A slice of a parsed header is plain text again, so short ones are not cut.
        return super().header_fetch_parse(name, value if len(value) <= MAX_HEADER else value[:MAX_HEADER])


def parse(source: Source) -> Parsed:
    """The sections of a message; InputError when it has no readable text."""
    parsed = Parsed("email")
    with source.path.open("rb") as file:
        message = email.message_from_binary_file(file, policy=_Bounded())
    assert isinstance(message, EmailMessage)
    parsed.title = _header(message, "Subject")
    parsed.add("heading", parsed.title)
    if any(len(value) > MAX_HEADER for _, value in message.raw_items()):
        parsed.warnings.append(f"Headers of more than {MAX_HEADER:,} characters were cut there.")
    for field in _HEADERS:
        if value := _header(message, field):
            parsed.add("row", f"{field}: {value}")
    _body(message, parsed, source.name)
    if names := _attachments(message):
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        were = "1 attachment was" if len(names) == 1 else f"{len(names)} attachments were"
        parsed.warnings.append(f"{were} not read: {', '.join(names[:_NAMED])}{more}.")
    return parsed


def _header(message: EmailMessage, field: str) -> str:
    with suppress(*_BROKEN):
        return " ".join(str(message[field] or "").split())
    return ""


def _body(message: EmailMessage, parsed: Parsed, name: str) -> None:
    plain, page = _part(message, "plain", name), _part(message, "html", name)
    web = Parsed("html")
    if page.strip():
        try:
            read_html(page, web)
        except MarkupError as error:
            if not plain.strip():
                raise InputError(f"{name} is an email that cannot be read", why=str(error)) from None
    words = sum(len(text.split()) for section in web.sections for _, text in section.items)
    if words > _STUB * len(plain.split()):
        for section in web.sections:
            for item in section.items:
                parsed.add(*item)
        for kind, _, text in web.removed:
            parsed.remove(kind, text)
    else:
        parsed.add("plain", plain)


def _part(message: EmailMessage, subtype: str, name: str) -> str:
    with suppress(*_BROKEN):
        part = message.get_body(preferencelist=(subtype,))
        data = part.get_payload(decode=True) if part is not None else None
        if part is not None and isinstance(data, bytes):
            return decode(name, data, codec(part.get_content_charset() or ""))[0]
    return ""


def _attachments(message: EmailMessage) -> list[str]:
    names = []
    for part in message.walk():
        with suppress(*_BROKEN):
            name, forwarded = part.get_filename() or "", part.get_content_type() == "message/rfc822"
            if forwarded or name or part.get_content_disposition() == "attachment":
                names.append(" ".join(name.split()) or ("a forwarded message" if forwarded else "one without a name"))
    return names
