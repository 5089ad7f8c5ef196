"""The numbers of headings and list items in a Word document, as Word shows them: "1.2", "(a)", "IV.", "-".

A number is not written in the text: it follows from the numbered paragraphs before it, the levels of their list
(`numbering.xml`), and the styles that belong to a list.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any, NamedTuple

from specextend_cli.documents.markup import attribute, integer, name

BULLET = "- "
FORMS = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}
"""The forms of numbers by their first one."""
_LEVELS = 9
_GENERATIONS = 12  # styles; a longer chain is not followed
_LEGAL = ("none", "decimalZero")  # forms that levels in figures alone ("Section 1.01") keep
_PLACE = re.compile(r"%([1-9])")
_MAX_ROMAN, _MAX_LETTERS = 3_999, 780  # higher numbers are written in figures


class _Level(NamedTuple):
    """One level of a list."""

    form: str = "decimal"
    text: str | None = None
    start: int = 1
    legal: bool = False


class Numbering:
    """Counts through a document: ask once for each paragraph, in order."""

    def __init__(self, numbering: Any, styles: Any) -> None:
        self._styles = {attribute(style, "styleId"): style for style in styles if name(style) == "style"}
        self._numbers = {attribute(part, "numId"): part for part in numbering if name(part) == "num"}
        self._abstract = {attribute(part, "abstractNumId"): part for part in numbering if name(part) == "abstractNum"}
        self._levels = {
            key: {_index(level): _read_level(level) for level in part if name(level) == "lvl"}
            for key, part in self._abstract.items()
        }
        self._counts = defaultdict[str, dict[int, int]](dict)
        self._begun = set[tuple[str, int]]()

    def label(self, paragraph: Any, style: str) -> str | None:
        """What stands before a paragraph, with the space behind it; None for one that is in no list."""
        number, level = self._place(paragraph, style)
        if number in ("", "0"):
            return None
        key = self._key(number)
        return BULLET if key not in self._levels else self._next(number, key, _bounded(level))

    def _place(self, paragraph: Any, style: str) -> tuple[str, str]:
        """The number and the level that a paragraph has by itself or by its styles; "" where there is none."""
        number, level = _numbered(paragraph)
        for _ in range(_GENERATIONS):
            if (number and level) or (element := self._styles.get(style)) is None:
                break
            by_style = _numbered(element)
            number, level = number or by_style[0], level or by_style[1]
            style = value(element, "basedOn")
        return number, level

    def _key(self, number: str) -> str:
        """The name of the list of a number; a list may stand for that of a style."""
        key = value(self._numbers[number], "abstractNumId") if number in self._numbers else ""
        link = value(self._abstract[key], "numStyleLink") if key in self._abstract else ""
        linked = self._numbers.get(_numbered(self._styles[link])[0]) if link in self._styles else None
        return key if linked is None else value(linked, "abstractNumId")

    def _next(self, number: str, key: str, at: int) -> str:
        """Count one paragraph, and the label that it gets."""
        levels, counts = self._levels[key], self._counts[key]
        level = levels.get(at, _Level("bullet"))
        starts = [value(part, "startOverride") for part in self._numbers[number] if _index(part) == at]
        if any(starts) and (number, at) not in self._begun:
            counts[at] = integer(next(filter(None, starts)), 1)
        else:
            counts[at] = counts[at] + 1 if at in counts else level.start
        self._begun.add((number, at))
        for lower in [lower for lower in counts if lower > at]:
            del counts[lower]
        if level.form == "bullet":
            return BULLET
        text = f"%{at + 1}." if level.text is None else level.text

        def shown(place: re.Match[str]) -> str:
            above = levels.get(int(place[1]) - 1, _Level())
            count = counts.get(int(place[1]) - 1, above.start)
            return figure(count, "decimal" if level.legal and above.form not in _LEGAL else above.form)

        label = _PLACE.sub(shown, text).strip()
        return f"{label} " if label else ""


def value(element: Any, path: str, default: Any = "") -> Any:
    """The value of the descendant at a path, as "pPr/pStyle"; the default where there is none."""
    found = element.find("/".join("{*}" + part for part in path.split("/")))
    return default if found is None else attribute(found, "val")


def _numbered(element: Any) -> tuple[str, str]:
    """The number and the level in the properties of a paragraph or a style, each "" where it is not given."""
    return value(element, "pPr/numPr/numId"), value(element, "pPr/numPr/ilvl")


def _index(element: Any) -> int:
    return _bounded(attribute(element, "ilvl"))


def _bounded(level: str) -> int:
    return min(max(integer(level, 0), 0), _LEVELS - 1)


def _read_level(element: Any) -> _Level:
    return _Level(
        form=value(element, "numFmt") or "decimal",
        text=value(element, "lvlText", None),
        start=integer(value(element, "start"), 1),
        legal=element.find("{*}isLgl") is not None and value(element, "isLgl") not in ("0", "false"),
    )


def figure(number: int, form: str) -> str:
    """A number as a list shows it. Forms of other scripts are written in figures."""
    if form == "none":
        return ""
    if form in ("lowerLetter", "upperLetter") and 0 < number <= _MAX_LETTERS:
        label = chr(ord("A") + (number - 1) % 26) * ((number - 1) // 26 + 1)
    elif form in ("lowerRoman", "upperRoman") and 0 < number <= _MAX_ROMAN:
        from pypdf._page_labels import number2uppercase_roman_numeral

        label = number2uppercase_roman_numeral(number)
    else:
        return f"{number:02}" if form == "decimalZero" else f"{number}"
    return label.lower() if form.startswith("lower") else label
