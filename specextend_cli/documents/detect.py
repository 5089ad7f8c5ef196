"""What a file is, by its first bytes and not by its name."""

from __future__ import annotations

import re
from pathlib import PurePath

HEAD = 1 << 16
"""How many bytes from the beginning are enough to tell."""

_MARKDOWN_NAMES = frozenset((".md", ".markdown", ".mdown", ".mkd", ".qmd", ".rmd"))
_TEXT_NAMES = frozenset(("", ".txt", ".text"))
_HEADING = re.compile(r"(?:\A|\n[ \t]*\n)#{1,6} \S[^\n]*\n[ \t]*\n")
_HTML = re.compile(
    rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--(?:(?!-->).)*-->\s*)*<(?:!doctype\s+html|html|head|body)\b",
    re.I | re.DOTALL,
)
_FIELD = re.compile(rb"([!-9;-~]{1,76}):")
_ADDRESSED = frozenset((b"from", b"to", b"subject", b"sender"))
_MACHINE = frozenset((b"message-id", b"mime-version", b"received", b"return-path", b"content-type", b"delivered-to"))
LOCKED = "EncryptedPackage".encode("utf-16-le")
_MARKS = (
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "doc"),
    (b"{\\rtf", "rtf"),
    (b"%!PS", "postscript"),
    (b"\x89PNG\r\n\x1a\n", "image"),
    (b"\xff\xd8\xff", "image"),
    (b"GIF8", "image"),
    (b"II*\x00", "image"),
    (b"MM\x00*", "image"),
    (b"AT&TFORM", "djvu"),
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"(\xb5/\xfd", "zstd"),
)
LABELS = {
    "pdf": "a PDF",
    "text": "a text",
    "markdown": "a Markdown text",
    "html": "an HTML page",
    "email": "an email",
    "docx": "a Word document (DOCX)",
    "epub": "an EPUB book",
    "odt": "an OpenDocument file",
    "pptx": "a PowerPoint presentation",
    "xlsx": "an Excel workbook",
    "doc": "an old Microsoft Office file",
    "locked": "a Microsoft Office file with a password",
    "rtf": "an RTF document",
    "postscript": "a PostScript file",
    "djvu": "a DjVu document",
    "image": "an image",
    "gzip": "a gzip archive",
    "bzip2": "a bzip2 archive",
    "xz": "an xz archive",
    "zstd": "a zstd archive",
    "zip": "a ZIP archive",
    "binary": "a binary file, not a document",
}
"""What each kind is called in a sentence."""

_OFFICE = "soffice --headless --convert-to pdf FILE"
UNREAD = {
    "odt": _OFFICE,
    "pptx": _OFFICE,
    "xlsx": _OFFICE,
    "doc": _OFFICE,
    "locked": "save it again without a password",
    "rtf": "pandoc --from=rtf --to=plain --wrap=none FILE | specextend summarize -",
    "postscript": "ps2pdf FILE - | specextend summarize -",
    "djvu": "djvutxt FILE | specextend summarize -",
    "image": "specextend summarize FILE --ocr",
    "gzip": "gunzip -c FILE | specextend summarize -",
    "bzip2": "bunzip2 -c FILE | specextend summarize -",
    "xz": "xz -dc FILE | specextend summarize -",
    "zstd": "zstd -dc FILE | specextend summarize -",
    "zip": "unzip FILE, then name the documents in it",
    "binary": "give a PDF, a Word document, a book, a page or a text",
}
"""Kinds that are recognised and not read, with what makes them readable; FILE stands for the file."""


def detect(head: bytes) -> str:
    """The kind of a file by its first bytes, `HEAD` of them or all: a key of `LABELS`.

    Every ZIP is a "zip" here; what it holds is found out where it is opened.
    """
    plain = head
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        plain = head.decode("utf-16", "ignore").encode("utf-8", "ignore")
    if _HTML.match(plain.removeprefix(b"\xef\xbb\xbf")):
        return "html"
    if b"%PDF-" in head[:1024]:
        return "pdf"
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "zip"
    for mark, kind in _MARKS:
        if head.startswith(mark):
            return kind
    if _is_email(head):
        return "email"
    return "text" if encoding(head) else "binary"


def _is_email(head: bytes) -> bool:
    """Whether it begins with the header of a message: lines that only a header has, from the very first on."""
    fields = set()
    for line in head.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").split(b"\n"):
        field = _FIELD.match(line)
        if field is not None:
            fields.add(field[1].lower())
        elif not (fields and line[:1] in b" \t") and not (not fields and line.startswith((b"From ", b">From "))):
            break
    # A memo begins with From and Subject too; the marks of a machine tell.
    return bool(fields & _ADDRESSED) and bool(fields & _MACHINE)


def encoding(head: bytes) -> str | None:
    """The encoding of a text that begins so: by its byte-order mark, by where its zeros lie, or "utf-8" to be tried.

    None when it is no text.
    """
    for mark, name in (
        (b"\xef\xbb\xbf", "utf-8-sig"),
        (b"\xff\xfe\x00\x00", "utf-32"),
        (b"\x00\x00\xfe\xff", "utf-32"),
        (b"\xff\xfe", "utf-16"),
        (b"\xfe\xff", "utf-16"),
    ):
        if head.startswith(mark):
            return name
    zeros = head.count(0)
    if zeros:
        half = max(len(head) // 2, 1)
        if zeros > 0.6 * half and head[1::2].count(0) > 0.95 * zeros:
            return "utf-16-le"
        if zeros > 0.6 * half and head[0::2].count(0) > 0.95 * zeros:
            return "utf-16-be"
        return None
    controls = sum(head.count(byte) for byte in (*range(1, 8), *range(14, 27), *range(28, 32), 127))
    return "utf-8" if controls <= max(2, 0.02 * len(head)) else None


def is_markdown(name: str, text: str) -> bool:
    """Whether a text is Markdown: named so, or nameless (or .txt) with headings that stand alone."""
    suffix = PurePath(name).suffix.lower()
    if suffix in _MARKDOWN_NAMES:
        return True
    return suffix in _TEXT_NAMES and len(_HEADING.findall(text[:HEAD])) >= 2
