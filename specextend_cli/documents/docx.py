"""DOCX to sections: paragraphs, headings, lists, tables row by row, notes after the section that refers to them.

Of tracked changes the text as it would be after accepting them is read; headers and footers of pages are not.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from specextend_cli.documents.archive import Archive
from specextend_cli.documents.formulas import omml
from specextend_cli.documents.markup import MarkupError, attribute, name, xml_root
from specextend_cli.documents.notation import lowered, raised
from specextend_cli.documents.sections import Parsed
from specextend_cli.documents.tables import MOST_COLUMNS, REPEATED, Cell, Table
from specextend_cli.errors import InputError

_MAIN = "word/document.xml"
_SKIPPED = frozenset(("Fallback", "del", "instrText", "moveFrom", "pPr", "rPr", "txbxContent"))
_HEADING = re.compile(r"(?:heading|überschrift|titre|título|titolo|kop|rubrik)\s*([1-9])|(title)", re.IGNORECASE)
_GENERATIONS = 12  # a style that is based on more others is no heading
_CONTEXT = 8  # characters before a superscript that tell what it is
_SPACES = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "ptab": "\t"}


def parse(archive: Archive) -> Parsed:
    """The sections of a Word document; InputError when its main part is missing or damaged."""
    main = _main_part(archive)
    parsed = Parsed("docx")
    try:
        body = next((part for part in xml_root(archive.read(main)) if name(part) == "body"), None)
    except KeyError:
        raise _damaged(archive, f"{main} is missing in it") from None
    except MarkupError as error:
        raise _damaged(archive, f"{main}: {error}") from None
    folder = posixpath.dirname(main)
    if body is not None:
        reader = _Reader(parsed, archive, folder)
        reader.blocks(body)
        reader.notes()
    parsed.title = _title(archive)
    return parsed


def _damaged(archive: Archive, why: str) -> InputError:
    return InputError(f"{archive.name} is a Word document (DOCX) and damaged", why=why, fix="open it and save it again")


def _main_part(archive: Archive) -> str:
    root = _optional(archive, "_rels/.rels")
    for relation in () if root is None else root:
        if attribute(relation, "Type").endswith("/officeDocument"):
            return attribute(relation, "Target").lstrip("/")
    return _MAIN


def _optional(archive: Archive, part: str) -> Any | None:
    """The root of a part that a document can do without."""
    try:
        return xml_root(archive.read(part)) if part in archive else None
    except MarkupError:
        return None


def _title(archive: Archive) -> str:
    root = _optional(archive, "docProps/core.xml")
    return "" if root is None else " ".join("".join(root.itertext("{*}title")).split())


class _Reader:
    """Walks the body; keeps the styles that are headings, and the notes until their section ends."""

    def __init__(self, parsed: Parsed, archive: Archive, folder: str) -> None:
        self._parsed = parsed
        styles = _optional(archive, f"{folder}/styles.xml")
        self._headings = _heading_styles(styles)
        self._sizes = _sizes(styles)
        self._lists = {attribute(style, "styleId"): _properties(style)[2] for style in _children(styles)}
        self._numbers = _numbering(_optional(archive, f"{folder}/numbering.xml"))
        self._counts: dict[tuple[str, str], int] = {}
        self._notes = {
            (kind, attribute(note, "id")): note
            for kind in ("footnote", "endnote")
            for note in _children(_optional(archive, f"{folder}/{kind}s.xml"))
        }
        self._due: list[tuple[int, Any]] = []
        self._cited = 0

    def blocks(self, parent: Any) -> None:
        """Paragraphs and tables in order, through whatever is wrapped around them."""
        for element in parent:
            tag = name(element)
            if tag == "p":
                self._paragraph(element)
            elif tag == "tbl":
                self._table(element)
            elif tag not in _SKIPPED and not tag.endswith("Pr"):
                self.blocks(element)

    def notes(self) -> None:
        """The notes that the section refers to, at its end, as a page has them at its foot."""
        due, self._due = self._due, []
        for number, note in due:
            text = " ".join(self._text(paragraph).strip() for paragraph in note.iter("{*}p"))
            self._parsed.add("row", f"{number} {text}")

    def _paragraph(self, paragraph: Any) -> None:
        style, outlined, number = _properties(paragraph)
        number = number or self._lists.get(style)
        heading = outlined or style in self._headings
        if heading:
            self.notes()
        text = self._text(paragraph)
        if text.strip():
            if heading:
                self._parsed.add("heading", text)
            elif number is not None and number[0] != "0":
                self._parsed.add("row", self._marker(number) + text.strip())
            else:
                self._parsed.add("row" if style.lower().startswith("list") else "paragraph", text)
        for box in paragraph.iter("{*}txbxContent"):
            if not any(name(parent) in ("Fallback", "txbxContent") for parent in box.iterancestors()):
                self.blocks(box)

    def _text(self, element: Any) -> str:
        """The text of a paragraph's runs, without what was deleted and without the boxes that hang on it."""
        made: list[str] = []
        end = ""
        for small, runs in groupby(self._runs(element, ""), key=lambda run: run[1]):
            text = "".join(text for text, _ in runs)
            text = raised(end, text) if small == "superscript" else lowered(end, text) if small else text
            made.append(text)
            end = (end + text)[-_CONTEXT:]
        return "".join(made)

    def _runs(self, element: Any, small: str) -> Iterator[tuple[str, str]]:
        """Texts in order, and whether each is a "superscript", a "subscript" or neither ("")."""
        for child in element:
            tag = name(child)
            if tag == "t":
                yield child.text or "", small
            elif tag in _SPACES:
                yield "" if attribute(child, "type") == "page" else _SPACES[tag], small
            elif tag == "sym":
                yield "•", small
            elif tag == "oMath":
                yield omml(child), ""
            elif tag in ("footnoteReference", "endnoteReference"):
                self._refer(tag.removesuffix("Reference"), attribute(child, "id"))
            elif tag == "r":
                yield from self._runs(child, self._size(child))
            elif tag not in _SKIPPED:
                yield from self._runs(child, small)

    def _size(self, run: Any) -> str:
        """ "superscript", "subscript" or "", by the run itself or by its style."""
        found = ""
        for part in next((child for child in run if name(child) == "rPr"), ()):
            if name(part) == "vertAlign":
                return _small(attribute(part, "val"))
            if name(part) == "rStyle":
                found = self._sizes.get(attribute(part, "val"), "")
        return found

    def _refer(self, kind: str, identity: str) -> None:
        note = self._notes.pop((kind, identity), None)
        if note is not None:
            self._cited += 1
            self._due.append((self._cited, note))

    def _table(self, table: Any) -> None:
        """One row a line. What a cell holds beside text (a table in a table) follows below its row."""
        grid = Table()
        above: dict[int, str] = {}  # what is merged with the cells below it, by column
        for row in _descend(table, "tr"):
            before = _span(row, "trPr", "gridBefore", 0)
            cells, inner = [Cell("", before)] if before else [], []
            column = before
            for cell in _descend(row, "tc"):
                paragraphs = (self._text(paragraph).strip() for paragraph in _descend(cell, "p"))
                text = " ".join(text.replace("\n", " ") for text in paragraphs if text)
                columns, merged = _span(cell, "tcPr", "gridSpan", 1), _merged(cell)
                if merged == "continue" and not text:
                    text = above.get(column, "")
                elif merged:
                    above[column] = text if len(text) <= REPEATED else ""
                cells.append(Cell(text, columns))
                column += columns
                inner += list(_descend(cell, "tbl"))
            grid.add(cells)
            if inner:
                self._rows(grid)
            for nested in inner:
                self._table(nested)
        self._rows(grid)

    def _rows(self, grid: Table) -> None:
        for line in grid.lines():
            self._parsed.add("row", line)

    def _marker(self, number: tuple[str, str]) -> str:
        """ "- " or "3. ": the list's own bullet or number, without the letters and roman numerals it may be set in."""
        if self._numbers.get(number, "bullet") in ("bullet", "none"):
            return "- "
        self._counts[number] = self._counts.get(number, 0) + 1
        for key in [key for key in self._counts if key[0] == number[0] and key[1] > number[1]]:
            del self._counts[key]  # the items below begin anew
        return f"{self._counts[number]}. "


def _small(value: str) -> str:
    return value if value in ("superscript", "subscript") else ""


def _sizes(styles: Any | None) -> dict[str, str]:
    """The styles whose text is raised or lowered, by their ids."""
    found = {}
    for style in _children(styles):
        for part in style.iter("{*}vertAlign"):
            if small := _small(attribute(part, "val")):
                found[attribute(style, "styleId")] = small
    return found


def _property(element: Any, properties: str, key: str) -> Any | None:
    """A property of a row or a cell."""
    for child in element:
        if name(child) == properties:
            return next((part for part in child if name(part) == key), None)
    return None


def _span(element: Any, properties: str, key: str, otherwise: int) -> int:
    """A number of columns of the grid."""
    part = _property(element, properties, key)
    value = "" if part is None else attribute(part, "val")
    return min(int(value), MOST_COLUMNS) if re.fullmatch(r"\d{1,6}", value) else otherwise


def _merged(cell: Any) -> str:
    """ "restart" for the first of the cells that are one over several rows, "continue" for the others, else ""."""
    part = _property(cell, "tcPr", "vMerge")
    return "" if part is None else attribute(part, "val") or "continue"


def _children(root: Any | None) -> list[Any]:
    return [] if root is None else list(root)


def _descend(element: Any, tag: str) -> list[Any]:
    """The nearest elements named `tag` below: through content controls and the like, not through tables or cells."""
    found = []
    for child in element:
        kind = name(child)
        if kind == tag:
            found.append(child)
        elif kind in ("sdt", "sdtContent", "ins", "moveTo", "customXml", "smartTag"):
            found += _descend(child, tag)
    return found


def _properties(paragraph: Any) -> tuple[str, bool, tuple[str, str] | None]:
    """A paragraph's (or a style's) style, whether it is outlined as a heading itself, and its list and level in it."""
    style, outlined, number = "", False, None
    for element in next((child for child in paragraph if name(child) == "pPr"), ()):
        tag = name(element)
        if tag == "pStyle":
            style = attribute(element, "val")
        elif tag == "outlineLvl":
            outlined = attribute(element, "val") in tuple("012345678")
        elif tag == "numPr":
            values = {name(part): attribute(part, "val") for part in element}
            number = (values.get("numId", "0"), values.get("ilvl", "0"))
    return style, outlined, number


def _heading_styles(root: Any | None) -> frozenset[str]:
    """Ids of the styles that are headings: by name, by outline level, or by the style they are based on."""
    found, based = {"Title"} | {f"Heading{level}" for level in range(1, 10)}, {}
    for style in _children(root):
        identity = attribute(style, "styleId")
        for part in style.iter():
            tag, value = name(part), attribute(part, "val")
            if (tag == "name" and _HEADING.fullmatch(value)) or (tag == "outlineLvl" and value in tuple("012345678")):
                found.add(identity)
            elif tag == "basedOn":
                based[identity] = value
    for identity in based:
        at = identity
        for _ in range(_GENERATIONS):
            if at in found or at not in based:
                break
            at = based[at]
        if at in found:
            found.add(identity)
    return frozenset(found)


def _numbering(root: Any | None) -> dict[tuple[str, str], str]:
    """The format ("bullet", "decimal", ...) of each list and level."""
    formats: dict[str, dict[str, str]] = {}
    found: dict[tuple[str, str], str] = {}
    for element in _children(root):
        if name(element) == "abstractNum":
            levels = formats.setdefault(attribute(element, "abstractNumId"), {})
            for level in element.iter("{*}lvl"):
                levels[attribute(level, "ilvl")] = next(
                    (attribute(part, "val") for part in level if name(part) == "numFmt"), "bullet"
                )
        elif name(element) == "num":
            abstract = next((attribute(part, "val") for part in element if name(part) == "abstractNumId"), "")
            for level, kind in formats.get(abstract, {}).items():
                found[attribute(element, "numId"), level] = kind
    return found
