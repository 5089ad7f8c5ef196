"""The registry of document formats: each is one entry of `_FORMATS`, tried in this order.

Detection, messages and parsers derive from it. To add a format, write a module with `parse(source: Source) -> Parsed`
(or Paged) and add an entry here that names it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from specextend_cli.documents.decode import encoding
from specextend_cli.documents.transcripts import is_transcript

_HTML = re.compile(
    rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--(?:(?!-->).)*-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.I | re.DOTALL
)
_HEADER = re.compile(rb"(?:(?:>?From |[!-9;-~]{1,76}:|(?<=\n)[ \t]).*\n?)*")
_FIELD = re.compile(rb"^([!-9;-~]{1,76}):", re.MULTILINE)
_ADDRESSED = frozenset((b"from", b"to", b"subject", b"sender"))
_MACHINE = frozenset((b"message-id", b"mime-version", b"received", b"return-path", b"content-type", b"delivered-to"))
_PACKAGE = "specextend_cli.documents."
_OFFICE = "soffice --headless --convert-to pdf FILE"
_PANDOC = "pandoc --from=rtf --to=plain --wrap=none FILE"
_PIPE = " | specextend summarize -"


@dataclass(frozen=True, slots=True)
class Format:
    """A format that is read, or one that is recognized and refused with a hint.

    `kind` is its key; `label` names it in sentences ("an EPUB book") and `name` in lists ("EPUB"; "" where it is not
    read). Files with one of `suffixes` are documents of a directory whatever their content.
    A file is recognized by the `signatures` it begins with or by `matches(first bytes)`; inside a ZIP, by how the
    name of a `member` begins. A text that none matches is of the format
    that its suffix promises if that `may_match`.
    `parser` is "module:function": Source -> Parsed or Paged, run in the sandbox.
    `hint` says what makes a refused format readable (FILE stands for the file); `empty` why a document may have no
    text.
    """

    kind: str
    label: str
    name: str = ""
    suffixes: tuple[str, ...] = ()
    signatures: tuple[bytes, ...] = ()
    matches: Callable[[bytes], bool] | None = None
    may_match: Callable[[bytes], bool] | None = None
    member: str = ""
    parser: str = ""
    hint: str = ""
    empty: str = ""


def _ascii(head: bytes) -> bytes:
    """The head of a text in an encoding whose ASCII characters are single bytes."""
    found = encoding(head) or ""
    if found.startswith(("utf-16", "utf-32")):
        return head.decode(found, "ignore").encode("utf-8", "ignore").removeprefix(b"\xef\xbb\xbf")
    return head.removeprefix(b"\xef\xbb\xbf")


def _is_html(head: bytes) -> bool:
    return _HTML.match(_ascii(head)) is not None


def _header_fields(head: bytes) -> set[bytes]:
    """The names of the header fields from the very first line on, in lower case."""
    header = _HEADER.match(_ascii(head))
    return {field.lower() for field in _FIELD.findall(header[0])} if header else set()


def _is_email(head: bytes) -> bool:
    """True if it begins with the header of a message. A memo has From and Subject too, written by nobody's program."""
    fields = _header_fields(head)
    return bool(fields & _ADDRESSED) and bool(fields & _MACHINE)


_FORMATS = (
    Format(
        *("pdf", "a PDF", "PDF", (".pdf",)),
        matches=lambda head: b"%PDF-" in head[:1024] and not _is_html(head) and not _is_email(head),
        parser=_PACKAGE + "pdf.read:parse",
        empty="what it has is running heads and page numbers; the rest may be scanned: try --ocr",
    ),
    Format(
        *("docx", "a Word document (DOCX)", "Word (DOCX)", (".docx",)),
        member="word/",
        parser=_PACKAGE + "word:parse",
        empty="it may hold only pictures",
    ),
    Format(
        *("epub", "an EPUB book", "EPUB", (".epub",)),
        member="META-INF/container.xml",
        parser=_PACKAGE + "epub:parse",
        empty="it may hold only pictures",
    ),
    Format(
        *("html", "an HTML page", "HTML", (".html", ".htm", ".xhtml")),
        matches=_is_html,
        may_match=lambda head: b"<" in _ascii(head),
        parser=_PACKAGE + "html.read:parse",
        empty="what it shows may be made by scripts, which are not run",
    ),
    Format(
        *("email", "an email", "email", (".eml", ".mbox")),
        matches=_is_email,
        may_match=lambda head: not _header_fields(head).isdisjoint(_ADDRESSED | _MACHINE),
        parser=_PACKAGE + "mail:parse",
        empty="it may be only attachments",
    ),
    Format(
        *("transcript", "a transcript", "transcripts", (".vtt", ".srt")),
        matches=lambda head: is_transcript(_ascii(head).decode("utf-8", "ignore").replace("\r\n", "\n")),
        parser=_PACKAGE + "transcripts:parse",
        empty="it may have no words",
    ),
    Format("markdown", "a Markdown text", "Markdown", (".md", ".markdown"), parser=_PACKAGE + "text:parse"),
    Format(
        *("text", "a text", "text", (".txt", ".text", ".rst", ".adoc", ".ipynb")),
        parser=_PACKAGE + "text:parse",
        empty="what it has is control characters, encoded data or page furniture only",
    ),
    Format("image", "an image", signatures=(b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8", b"II*\x00", b"MM\x00*")),
    Format(
        *("zip", "a ZIP archive"),
        signatures=(b"PK\x03\x04", b"PK\x05\x06"),
        hint="unzip FILE, then name the documents in it",
    ),
    Format("pptx", "a PowerPoint presentation", member="ppt/", hint=_OFFICE),
    Format("xlsx", "an Excel workbook", member="xl/", hint=_OFFICE),
    Format("odt", "an OpenDocument file", member="content.xml", hint=_OFFICE),
    Format(
        *("doc", "a Microsoft Office file, an old one or one with a password"),
        signatures=(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",),
        hint=f"save it without a password, a message as .eml, then: {_OFFICE}",
    ),
    Format("rtf", "an RTF document", signatures=(b"{\\rtf",), hint=_PANDOC + _PIPE),
    Format("postscript", "a PostScript file", signatures=(b"%!PS",), hint="ps2pdf FILE -" + _PIPE),
    Format("djvu", "a DjVu document", signatures=(b"AT&TFORM",), hint="djvutxt FILE" + _PIPE),
    Format(
        *("packed", "a compressed file"),
        signatures=(b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"(\xb5/\xfd"),
        hint="unpack it first: gunzip, bunzip2, unxz, unzstd",
    ),
    Format("binary", "a binary file, not a document", hint="give a PDF, a Word document, a book, a page or a text"),
)
FORMATS = {entry.kind: entry for entry in _FORMATS}
"""All formats by kind, those that are read first."""


def detect(head: bytes, suffix: str = "") -> str:
    """The kind of a file by its first `HEAD` bytes, or all of them: a key of `FORMATS`.

    Every ZIP is a "zip" here; the sandbox looks inside. The suffix decides what a text without a mark of its own is.
    """
    for entry in FORMATS.values():
        if head.startswith(entry.signatures) or (entry.matches is not None and entry.matches(head)):
            return entry.kind
    if not encoding(head):
        return "binary"
    promised = kind_by_suffix(suffix)
    may_match = FORMATS[promised].may_match if promised else None
    return promised if promised and may_match is not None and may_match(head) else "text"


def kind_by_member(contains: Callable[[str], bool]) -> str:
    """The kind of a ZIP by what it contains; else "zip"."""
    return next((entry.kind for entry in FORMATS.values() if entry.member and contains(entry.member)), "zip")


def kind_by_suffix(suffix: str) -> str | None:
    """The kind that a file's suffix promises, if any."""
    return next((entry.kind for entry in FORMATS.values() if suffix.lower() in entry.suffixes), None)


def format_names() -> list[str]:
    """The formats that are read, for lists in messages: "PDF", "Word (DOCX)", ..."""
    return [entry.name for entry in FORMATS.values() if entry.name]
