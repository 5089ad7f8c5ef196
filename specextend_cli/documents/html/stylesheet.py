"""What the style sheets in a page hide: classes and ids whose only rule for their display is `display: none`.

A page whose scripts may show them is read as if they were shown: the answers of a list of questions, the pages of tabs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from specextend_cli.documents.markup import name

_COMMENT = re.compile(r"/\*.*?(?:\*/|$)", re.DOTALL)
_MARK = re.compile(r"[{};]")
_DISPLAY = re.compile(r"(?<![\w-])(?:display|visibility)\s*:\s*([\w-]+)", re.IGNORECASE)
_HIDES = frozenset(("none", "hidden"))
_ALONE = re.compile(r"[.#][\w-]+")
_DATA = ("application/json", "application/ld+json", "text/template")
_LONGEST = 1 << 20  # characters of all style sheets


class Stylesheet:
    """The rules of the <style> elements of a page; none where a script of the page may change what they hide."""

    def __init__(self, root: Any) -> None:
        texts, scripted = list[str](), False
        for element in root.iter("*"):
            tag = name(element).lower()
            if tag == "style" and element.get("media", "all").lower() in ("", "all", "screen"):
                texts.append(element.text or "")
            scripted = scripted or (tag == "script" and element.get("type", "") not in _DATA)
        css = "" if scripted or sum(map(len, texts)) > _LONGEST else _COMMENT.sub(" ", "\n".join(texts))
        shown, hidden = set[str](), set[str]()
        for selector, display, nested in _displays(css):
            if display not in _HIDES:
                shown.update(_ALONE.findall(selector))
            elif not nested:
                hidden.update(filter(_ALONE.fullmatch, map(str.strip, selector.split(","))))
        self._shown, self._hidden = shown, hidden - shown

    def hides(self, element: Any) -> bool:
        """True if an element is hidden, and neither its style nor a rule for another of its classes shows it."""
        if not self._hidden:
            return False
        names = {f".{part}" for part in element.get("class", "").split()} | {f"#{element.get('id', '')}"}
        return bool(names & self._hidden) and not (names & self._shown or _DISPLAY.search(element.get("style", "")))


def _displays(css: str) -> Iterator[tuple[str, str, bool]]:
    """Of each rule that has a display or a visibility the selectors, the last of its values, and whether another rule
    (as @media) contains it.
    """
    begin, selectors = 0, list[str]()
    for mark in _MARK.finditer(css):
        if mark[0] == "{":
            selectors.append(css[begin : mark.start()].strip())
        elif mark[0] == "}" and selectors:
            selector = selectors.pop()
            if found := _DISPLAY.findall(css, begin, mark.start()):
                yield selector, found[-1].lower(), bool(selectors)
        elif selectors:
            continue  # between the declarations of a rule
        begin = mark.end()
