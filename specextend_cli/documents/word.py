"""DOCX to sections: paragraphs, headings, lists, tables by row, and notes at the end of the section that cites them.

Tracked changes are read as if accepted; page headers and footers are not read.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby
from typing import Any

from lxml import etree

from specextend_cli.documents.archive import Archive
from specextend_cli.documents.errors import were
from specextend_cli.documents.html.formulas import formula, subscript, superscript
from specextend_cli.documents.markup import MarkupError, attribute, integer, name, xml_root
from specextend_cli.documents.numbering import BULLET, Numbering, value
from specextend_cli.documents.sections import MAX_COLUMNS, REPEATED, Cell, Parsed, Table
from specextend_cli.documents.source import Source

_MAIN = "word/document.xml"
_SKIPPED = frozenset(("Fallback", "del", "instrText", "moveFrom", "pPr", "rPr", "rt", "txbxContent"))
_HEADING = re.compile(r"heading [1-9]|title", re.IGNORECASE)
_OUTLINE_LEVELS = tuple("012345678")
_CONTEXT = 8  # characters before a superscript that determine its meaning
_SCRIPTS = {"superscript": superscript, "subscript": subscript}
_SPACES = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "ptab": "\t"}

_WINGDINGS = {0x6F: "☐", 0xA8: "☐", 0xDF: "←", 0xE0: "→", 0xE1: "↑", 0xE2: "↓", 0xFC: "✓", 0xFD: "☒", 0xFE: "☑"}
_OTHER = "•"
_PRIVATE = re.compile("[\uf020-\uf0ff]")


def parse(source: Source) -> Parsed:
    """The sections of a Word document; InputError when its main part is missing or damaged."""
    archive = Archive(source.path, source.name)
    parsed = Parsed("docx")
    documents = (
        part for part in _optional(archive, "_rels/.rels") if attribute(part, "Type").endswith("/officeDocument")
    )
    main = next((attribute(part, "Target").lstrip("/") for part in documents), _MAIN)
    bodies = [part for part in archive.root(main) if name(part) == "body"]
    if bodies:
        reader = _Reader(parsed, archive, main)
        for body in bodies:
            reader.blocks(body)
        reader.notes()
    objects = [part for body in bodies for part in body.iter("{*}OLEObject", "{*}chart") if not _is_fallback(part)]
    # Charts, and formulas of older programs.
    if unread := [
        part for part in objects if name(part) == "chart" or attribute(part, "ProgID").startswith("Equation")
    ]:
        parsed.unread = len(unread)
        parsed.warnings.append(f"{were(len(unread), 'object')} not read: formulas or charts of {source.name}.")
    parsed.title = " ".join("".join(_optional(archive, "docProps/core.xml").itertext("{*}title")).split())
    return parsed


def _optional(archive: Archive, part: str) -> Any:
    """The root of an optional part; an empty one where it is missing or damaged."""
    with suppress(KeyError, MarkupError):
        return xml_root(archive.read(part))
    return etree.Element("none")


class _Reader:
    """Reads the body, with the styles, the lists and the notes that it refers to."""

    def __init__(self, parsed: Parsed, archive: Archive, main: str) -> None:
        self._parsed = parsed
        folder = posixpath.dirname(main)
        styles = _optional(archive, f"{folder}/styles.xml")
        self._headings = _heading_styles(styles)
        self._scripts = {attribute(style, "styleId"): value(style, "rPr/vertAlign") for style in styles}
        self._numbering = Numbering(_optional(archive, f"{folder}/numbering.xml"), styles)
        self._notes = {
            (kind, attribute(note, "id")): note
            for kind in ("footnote", "endnote")
            for note in _optional(archive, f"{folder}/{kind}s.xml")
        }
        self._due: list[tuple[int, Any]] = []
        self._cited = 0

    def blocks(self, parent: Any) -> None:
        """Read paragraphs and tables in order, through any element around them."""
        for element in parent:
            tag = name(element)
            if tag == "p":
                self._paragraph(element)
            elif tag == "tbl":
                self._table(element)
            elif tag not in _SKIPPED and not tag.endswith("Pr"):
                self.blocks(element)

    def notes(self) -> None:
        """Add the notes that the section refers to at its end."""
        due, self._due = self._due, []
        for number, note in due:
            text = " ".join(self._text(paragraph).strip() for paragraph in note.iter("{*}p"))
            self._parsed.add("row", f"{number} {text}")

    def _paragraph(self, paragraph: Any) -> None:
        style = value(paragraph, "pPr/pStyle")
        label = self._numbering.label(paragraph, style)
        heading = style in self._headings or value(paragraph, "pPr/outlineLvl") in _OUTLINE_LEVELS
        if heading:
            self.notes()
        text = self._text(paragraph)
        if text.strip():
            if heading:
                self._parsed.add("heading", (label or "").replace(BULLET, "") + text)
            elif label is not None:
                self._parsed.add("row", label + text.strip())
            else:
                self._parsed.add("row" if style.lower().startswith("list") else "paragraph", text)
        for box in _boxes(paragraph):
            self.blocks(box)

    def _text(self, element: Any) -> str:
        """The text of the runs of a paragraph, without deleted text and text boxes."""
        made: list[str] = []
        end = ""
        for script, runs in groupby(self._runs(element, ""), key=lambda run: run[1]):
            text = "".join(text for text, _ in runs)
            convert = _SCRIPTS.get(script)
            text = convert(end, text) if convert else text
            made.append(text)
            end = (end + text)[-_CONTEXT:]
        return "".join(made)

    def _runs(self, element: Any, script: str) -> Iterator[tuple[str, str]]:
        """The texts in order, each with "superscript", "subscript" or ""."""
        for child in element:
            tag = name(child)
            if tag == "t":
                yield _with_symbols(element, child.text or ""), script
            elif tag in _SPACES:
                yield "" if attribute(child, "type") == "page" else _SPACES[tag], script
            elif tag == "sym":
                yield _symbol(attribute(child, "font"), attribute(child, "char")), script
            elif tag == "checkBox":
                yield "[x]" if _is_on(child, "checked", _is_on(child, "default")) else "[ ]", script
            elif tag == "ddList":
                choices = [attribute(entry, "val") for entry in child.iterfind("{*}listEntry")]
                at = integer(value(child, "result") or value(child, "default"), 0)
                yield choices[at] if 0 <= at < len(choices) else "", script
            elif tag == "oMath":
                yield formula(child), ""
            elif tag in ("footnoteReference", "endnoteReference"):
                note = self._notes.pop((tag.removesuffix("Reference"), attribute(child, "id")), None)
                if note is not None:
                    self._cited += 1
                    self._due.append((self._cited, note))
            elif tag == "r" and _is_on(child, "rPr/vanish"):
                self._parsed.remove("hidden text", "".join(child.itertext("{*}t")))
            elif tag == "r" and (_is_on(child, "rPr/strike") or _is_on(child, "rPr/dstrike")):
                self._parsed.remove("deleted text", "".join(child.itertext("{*}t")))
            elif tag == "r":
                styled = self._scripts.get(value(child, "rPr/rStyle"), "")
                yield from self._runs(child, value(child, "rPr/vertAlign", styled))
            elif tag not in _SKIPPED:
                yield from self._runs(child, script)

    def _cell_text(self, paragraph: Any) -> str:
        """The text of a paragraph in a cell, with its number, which may be all that it shows."""
        label = self._numbering.label(paragraph, value(paragraph, "pPr/pStyle")) or ""
        return (("" if label == BULLET else label) + self._text(paragraph).strip()).strip()

    def _table(self, table: Any) -> None:
        """One line a row. A table in a cell follows below the row."""
        grid = Table(repeat_columns=False)
        above: dict[int, str] = {}  # text of vertically merged cells by column
        for row in _descend(table, "tr"):
            column = _span(row, "trPr/gridBefore", 0)
            cells, below = [Cell("", column)] * (column > 0), list[Any]()
            for cell in _descend(row, "tc"):
                paragraphs = _descend(cell, "p")
                text = " ".join(text.replace("\n", " ") for text in map(self._cell_text, paragraphs) if text)
                columns, merged = _span(cell, "tcPr/gridSpan", 1), value(cell, "tcPr/vMerge", None)
                if merged in ("", "continue") and not text:  # merged with the cell above
                    text = above.get(column, "")
                elif merged is not None:
                    above[column] = text if len(text) <= REPEATED else ""
                cells.append(Cell(text, columns))
                column += columns
                below += [*_descend(cell, "tbl"), *(box for part in paragraphs for box in _boxes(part))]
            grid.add(cells)
            for part in below:
                self._parsed.add_rows(grid)
                if name(part) == "tbl":
                    self._table(part)
                else:
                    self.blocks(part)
        self._parsed.add_rows(grid)


def _boxes(paragraph: Any) -> list[Any]:
    """The text boxes in a paragraph."""
    return [box for box in paragraph.iter("{*}txbxContent") if not _is_fallback(box)]


def _is_on(element: Any, path: str, default: bool = False) -> bool:
    """True if a property is there and not switched off."""
    return value(element, path, "true" if default else "off") not in ("0", "false", "off")


def _is_fallback(element: Any) -> bool:
    """True if an element is in a text box, which reads it, or stands for one that older programs do not know."""
    return any(name(parent) in ("Fallback", "txbxContent") for parent in element.iterancestors())


def _span(element: Any, path: str, default: int) -> int:
    """A number of grid columns."""
    return min(max(integer(value(element, path), default), 0), MAX_COLUMNS)


def _descend(element: Any, tag: str) -> list[Any]:
    """The nearest elements `tag` below, through content controls and the like, not through tables or cells."""
    found = []
    for child in element:
        kind = name(child)
        if kind == tag:
            found.append(child)
        elif kind in ("sdt", "sdtContent", "ins", "moveTo", "customXml", "smartTag"):
            found += _descend(child, tag)
    return found


def _heading_styles(root: Any) -> set[str]:
    """Ids of the heading styles, by name or by outline level."""
    found = {"Title"} | {f"Heading{level}" for level in range(1, 10)}
    for style in root:
        if _HEADING.fullmatch(value(style, "name")) or value(style, "pPr/outlineLvl") in _OUTLINE_LEVELS:
            found.add(attribute(style, "styleId"))
    return found


def _symbol(font: str, code: str) -> str:
    """The character with a code (hexadecimal) in Symbol or Wingdings, whose codes are those of other letters.

    A bullet where it is not known.
    """
    at = int(code, 16) & 0xFF if re.fullmatch("[0-9A-Fa-f]{1,4}", code) else 0
    if font.lower() == "symbol" and at > ord(" "):
        from pypdf._codecs import charset_encoding

        return charset_encoding["/Symbol"][at]
    return _WINGDINGS.get(at, _OTHER) if font.lower() == "wingdings" else _OTHER


def _with_symbols(run: Any, text: str) -> str:
    """The text of a run, of which a file has the symbols at codes for private use."""
    fonts = run.find("{*}rPr/{*}rFonts")
    font = "" if fonts is None else attribute(fonts, "ascii")
    return _PRIVATE.sub(lambda match: _symbol(font, f"{ord(match[0]):x}"), text)
