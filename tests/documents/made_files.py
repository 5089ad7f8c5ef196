"""Word documents, books and messages made on the spot."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from email.message import EmailMessage

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def zipped(parts: Mapping[str, str | bytes], *, deflate: bool = True) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return out.getvalue()


def p(text: str, style: str = "", *, properties: str = "", runs: str = "") -> str:
    """A paragraph of a Word document; `runs` are put after its text as they are."""
    style = f'<w:pStyle w:val="{style}"/>' if style else ""
    return f"<w:p><w:pPr>{style}{properties}</w:pPr><w:r><w:t>{text}</w:t></w:r>{runs}</w:p>"


def item(text: str, number: int, level: int = 0) -> str:
    return p(text, properties=f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{number}"/></w:numPr>')


def level(at: int, text: str, form: str = "decimal", *, more: str = "") -> str:
    start = f'<w:start w:val="1"/><w:numFmt w:val="{form}"/><w:lvlText w:val="{text}"/>'
    return f'<w:lvl w:ilvl="{at}">{start}{more}</w:lvl>'


def table(*rows: tuple[str, ...]) -> str:
    cells = ("".join(f"<w:tc>{cell if cell.startswith('<') else p(cell)}</w:tc>" for cell in row) for row in rows)
    return "<w:tbl>" + "".join(f"<w:tr>{row}</w:tr>" for row in cells) + "</w:tbl>"


def word(tag: str, body: str) -> str:
    return f'<?xml version="1.0" encoding="UTF-8"?><w:{tag} xmlns:w="{W}">{body}</w:{tag}>'


def docx(body: str, **parts: str) -> bytes:
    """A Word document; `parts` are others under word/, by their names without ".xml"."""
    files = {"[Content_Types].xml": "<Types/>", "word/document.xml": word("document", f"<w:body>{body}</w:body>")}
    return zipped(files | {f"word/{name}.xml": data for name, data in parts.items()})


def page(body: str) -> str:
    return f'<html xmlns="http://www.w3.org/1999/xhtml"><head><title>t</title></head><body>{body}</body></html>'


def epub(
    files: Mapping[str, str | bytes],
    *,
    spine: tuple[str, ...] | None = None,
    aside: tuple[str, ...] = (),
    extra: Mapping[str, str] | None = None,
) -> bytes:
    """A book of XHTML `files`, named without folder; `spine` is all of them in order unless given."""
    names = [*files, *(name for name in spine or () if name not in files)]
    manifest = "".join(
        f'<item id="i{n}" href="{name}" media-type="application/xhtml+xml"/>' for n, name in enumerate(names)
    )
    order = [(name, "yes") for name in (spine if spine is not None else files) if name not in aside]
    order += [(name, "no") for name in aside]
    refs = "".join(f'<itemref idref="i{names.index(name)}" linear="{linear}"/>' for name, linear in order)
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata>'
        "<dc:title>A River &amp; its Book</dc:title></metadata>"
        f'<manifest>{manifest}<item id="ncx" href="toc.ncx" media-type="application/x-dtbncx+xml"/></manifest>'
        f"<spine>{refs}</spine></package>"
    )
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="OPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
    )
    parts: dict[str, str | bytes] = {"mimetype": "application/epub+zip", "META-INF/container.xml": container}
    parts["OPS/book.opf"] = package
    return zipped(parts | {f"OPS/{name}": data for name, data in files.items()} | dict(extra or {}))


def message(plain: str | None, html: str | None = None, cte: str | None = None, **attachments: bytes) -> EmailMessage:
    """A message with a subject; `attachments` are named with "_" for ".", and `cte` is how the text is encoded."""
    made = EmailMessage()
    made["From"] = "Ann Río <ann@example.org>"
    made["To"] = "bo@example.org"
    made["Subject"] = "The level of the river – März"
    made["Date"] = "Mon, 02 Mar 2026 10:00:00 +0100"
    made["Message-ID"] = "<1@example.org>"
    if plain is not None:
        made.set_content(plain, cte=cte)
    if html is not None:
        if plain is None:
            made.set_content(html, subtype="html")
        else:
            made.add_alternative(html, subtype="html")
    for name, data in attachments.items():
        made.add_attachment(data, maintype="application", subtype="octet-stream", filename=name.replace("_", "."))
    return made
