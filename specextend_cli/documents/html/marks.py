"""Marks in a page or a book that are no part of its text: marks of notes, anchors of headings, edit links."""

from __future__ import annotations

import re
from typing import Any

from specextend_cli.documents.markup import attribute, name

HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
NOTE_MARK = "note mark"
_MAX_MARK, _MAX_LINKS = 12, 40  # characters
_NOTE = re.compile(r"[\[(]?(?:\d{1,3}|[a-z]|[*†‡§]{1,3})[\])]?", re.IGNORECASE)
_AFTER = re.compile(r"[^\W\d_]$|[.,;:!?)\]”’\"'»]$")
_BRACKETS = re.compile(r"\[[^\[\]]+\]")


def mark_of(element: Any, tag: str) -> str | None:
    """The kind of mark that an element is, else None."""
    if tag == "a":
        if "doc-backlink" in _roles(element):
            return "link mark"
        if "#" in attribute(element, "href") and (text := _text(element)) and not any(map(str.isalnum, text)):
            return NOTE_MARK if _NOTE.fullmatch(text) else "link mark"
    elif tag == "span" and _is_at_heading(element) and _BRACKETS.fullmatch(_text(element, _MAX_LINKS)):
        return "link mark" if next(element.iter("{*}a"), None) is not None else None
    return None


def is_note_reference(element: Any, before: str) -> bool:
    """True if a link is the mark of a note: it says so, or it touches the word before it and leads within the text."""
    text = _text(element)
    if _roles(element) & {"noteref", "doc-noteref"}:
        return 0 < len(text) <= _MAX_MARK
    return "#" in attribute(element, "href") and bool(_NOTE.fullmatch(text) and _AFTER.search(before))


def _roles(element: Any) -> set[str]:
    """What an element is by the vocabularies of books (`epub:type`) and of accessible pages (`role`)."""
    return {*attribute(element, "type").split(), *attribute(element, "role").split()}


def _text(element: Any, most: int = _MAX_MARK) -> str:
    """The text of an element; "" where it is longer than a mark."""
    text = ""
    for part in element.itertext():
        text += part
        if len(text.strip()) > most:
            return ""
    return text.strip()


def _is_at_heading(element: Any) -> bool:
    """True if an element ends a heading, or stands directly behind one."""
    parent, before = element.getparent(), element.getprevious()
    inside = parent is not None and name(parent).lower() in HEADINGS and element.getnext() is None
    return inside or (before is not None and name(before).lower() in HEADINGS)
