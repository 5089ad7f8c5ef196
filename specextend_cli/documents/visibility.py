"""Which elements of a page are read: not its scripts, controls, navigation and what it hides.

An element that its author never closed holds the rest of the page, in the tree of a forgiving parser. One that holds
most of the text of the page is therefore no navigation and no control, whatever it is called.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from lxml import etree

from specextend_cli.documents.markup import name

_RAW = frozenset(("iframe", "input", "noembed", "noframes", "rp", "rt", "script", "style", "template", "title"))
_CONTROLS = frozenset(
    (
        *("applet", "audio", "button", "canvas", "datalist", "embed", "frameset", "map", "noscript", "object"),
        *("select", "svg", "textarea", "video"),
    )
)
_NAVIGATION = frozenset(("navigation", "search", "menu", "menubar"))
_CONTENT = frozenset(
    ("article", "blockquote", "h1", "h2", "h3", "h4", "h5", "h6", "main", "p", "pre", "section", "table")
)
_HIDDEN = re.compile(r"(?:^|[;\s])(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
_PAGE = ("html", "body")
_MOST = 0.5  # of the letters of the page that are not links
_FEW = 100  # letters; a page with fewer may well be nothing but a notice


class _Held(NamedTuple):
    """What an element holds: letters outside of links and in them, and elements that are content."""

    plain: int
    linked: int
    content: int


class Reading:
    """What to skip on one page, asked for each element in document order."""

    def __init__(self, root: Any) -> None:
        self._held = _count(root)
        self._most = max(_MOST * self._held[root].plain, _FEW)
        self._menu = False  # in a menu that was never closed, until its page begins

    def unread(self, element: Any, tag: str) -> str | None:
        """None when the element is read; else what its text is called among the removed, or "" where it has none."""
        if not tag or tag in _RAW:
            return ""
        if self._menu:
            if tag in _CONTENT:
                self._menu = False
            elif tag in ("a", "ul", "ol", "li") and self._is_links(element):
                return "navigation"
        why = _reason(element, tag)
        if why is None or not self._swallows(element, tag, why):
            return why
        self._menu = why == "navigation"
        return None

    def _is_links(self, element: Any) -> bool:
        held = self._held[element]
        return held.plain <= 0.2 * (held.plain + held.linked)

    def _swallows(self, element: Any, tag: str, why: str) -> bool:
        """Whether it holds most of the page, in paragraphs and headings. What is hidden on purpose may be most of it,
        but the whole page is not: a script shows it when it has loaded.
        """
        held = self._held[element]
        return held.plain > self._most and held.content > 0 and (why != "hidden text" or tag in _PAGE)


def _reason(element: Any, tag: str) -> str | None:
    if tag in _CONTROLS:
        return ""
    if tag == "nav" or element.get("role", "") in _NAVIGATION:
        return "navigation"
    if "hidden" in element.attrib or element.get("aria-hidden") == "true" or _HIDDEN.search(element.get("style", "")):
        return None if _is_formula(element) else "hidden text"
    return None


def _is_formula(element: Any) -> bool:
    """A formula for those who cannot see the picture of it that stands beside it."""
    following = element.getnext()
    return len(element) == 1 and name(element[0]) == "math" and following is not None and name(following) == "img"


def _count(root: Any) -> dict[Any, _Held]:
    """By element. The text of scripts and styles does not count."""
    found: dict[Any, _Held] = {}
    begun: list[_Held] = []
    plain = linked = content = links = raw = 0

    def add(text: str | None) -> None:
        nonlocal plain, linked
        if text and not raw:
            letters = len("".join(text.split()))
            plain, linked = (plain, linked + letters) if links else (plain + letters, linked)

    for event, element in etree.iterwalk(root, events=("start", "end")):
        tag = name(element).lower()
        if event == "start":
            begun.append(_Held(plain, linked, content))
            links += tag == "a"
            raw += tag in _RAW
            content += tag in _CONTENT
            add(element.text)
        else:
            links -= tag == "a"
            raw -= tag in _RAW
            before = begun.pop()
            found[element] = _Held(plain - before.plain, linked - before.linked, content - before.content)
            add(element.tail)
    return found
