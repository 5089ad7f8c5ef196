"""EPUB to sections: the files of the spine in reading order, then those that are only linked to (often notes).

Each file begins a section, and so does every heading in it. A file without a heading gets its title in the table of
contents.
"""

from __future__ import annotations

import posixpath
from typing import Any
from urllib.parse import unquote, urlsplit

from specextend_cli.documents.archive import Archive, DamagedPartError
from specextend_cli.documents.html.read import read_xhtml
from specextend_cli.documents.markup import MarkupError, attribute, name, xml_root
from specextend_cli.documents.sections import Parsed
from specextend_cli.documents.source import Source
from specextend_cli.errors import InputError
from specextend_cli.humanize import format_many

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_FONTS = frozenset(("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"))
_PAGES = ("application/xhtml+xml", "text/html", "application/x-dtbook+xml", "text/x-oeb1-document")


def parse(source: Source) -> Parsed:
    """The sections of a book; InputError when it is damaged or copy-protected. Missing files are failed sections."""
    archive = Archive(source.path, source.name)
    package = next((attribute(file, "full-path") for file in archive.root(_CONTAINER).iter("{*}rootfile")), None)
    if package is None:
        raise archive.damaged(f"{_CONTAINER} names no book")
    root = archive.root(package)
    parsed = Parsed("epub", " ".join("".join(next(root.iter("{*}title"), root.makeelement("none")).itertext()).split()))
    folder = posixpath.dirname(package)
    items = {attribute(item, "id"): item for item in root.iter("{*}item")}
    protected, titles = _protected(archive), _titles(archive, items, folder)
    linear, aside, seen = list[str](), list[str](), set[str]()
    for reference in root.iter("{*}itemref"):
        item = items.get(attribute(reference, "idref"))
        if item is not None and attribute(item, "media-type") not in _PAGES:
            item = items.get(attribute(item, "fallback"), item)  # what is read instead of a picture
        if item is not None and attribute(item, "media-type") not in _PAGES:
            parsed.unread += 1
        else:
            part = "" if item is None else _resolve(folder, attribute(item, "href"))
            if part in seen:
                continue
            if part in archive:  # no file is read twice, and every missing file is counted
                seen.add(part)
            (aside if attribute(reference, "linear") == "no" else linear).append(part)
    if parsed.unread and not (linear or aside):
        why = f"it is made of pictures: {format_many(parsed.unread, 'page')} without a text"
        raise InputError(f"{source.name} holds no text", why=why, fix="print it to PDF, and read that with --ocr")
    if parsed.unread:
        were = "1 picture was" if parsed.unread == 1 else f"{parsed.unread:,} pictures were"
        parsed.warnings.append(f"{were} not read that {source.name} has in the place of pages.")
    if not (linear or aside):
        raise archive.damaged("it names no files to be read")
    if protected & seen:
        why = "its text is encrypted (DRM)"
        raise InputError(f"{archive.name} is copy-protected", why=why, fix="use a copy without protection")
    for part in linear:
        parsed.start_section()
        _read(archive, part, parsed)
        if (section := parsed.sections[-1]).items and not section.title:
            section.title = titles.get(part, "")
    parsed.start_section()
    for part in aside:
        _read(archive, part, parsed)
    return parsed


def _read(archive: Archive, part: str, parsed: Parsed) -> None:
    title = parsed.title
    try:
        read_xhtml(archive.read(part), parsed)
    except KeyError:
        parsed.fail("a file of the book is missing")
    except (MarkupError, DamagedPartError) as error:
        parsed.fail(f"{part}: {error}")
    parsed.title = title


def _resolve(folder: str, href: str) -> str:
    """The name of a part in the archive; an address elsewhere resolves to a name that no part has."""
    address = urlsplit(href)
    return posixpath.normpath(posixpath.join(folder, unquote(address.path))) if not address.scheme else ""


def _protected(archive: Archive) -> set[str]:
    """The encrypted parts, without fonts, which are often obfuscated in unprotected books."""
    found = set()
    for data in archive.root(_ENCRYPTION).iter("{*}EncryptedData") if _ENCRYPTION in archive else ():
        method = next((attribute(part, "Algorithm") for part in data.iter("{*}EncryptionMethod")), "")
        if method not in _FONTS:
            found |= {unquote(attribute(part, "URI")) for part in data.iter("{*}CipherReference")}
    return found


def _titles(archive: Archive, items: dict[str, Any], folder: str) -> dict[str, str]:
    """The title of each file in the table of contents (the NCX, or the navigation of EPUB 3)."""
    found: dict[str, str] = {}
    for item in items.values():
        part = _resolve(folder, attribute(item, "href"))
        ncx = attribute(item, "media-type") == "application/x-dtbncx+xml"
        if part not in archive or not (ncx or "nav" in attribute(item, "properties").split()):
            continue
        try:
            root = xml_root(archive.read(part))
        except MarkupError:
            continue
        for entry in root.iter("{*}navPoint" if ncx else "{*}a"):
            label = next(entry.iter("{*}navLabel"), entry) if ncx else entry
            target = next((attribute(child, "src") for child in entry if name(child) == "content"), "") if ncx else ""
            whole = _resolve(posixpath.dirname(part), target or attribute(entry, "href"))
            found.setdefault(whole, " ".join("".join(label.itertext()).split()))
    return found
