"""Email to sections: the header of each message, then its text or HTML, then the messages that it forwards.

A file is one message or a mailbox (mbox). Attachments are not read; they are listed in a warning and counted.
"""

from __future__ import annotations

import re
from email.message import Message
from itertools import chain

from specextend_cli.documents.encoded import without_encoded
from specextend_cli.documents.html.read import read_html
from specextend_cli.documents.mail import mime
from specextend_cli.documents.mail.quotes import CLOSED, OPENED, html_with_quotes, with_quotes
from specextend_cli.documents.markup import MarkupError
from specextend_cli.documents.sections import MAX_SECTIONS, ItemKind, Parsed
from specextend_cli.documents.source import Source
from specextend_cli.errors import InputError

MAX_DEPTH = 30
"""Levels of parts in parts, and of messages in messages, that are read."""
_STUB = 4  # times shorter than the HTML part: such a text part only refers to it
_NAMED = 10
_MANY = MAX_SECTIONS // 2  # of a mailbox: after these, only messages begin new ones
_SIGNATURES = {"application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature"}
_SEALED = {"multipart/encrypted", "application/pkcs7-mime", "application/x-pkcs7-mime"}
_REPORTS = {"message/delivery-status", "message/disposition-notification", "message/feedback-report"}
_RECORDS = {"text/calendar", "text/vcard", "text/x-vcard", "text/directory", "text/rtf"}
_LOCKED = "-----BEGIN PGP MESSAGE-----"
_BLOCKQUOTE = re.compile(r"(?P<open><blockquote\b[^<>]*>)|</blockquote\s*>", re.IGNORECASE)
_Items = list[tuple[ItemKind, str]]


def parse(source: Source) -> Parsed:
    """The sections of a message or a mailbox; InputError when it has no readable text."""
    mail = _Mail(source.name)
    parsed = mail.parsed
    for number, message in enumerate(mime.messages(source.content())):
        title = mime.header(message, "Subject")
        parsed.title = "" if number else title
        mail.read(message, 0)
    parsed.unread, names = len(mail.attachments), list(dict.fromkeys(mail.attachments))
    named = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    if names:
        were = "1 attachment was" if parsed.unread == 1 else f"{parsed.unread:,} attachments were"
        parsed.warnings.append(f"{were} not read: {named}.")
    if mail.locked and not mail.has_text:
        why, fix = "; ".join(dict.fromkeys(mail.locked)), "decrypt it in a mail program, and give its text"
        raise InputError(f"{source.name} is an email that cannot be read", why=why, fix=fix)
    if names and not mail.has_text:
        why, fix = f"it holds nothing but attachments: {named}", "save them, and give those that are documents"
        raise InputError(f"{source.name} is an email without a text", why=why, fix=fix)
    return parsed


class _Mail:
    """Reads messages into sections."""

    def __init__(self, name: str) -> None:
        self.parsed = Parsed("email")
        self.attachments: list[str] = []
        self.locked: list[str] = []  # why texts cannot be read
        self.has_text = False  # whether any message has a text beside its header
        self._name = name
        self._inner: list[Message] = []  # what the message that is read forwards

    def read(self, message: Message, depth: int) -> None:
        """One message with those that it forwards, each a section or more."""
        parsed, known = self.parsed, len(self.locked)
        parsed.start_section()
        parsed.add("heading", mime.header(message, "Subject"))
        if any(len(str(value)) > mime.MAX_HEADER for _, value in message.raw_items()):
            self._warn(f"Headers of more than {mime.MAX_HEADER:,} characters were cut there.")
        for name in ("From", "To", "Date"):
            if value := mime.header(message, name):
                parsed.add("row", f"{name}: {value}")
        for kind, text in self._items(message, depth):
            parsed.add("row" if kind == "heading" and len(parsed.sections) > _MANY else kind, text)
            self.has_text = self.has_text or bool(without_encoded(text)[0].strip())
        for why in self.locked[known:]:
            parsed.fail(why)
            self._warn(f"A text of {self._name} could not be read: {why}.")
        inner, self._inner = self._inner, []
        for one in inner:
            self.read(one, depth + 1)

    def _items(self, part: Message, depth: int) -> _Items:
        """The text of a part with those in it; what it has beside a text is noted."""
        kind, children = part.get_content_type(), mime.subparts(part)
        if kind in _SEALED:
            self.locked.append("it is encrypted, or sealed by a signature")
        elif depth > MAX_DEPTH:
            self.attachments.append("parts in parts, too deep to be read")
        elif children and kind.startswith("multipart/"):
            texts, removed = list[_Items](), self.parsed.removed
            ends = [len(removed)]
            for child in children:
                texts.append(self._items(child, depth + 1))
                ends.append(len(removed))
            if kind == "multipart/alternative":
                chosen = _chosen(texts, [child.get_content_type() for child in children])
                removed[ends[0] :] = removed[ends[chosen] : ends[chosen + 1]]
                return texts[chosen]
            return [*chain(*texts)]
        elif kind in _REPORTS:
            return [
                ("row", f"{name}: {' '.join(value.split())}") for block in children for name, value in block.items()
            ]
        elif children and kind.startswith("message/"):
            self._inner += children
        elif kind == "text/rfc822-headers" or mime.filename(part).lower().endswith(".eml"):
            self._inner.append(mime.parse_message(mime.content(part)))
        elif not kind.startswith(("text/", "multipart/")) or kind in _RECORDS or (depth and mime.is_attached(part)):
            if kind not in _SIGNATURES:
                self.attachments.append(mime.filename(part) or f"one without a name ({kind[:60]})")
        else:
            text, warnings = mime.decoded(part, self._name)
            self._warn(*warnings)
            if _LOCKED in text:
                self.locked.append("it is encrypted (PGP)")
            return self._html(text) if kind == "text/html" else with_quotes(text)
        return []

    def _html(self, text: str) -> _Items:
        web = Parsed("html")
        marked = _BLOCKQUOTE.sub(
            lambda tag: f"{tag[0]}<p>{OPENED}</p>" if tag["open"] else f"<p>{CLOSED}</p>{tag[0]}", text
        )
        try:
            read_html(marked, web)
        except MarkupError as error:
            self.locked.append(f"its HTML: {error}")
        for kind, _, removed in web.removed:
            self.parsed.remove(kind, removed)
        return html_with_quotes([item for section in web.sections for item in section.items])

    def _warn(self, *warnings: str) -> None:
        self.parsed.warnings += [warning for warning in warnings if warning not in self.parsed.warnings]


def _chosen(texts: list[_Items], kinds: list[str]) -> int:
    """The alternative to be read: the plain text, unless another has much more text."""
    sizes = [sum(len(body.split()) for _, body in text) for text in texts]
    plain, longest = kinds.index("text/plain") if "text/plain" in kinds else -1, sizes.index(max(sizes))
    return plain if plain >= 0 and sizes[longest] <= _STUB * sizes[plain] else longest
