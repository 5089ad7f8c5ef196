"""What a file is, by its first bytes and not by its name."""

from __future__ import annotations

import io
import re
import zipfile
from dataclasses import dataclass
from pathlib import PurePath

HEAD = 1 << 16
"""How many bytes from the beginning are enough to tell."""

_MARKDOWN_NAMES = frozenset((".md", ".markdown", ".mdown", ".mkd", ".qmd", ".rmd"))
_TEXT_NAMES = frozenset(("", ".txt", ".text"))
_HEADING = re.compile(r"(?:\A|\n\s*\n)#{1,6} \S[^\n]*\n\s*\n")
_HTML = re.compile(rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.I | re.S)
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
_IN_ZIP = (
    ("word/", "docx"),
    ("ppt/", "pptx"),
    ("xl/", "xlsx"),
    ("META-INF/container.xml", "epub"),
    ("content.xml", "odt"),
)


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of file that is recognised but not read: its name in a sentence and the command that makes it readable.

    In `fix`, FILE stands for the file.
    """

    label: str
    fix: str


_OFFICE = "soffice --headless --convert-to pdf FILE"
UNREAD: dict[str, Format] = {
    "html": Format("an HTML page", "lynx -dump -nolist -force_html FILE | specextend summarize -"),
    "docx": Format("a Word document (DOCX)", "pandoc --from=docx --to=plain --wrap=none FILE | specextend summarize -"),
    "epub": Format("an EPUB book", "pandoc --from=epub --to=plain --wrap=none FILE | specextend summarize -"),
    "odt": Format("an OpenDocument file", _OFFICE),
    "pptx": Format("a PowerPoint presentation", _OFFICE),
    "xlsx": Format("an Excel workbook", _OFFICE),
    "doc": Format("an old Microsoft Office file", _OFFICE),
    "rtf": Format("an RTF document", "pandoc --from=rtf --to=plain --wrap=none FILE | specextend summarize -"),
    "postscript": Format("a PostScript file", "ps2pdf FILE - | specextend summarize -"),
    "djvu": Format("a DjVu document", "djvutxt FILE | specextend summarize -"),
    "image": Format("an image", "ocrmypdf --image-dpi 300 FILE - | specextend summarize -"),
    "gzip": Format("a gzip archive", "gunzip -c FILE | specextend summarize -"),
    "bzip2": Format("a bzip2 archive", "bunzip2 -c FILE | specextend summarize -"),
    "xz": Format("an xz archive", "xz -dc FILE | specextend summarize -"),
    "zstd": Format("a zstd archive", "zstd -dc FILE | specextend summarize -"),
    "zip": Format("a ZIP archive", "unzip FILE, then name the documents in it"),
    "binary": Format("a binary file, not a document", "give a PDF, a text or a Markdown file"),
}


def detect(head: bytes, whole: bytes | None = None) -> str:
    """The kind of a file: "pdf", "text", or a key of `UNREAD`.

    `head` are its first bytes, `HEAD` of them or all; `whole`, where given, lets a ZIP's list of contents be read.
    """
    if _HTML.match(head[3:] if head.startswith(b"\xef\xbb\xbf") else head):
        return "html"
    if b"%PDF-" in head[:1024]:
        return "pdf"
    if head.startswith(b"PK\x03\x04"):
        return _in_zip(head if whole is None else whole)
    for mark, kind in _MARKS:
        if head.startswith(mark):
            return kind
    return "text" if encoding(head) else "binary"


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
    return "utf-8" if controls <= 0.02 * len(head) else None


def is_markdown(name: str, text: str) -> bool:
    """Whether a text is Markdown: named so, or nameless (or .txt) with headings that stand alone."""
    suffix = PurePath(name).suffix.lower()
    if suffix in _MARKDOWN_NAMES:
        return True
    return suffix in _TEXT_NAMES and len(_HEADING.findall(text[:HEAD])) >= 2


def _in_zip(data: bytes) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        names = []
    for mark, kind in _IN_ZIP:
        if any(name.startswith(mark) for name in names) or (not names and mark.encode() in data):
            return kind
    return "zip"
