"""Parse untrusted XML and HTML with lxml: no DTD, no entities, no network, no huge trees."""

from __future__ import annotations

import html
import re
from typing import Any

from lxml import etree

_ENTITY = re.compile(rb"&([A-Za-z][A-Za-z0-9]{1,31});")
_OWN = (b"amp", b"lt", b"gt", b"quot", b"apos")


class MarkupError(Exception):
    """Text that cannot be parsed as markup; the message says why."""


def xml_root(data: bytes) -> Any:
    """The root of a tree; MarkupError when it is not well-formed, nested too deeply, or declares entities.

    Named characters of HTML are allowed, as books use them without declaring them.
    """
    if b"<!entity" in data.replace(b"\0", b"").lower():
        raise MarkupError("it declares entities of its own, which are never expanded")
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, remove_comments=True, remove_pis=True
    )
    try:
        return etree.fromstring(_ENTITY.sub(_character, data), parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise MarkupError(_reason(str(error))) from None


def html_root(text: str) -> Any:
    """The root of the tree of a lenient parser; an empty one where `text` has no elements.

    MarkupError when it is nested so deeply (2,048 elements) that the parser would leave out the rest.
    """
    parser = etree.HTMLParser(encoding="utf-8", no_network=True, huge_tree=True, remove_comments=True, remove_pis=True)
    try:
        root = etree.fromstring(text.replace("\0", "").encode("utf-8", "replace"), parser)
    except (etree.XMLSyntaxError, ValueError):
        root = None
    for error in parser.error_log.filter_from_fatals():
        if error.type_name == "ERR_RESOURCE_LIMIT":
            raise MarkupError(_reason(error.message))
    return etree.Element("html") if root is None else root


def name(element: Any) -> str:
    """The element's name without its namespace."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def attribute(element: Any, key: str) -> str:
    """An attribute by its name without its namespace, or ""."""
    return next((str(value) for found, value in element.items() if found.rpartition("}")[2] == key), "")


def integer(text: str, default: int) -> int:
    """The number that an attribute is, of nine digits at most; the default for other texts."""
    return int(text) if re.fullmatch(r"-?\d{1,9}", text.strip()) else default


def _reason(message: str) -> str:
    return "it is nested too deeply" if "depth" in message else message.split(", line")[0]


def _character(match: re.Match[bytes]) -> bytes:
    """References for XML by number; of a name that HTML does not have, the letters."""
    if match[1] in _OWN:
        return match[0]
    return "".join(f"&#{ord(character)};" for character in html.unescape(match[0].decode("ascii"))).encode("ascii")
