"""Which elements of a web page are read: no scripts, controls, navigation, hidden elements or marks beside the text.

Marks are those of notes, anchors of headings, edit links.

In the tree of a lenient parser an element that was never closed contains the rest of the page. An element with most of
the page's paragraphs is therefore read, even if it is a menu or a control by its name.
"""

from __future__ import annotations

import re
from typing import Any

from specextend_cli.documents.markup import attribute, name

_RAW = frozenset(("iframe", "input", "noembed", "noframes", "rp", "rt", "script", "style", "template", "title"))
_CONTROLS = {
    *("applet", "audio", "button", "canvas", "datalist", "embed", "frameset", "map", "noscript", "object"),
    *("select", "svg", "textarea", "video"),
}
_NAVIGATION = frozenset(("navigation", "search", "menu", "menubar"))
_HIDDEN = re.compile(r"(?:^|[;\s])(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
_DELETED = frozenset(("del", "s", "strike"))
_PAGE = ("html", "body")
_MOST = 0.5  # of the paragraphs of a page
_FEW = 2  # paragraphs; no more may be a notice
HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
NOTE_MARK = "note mark"
_MAX_MARK = 12  # characters
_NOTE = re.compile(r"[\[(]?(?:\d{1,3}|[a-z]|[*†‡§]{1,3})[\])]?", re.IGNORECASE)
_AFTER = re.compile(r"[^\W\d_]$|[.,;:!?)\]”’\"'»]$")
_DISPLAY = re.compile(r"(?<![\w-])(?:display|visibility)\s*:\s*([\w-]+)", re.IGNORECASE)
_COMMENT = re.compile(r"/\*.*?(?:\*/|$)", re.DOTALL)
_ALONE = re.compile(r"[.#][\w-]+")


class VisibilityFilter:
    """Decides what to skip on one page; asked for each element in document order."""

    def __init__(self, root: Any) -> None:
        self._paragraphs = _paragraphs(root)
        self._hidden, self._shown = _styled_names(root)

    def skip_reason(self, element: Any, tag: str) -> str | None:
        """None for an element that is read; else the kind of removed text, or "" for none worth recording."""
        if not tag or tag in _RAW:
            return ""
        why = _reason(element, tag)
        if why is None and self._hidden and not _DISPLAY.search(element.get("style", "")):
            names = {f".{part}" for part in element.get("class", "").split()} | {f"#{element.get('id', '')}"}
            why = "hidden text" if names & self._hidden and not names & self._shown else None
        if why == "hidden text":  # a script shows it after loading where it is all of a page
            return None if tag in _PAGE else why
        return None if why is not None and _paragraphs(element) > max(_MOST * self._paragraphs, _FEW) else why


def _paragraphs(element: Any) -> int:
    return sum(1 for _ in element.iter("{*}p"))


def _reason(element: Any, tag: str) -> str | None:
    if tag in _CONTROLS:
        return ""
    if tag == "nav" or element.get("role", "") in _NAVIGATION:
        return "navigation"
    if "hidden" in element.attrib or element.get("aria-hidden") == "true" or _HIDDEN.search(element.get("style", "")):
        # The accessible version of a formula is hidden beside its picture.
        is_formula = list(map(name, element)) == ["math"] and element.getnext() is not None
        return None if is_formula and name(element.getnext()) == "img" else "hidden text"
    return "deleted text" if tag in _DELETED else _mark(element, tag)


def _styled_names(root: Any) -> tuple[set[str], set[str]]:
    """The classes and ids (".a", "#b") that the style sheets in a page hide, and those that they show.

    None where a script may show them: the answers of a list of questions, the pages of tabs.
    """
    sheets = root.iter("{*}style", "style")
    css = "\n".join(part.text or "" for part in sheets if part.get("media", "all").lower() in ("", "all", "screen"))
    if next(root.iter("{*}script", "script"), None) is not None:
        return set(), set()
    hidden, shown, depth = set[str](), set[str](), 0
    for rule in _COMMENT.sub(" ", css).split("}"):
        *around, selectors, body = ["", *rule.split("{")][-3:] if "{" in rule else ("", "", "")
        depth += rule.count("{") - 1
        if not (found := _DISPLAY.findall(body)):
            continue
        if found[-1].lower() not in ("none", "hidden"):
            shown.update(_ALONE.findall(selectors))
        elif depth == 0 and not any(map(str.strip, around)):
            names = (selector.rpartition(";")[2].strip() for selector in selectors.split(","))
            hidden.update(filter(_ALONE.fullmatch, names))
    return hidden - shown, shown


def _mark(element: Any, tag: str) -> str | None:
    """The kind of mark that an element is, else None."""
    if tag == "span" and "mw-editsection" in element.get("class", ""):
        return "link mark"
    if tag == "a" and "#" in attribute(element, "href") and (text := _text(element)):
        return None if any(map(str.isalnum, text)) else NOTE_MARK if _NOTE.fullmatch(text) else "link mark"
    return None


def is_note_reference(element: Any, before: str) -> bool:
    """True if a link is the mark of a note: it touches the word before it, and leads within the text."""
    return "#" in attribute(element, "href") and bool(_NOTE.fullmatch(_text(element)) and _AFTER.search(before))


def _text(element: Any) -> str:
    """The text of an element; "" where it is longer than a mark."""
    text = ""
    for part in element.itertext():
        text += part
        if len(text.strip()) > _MAX_MARK:
            return ""
    return text.strip()
