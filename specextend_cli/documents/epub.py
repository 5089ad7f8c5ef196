"""EPUB to sections: the files of the spine in reading order, then those that are only linked to (often notes).

Each file begins a section, and so does every heading in it.
"""

from __future__ import annotations

import posixpath
from urllib.parse import unquote, urlsplit

from specextend_cli.documents.archive import Archive, DamagedPartError
from specextend_cli.documents.errors import were
from specextend_cli.documents.html.read import read_xhtml
from specextend_cli.documents.markup import MarkupError, attribute
from specextend_cli.documents.sections import Parsed
from specextend_cli.documents.source import Source
from specextend_cli.errors import InputError

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
    title = " ".join("".join(next(root.iter("{*}title"), root.makeelement("none")).itertext()).split())
    parsed = Parsed("epub")
    folder = posixpath.dirname(package)
    items = {attribute(item, "id"): item for item in root.iter("{*}item")}
    parts, seen = list[str](), set[str]()
    for reference in sorted(root.iter("{*}itemref"), key=lambda one: attribute(one, "linear") == "no"):
        item = items.get(attribute(reference, "idref"))
        if item is not None and attribute(item, "media-type") not in _PAGES:
            parsed.unread += 1
            continue
        href = urlsplit("" if item is None else attribute(item, "href"))
        # An address elsewhere has a name that no part has.
        part = "" if item is None or href.scheme else posixpath.normpath(posixpath.join(folder, unquote(href.path)))
        if part not in seen:
            parts.append(part)
        if part in archive:  # no file is read twice, and every missing file is counted
            seen.add(part)
    if parsed.unread:
        parsed.warnings.append(
            f"{were(parsed.unread, 'picture')} not read that {source.name} has in the place of pages."
        )
    if not (parts or parsed.unread):
        raise archive.damaged("it names no files to be read")
    if _protected(archive) & seen:
        why = "its text is encrypted (DRM)"
        raise InputError(f"{archive.name} is copy-protected", why=why, fix="use a copy without protection")
    for part in parts:
        parsed.start_section()
        try:
            read_xhtml(archive.read(part), parsed)
        except KeyError:
            parsed.fail("a file of the book is missing")
        except (MarkupError, DamagedPartError) as error:
            parsed.fail(f"{part}: {error}")
    parsed.title = title
    return parsed


def _protected(archive: Archive) -> set[str]:
    """The encrypted parts, without fonts, which are often obfuscated in unprotected books."""
    found = set()
    for data in archive.root(_ENCRYPTION).iter("{*}EncryptedData") if _ENCRYPTION in archive else ():
        method = next((attribute(part, "Algorithm") for part in data.iter("{*}EncryptionMethod")), "")
        if method not in _FONTS:
            found |= {unquote(attribute(part, "URI")) for part in data.iter("{*}CipherReference")}
    return found
