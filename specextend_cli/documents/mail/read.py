"""Email to sections: the header of each message, then its text or HTML, then the messages that it forwards.

A file is one message or a mailbox (mbox). Attachments are not read; they are listed in a warning and counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from email.message import Message

from specextend_cli.documents.encoded import without_encoded
from specextend_cli.documents.html.read import read_html
from specextend_cli.documents.mail.mime import (
    MAX_HEADER,
    disposition,
    enclosed,
    filename,
    has_long_header,
    header,
    header_text,
    messages,
    parameter,
    parse_message,
    part_bytes,
    part_text,
    subparts,
)
from specextend_cli.documents.mail.quotes import with_quoted_paragraphs
from specextend_cli.documents.markup import MarkupError
from specextend_cli.documents.sections import ItemKind, Parsed
from specextend_cli.documents.source import Source
from specextend_cli.errors import InputError

MAX_DEPTH = 30
"""Levels of parts in parts, and of messages in messages, that are read."""
_HEADERS = ("From", "To", "Date")
_STUB = 4  # times fewer words than the HTML part: such a text part only refers to it
_NAMED = 10
_PREAMBLE = 40  # words: "This is a multi-part message in MIME format."
_SIGNATURES = {"application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature"}
_SEALED = {"application/pkcs7-mime", "application/x-pkcs7-mime"}
_STATUS = {"message/delivery-status", "message/disposition-notification", "message/feedback-report"}
_MESSAGES = {"message/rfc822", "message/global", "message/news"}
_RECORDS = {"text/calendar", "text/vcard", "text/x-vcard", "text/directory", "text/rtf", "text/css", "text/javascript"}
_LOCKED = "-----BEGIN PGP MESSAGE-----"
_OPEN = "decrypt it in a mail program, and give its text"


@dataclass(slots=True)
class _Content:
    """What a part holds: items to be read; what was left out as (kind, text); attachments by name; messages.

    `locked` are the reasons why a text cannot be read; `spare` are attached texts, read where there is no other text.
    """

    items: list[tuple[ItemKind, str]] = field(default_factory=list)
    removed: list[tuple[str, str]] = field(default_factory=list)
    attachments: list[str] = field(default_factory=list)
    locked: list[str] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    spare: list[Message] = field(default_factory=list)

    @property
    def words(self) -> int:
        return sum(len(text.split()) for _, text in self.items)

    def add(self, other: _Content, *, text: bool = True) -> None:
        """Append another part's content, or without `text` only what is not in its alternative."""
        if text:
            self.items += other.items
            self.removed += other.removed
            self.locked += other.locked
        self.attachments += other.attachments
        self.messages += other.messages
        self.spare += other.spare


def parse(source: Source) -> Parsed:
    """The sections of a message or a mailbox; InputError when it has no readable text."""
    mail = _Mail(source.name)
    parsed = mail.parsed
    for number, message in enumerate(messages(source.content())):
        title = header(message, "Subject")
        parsed.title = "" if number else title
        mail.read(message, 0)
    parsed.unread = len(mail.attachments)
    if names := list(dict.fromkeys(mail.attachments)):
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        were = "1 attachment was" if parsed.unread == 1 else f"{parsed.unread:,} attachments were"
        parsed.warnings.append(f"{were} not read: {', '.join(names[:_NAMED])}{more}.")
        if not mail.has_text and not mail.locked:
            why = f"it holds nothing but attachments: {', '.join(names[:_NAMED])}{more}"
            fix = "save them, and give those that are documents"
            raise InputError(f"{source.name} is an email without a text", why=why, fix=fix)
    if mail.locked and not mail.has_text:
        why = "; ".join(dict.fromkeys(mail.locked))
        raise InputError(f"{source.name} is an email that cannot be read", why=why, fix=_OPEN)
    return parsed


class _Mail:
    """Reads messages into sections."""

    def __init__(self, name: str) -> None:
        self.parsed = Parsed("email")
        self.attachments: list[str] = []
        self.locked: list[str] = []
        self.has_text = False  # whether any message has a text beside its header
        self._name = name

    def read(self, message: Message, depth: int) -> None:
        """One message with those that it forwards, each a section or more."""
        parsed = self.parsed
        parsed.start_section()
        parsed.add("heading", header(message, "Subject"))
        if has_long_header(message):
            self._warn(f"Headers of more than {MAX_HEADER:,} characters were cut there.")
        for name in _HEADERS:
            if value := header(message, name):
                parsed.add("row", f"{name}: {value}")
        content = self._content(message, depth)
        for part in content.spare:
            if content.words or content.locked or content.messages:
                content.attachments.append(_label(part))
            else:
                content.add(self._text(part))
        for item in content.items:
            parsed.add(*item)
        for kind, text in content.removed:
            parsed.remove(kind, text)
        for why in content.locked:
            parsed.fail(why)
        if content.locked:
            self._warn(f"A text of {self._name} could not be read: {'; '.join(dict.fromkeys(content.locked))}.")
        self.locked += content.locked
        self.attachments += content.attachments
        self.has_text = self.has_text or any(without_encoded(text)[0].strip() for _, text in content.items)
        for inner in content.messages:
            self.read(inner, depth + 1)

    def _content(self, part: Message, depth: int) -> _Content:
        kind = part.get_content_type()
        if depth > MAX_DEPTH:
            return _Content(attachments=["parts in parts, too deep to be read"])
        if kind in ("multipart/encrypted", *_SEALED):
            return _Content(locked=[_sealed(part, kind)])
        if kind.startswith("multipart/") and (children := subparts(part)):
            return self._parts(part, children, depth)
        if kind in _SIGNATURES:
            return _Content()
        if kind in _STATUS:
            rows: list[tuple[ItemKind, str]] = [
                ("row", f"{name}: {header_text(name, str(value))}")
                for block in enclosed(part)
                for name, value in block.items()
            ]
            return _Content(rows)
        if kind in _MESSAGES or filename(part).lower().endswith(".eml"):
            inner = enclosed(part) or [parse_message(part_bytes(part))]
            return _Content(messages=inner)
        if kind == "text/rfc822-headers":
            return _Content(messages=[parse_message(part_bytes(part))])
        if kind == "message/partial":
            return _Content(locked=["it is one part of a message that was sent in several"])
        if part.get_content_maintype() not in ("text", "multipart") or kind in _RECORDS:
            return _Content(attachments=[_label(part)])
        if disposition(part) == "attachment":
            return _Content(spare=[part])
        return self._text(part)

    def _parts(self, part: Message, children: list[Message], depth: int) -> _Content:
        whole = _Content()
        contents = [self._content(child, depth + 1) for child in children]
        alternative = part.get_content_type() == "multipart/alternative"
        chosen = _chosen(contents, [child.get_content_type() for child in children])
        for content in contents:
            whole.add(content, text=content is chosen or not alternative)
        for text, least in ((part.preamble, _PREAMBLE), (part.epilogue, 0)):
            if text and len(text.split()) > least:
                whole.removed.append(("outside the parts", text))
        return whole

    def _text(self, part: Message) -> _Content:
        text, warnings = part_text(part, self._name)
        for warning in warnings:
            self._warn(warning)
        if part.get_content_type() != "text/html":
            plain = with_quoted_paragraphs(text)
            return _Content([("plain", plain)], locked=["it is encrypted (PGP)"] if _LOCKED in text else [])
        web = Parsed("html")
        if text.strip():
            try:
                read_html(text, web)
            except MarkupError as error:
                return _Content(locked=[f"its HTML: {error}"])
        items = [item for section in web.sections for item in section.items]
        return _Content(items, [(kind, text) for kind, _, text in web.removed])

    def _warn(self, warning: str) -> None:
        if warning not in self.parsed.warnings:
            self.parsed.warnings.append(warning)


def _chosen(contents: list[_Content], kinds: list[str]) -> _Content:
    """The alternative to be read: the plain text, unless another has much more text."""
    longest = max(contents, key=lambda content: content.words)
    plain = next((content for content, kind in zip(contents, kinds, strict=True) if kind == "text/plain"), longest)
    return longest if longest.words > _STUB * plain.words else plain


def _sealed(part: Message, kind: str) -> str:
    if kind == "multipart/encrypted":
        return "it is encrypted (PGP)" if "pgp" in parameter(part, "protocol") else "it is encrypted"
    signed = "signed" in parameter(part, "smime-type")
    return "it is wrapped in a signature (S/MIME)" if signed else "it is encrypted (S/MIME)"


def _label(part: Message) -> str:
    """What a warning calls an attachment."""
    return filename(part) or f"one without a name ({part.get_content_type()[:60]})"
