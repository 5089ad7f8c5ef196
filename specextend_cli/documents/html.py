"""HTML to sections: what a reader of the page would read, in order.

Scripts, styles, forms and what the page hides go unread; navigation and hidden text are noted as removed.
"""

from __future__ import annotations

import re
from itertools import chain, islice
from pathlib import Path
from typing import Any

from lxml import etree

from specextend_cli.documents.article import article_of
from specextend_cli.documents.decode import decode
from specextend_cli.documents.formulas import mathml
from specextend_cli.documents.labels import codec
from specextend_cli.documents.markup import MarkupError, attribute, html_root, name, xml_root
from specextend_cli.documents.notation import lowered, raised
from specextend_cli.documents.sections import Kind, Parsed
from specextend_cli.documents.tables import Cell, Table
from specextend_cli.documents.visibility import Reading
from specextend_cli.errors import InputError

_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_ROWS = frozenset(("dd", "dt", "li"))
_BLOCKS = frozenset(
    (
        *("address", "article", "aside", "blockquote", "body", "caption", "center", "details", "dialog", "div", "dl"),
        *("fieldset", "figcaption", "figure", "footer", "form", "header", "hr", "legend", "main", "ol", "p", "pre"),
        *("section", "summary", "table", "tbody", "tfoot", "thead", "tr", "ul"),
    )
)
_INLINE = frozenset(("span", "sub", "sup"))
_BREAKS_ROW = frozenset(("table", "ul", "ol", "dl", "pre", "blockquote")) | _HEADINGS
_CHARSET = re.compile(
    rb"<(?:meta\b[^>]{0,512}?charset|\?xml\b[^>]{0,256}?encoding)\s*=\s*[\"']?\s*([\w.:-]{2,40})", re.I
)
_XML_DECLARATION = re.compile(r"\A\s*<\?xml[^>]*\?>")
_SMALL_TYPE = re.compile(r"vertical-align\s*:\s*(super|sub)\b", re.IGNORECASE)
_SMALL_CLASS = re.compile(r"(?:^|\s)(sup|sub)(?:er|erscript|script)?(?:\s|$)", re.IGNORECASE)
_LONGEST_MARK = 12  # characters of a mark that leads to a note
_NEAR = 8  # elements in it
_LONG_CELL = 300  # a cell with more text is layout, and its paragraphs are paragraphs


def parse(path: Path, shown: str, *, whole: bool) -> Parsed:
    """The sections of an HTML file, `whole` or of its article alone; InputError when its nesting is beyond reading."""
    parsed = Parsed("html")
    data = path.read_bytes()
    text, warnings = decode(shown, data, declared(data))
    parsed.warnings += warnings
    try:
        read_html(text, parsed)
    except MarkupError as error:
        raise InputError(
            f"{shown} is an HTML page that cannot be read", why=str(error), fix="print it to PDF"
        ) from None
    return parsed if whole else article_of(parsed, text, shown)


def declared(data: bytes) -> str | None:
    """The codec of the encoding that a page names in its head, where it is one that exists."""
    match = _CHARSET.search(data[:4096])
    return None if match is None else codec(match[1].decode("ascii", "replace"))


def read_html(text: str, parsed: Parsed) -> None:
    """Add what an HTML text says; the title of the page becomes the document's where there is none yet."""
    _read(html_root(text), parsed)


def read_xhtml(data: bytes, parsed: Parsed) -> None:
    """The same for a file of a book, which should be XML and is read as HTML where it is not."""
    text = decode("", data, declared(data))[0]
    try:
        # libxml2 knows the encodings of the web by their letter, not by what is written under their names.
        root = xml_root(_XML_DECLARATION.sub("", text, count=1).encode("utf-8", "replace"))
    except MarkupError as error:
        if "entities" in str(error):
            raise
        root = html_root(text)
    _read(root, parsed)


def _read(root: Any | None, parsed: Parsed) -> None:
    if root is None:
        return
    titles = ("".join(head.itertext()) for head in root.iterfind(".//{*}head/{*}title"))
    parsed.title = parsed.title or " ".join(next(titles, "").split())
    writer = _Writer(parsed)
    reading = Reading(root)
    walk = etree.iterwalk(root, events=("start", "end"))
    skipped: Any = None
    for event, element in walk:
        tag = name(element).lower()
        if event == "start":
            why = reading.unread(element, tag)
            if why is None and tag == "math":
                writer.data(mathml(element))
            elif why is None:
                writer.start(tag, element)
                writer.data(element.text)
                continue
            if why:
                parsed.remove(why, " ".join(element.itertext()))
            walk.skip_subtree()
            skipped = element
        else:
            if element is skipped:
                skipped = None
            else:
                writer.end(tag, element)
            if element is not root:
                writer.data(element.tail)
    writer.close()


class _Writer:
    """Elements as they open and close, to items. Text gathers until something breaks it."""

    def __init__(self, parsed: Parsed) -> None:
        self._parsed = parsed
        self._text: list[str] = []
        self._heading = 0  # how many open headings
        self._pre = 0
        self._items: list[bool] = []  # for each open list item and its kin
        self._lists: list[int | None] = []  # the next number of each open list, None where it has bullets
        self._marker = ""
        self._table = Table()
        self._cells: list[Cell] | None = None
        self._open = False  # whether a cell is
        self._span = (1, 1)  # its columns and rows
        self._small: list[tuple[int, str] | None] = []  # where open sub- and superscripts begin, and which they are

    def start(self, tag: str, element: Any) -> None:
        if tag in _BREAKS_ROW and self._cells is not None:
            self._end_row()
        if tag in ("td", "th"):
            self._end_cell()
            self._open = self._cells is not None
            self._span = _number(attribute(element, "colspan"), 1), _number(attribute(element, "rowspan"), 1)
        elif tag == "tr":
            self._flush()
            self._cells = []
        elif tag in _HEADINGS:
            self._flush()
            self._heading += 1
        elif tag in _ROWS:
            self._flush()
            self._items.append(True)
            self._marker = self._next_marker(element) if tag == "li" else ""
        elif tag in _BLOCKS:
            self._break()
            if tag in ("ol", "ul"):
                self._lists.append(_number(attribute(element, "start"), 1) if tag == "ol" else None)
            self._pre += tag == "pre"
            if tag == "table":
                self._end_table()
        elif tag == "br":
            self._text.append("\n")
        elif tag in _INLINE:
            kind = _small(tag, element)
            self._small.append((len(self._text), kind) if kind else None)

    def end(self, tag: str, element: Any) -> None:
        if tag in ("td", "th"):
            self._end_cell()
        elif tag in ("tr", "table"):
            self._end_row()
            if tag == "table":
                self._end_table()
        elif tag in _HEADINGS:
            self._flush()
            self._heading = max(self._heading - 1, 0)
        elif tag in _ROWS:
            self._flush()
            self._marker = ""
            self._items[-1:] = []
        elif tag in _BLOCKS:
            self._break()
            if tag in ("ol", "ul"):
                self._lists[-1:] = []
            self._pre -= tag == "pre" and self._pre > 0
        elif tag in _INLINE and self._small and (small := self._small.pop()):
            self._set_small(*small, element)

    def data(self, text: str | None) -> None:
        if text:
            self._text.append(text if self._pre else re.sub(r"\s+", " ", text))

    def close(self) -> None:
        self._end_row()
        self._end_table()
        self._flush()

    def _next_marker(self, element: Any) -> str:
        if not self._lists or self._lists[-1] is None:
            return "- "
        number = _number(attribute(element, "value"), self._lists[-1])
        self._lists[-1] = number + 1
        return f"{number}. "

    def _set_small(self, start: int, kind: str, element: Any) -> None:
        """A sub- or superscript as characters that keep it apart from what is before it; marks of notes go."""
        start = min(start, len(self._text))
        text, before = "".join(self._text[start:]), "".join(self._text[max(start - 4, 0) : start])
        if kind == "sub":
            made = lowered(before, text)
        elif before.strip() and 0 < len(text.strip()) <= _LONGEST_MARK and _refers(element):
            self._parsed.remove("note mark", text)
            made = ""
        else:
            made = raised(before, text)
        self._text[start:] = [made]

    def _break(self) -> None:
        """The end of a block: of a paragraph, or of a line in a cell."""
        if self._cells is None:
            self._flush()
        elif sum(map(len, self._text)) > _LONG_CELL:
            self._end_row()
        else:
            self._text.append(" ")

    def _end_cell(self) -> None:
        text = " ".join("".join(self._text).split())
        if self._cells is None:
            self._flush()
        else:
            self._forget()
            if text or self._open:
                self._cells.append(Cell(text, *self._span))
            self._open, self._span = False, (1, 1)

    def _end_row(self) -> None:
        """The cells so far are a row; what follows in it, if anything does, is text like any other."""
        if self._cells is not None:
            self._end_cell()
            cells, self._cells = self._cells, None
            filled = [cell for cell in cells if cell.text]
            if len(filled) == 1 and len(filled[0].text) > _LONG_CELL:
                self._end_rows()
                self._parsed.add("paragraph", filled[0].text)
            else:
                self._table.add(cells)
        self._flush()

    def _end_rows(self) -> None:
        """The rows so far. Cells are told apart by a tab, which cleaning turns into two spaces."""
        for line in self._table.lines():
            self._parsed.add("row", line)

    def _end_table(self) -> None:
        self._end_rows()
        self._table = Table()

    def _forget(self) -> None:
        self._text.clear()
        self._small = [None] * len(self._small)

    def _flush(self) -> None:
        text = "".join(self._text)
        self._forget()
        if self._cells is not None and not self._heading:
            if text.strip():
                self._cells.append(Cell(" ".join(text.split())))
            return
        if text.strip():
            self._end_rows()
        for part in re.split(r"\n[ \t]*\n\s*", text) if not self._pre else [text]:
            if part.strip():
                kind: Kind = "heading" if self._heading else "row" if self._items else "paragraph"
                self._parsed.add(kind, self._marker + part.strip())
                self._marker = ""


def _small(tag: str, element: Any) -> str:
    """ "sup" or "sub" where an element is set so, by its name, its style or its class; else ""."""
    if tag != "span":
        return tag
    if found := _SMALL_TYPE.search(element.get("style", "")) or _SMALL_CLASS.search(element.get("class", "")):
        return "sup" if found[1].lower() in ("sup", "super") else "sub"
    return ""


def _refers(element: Any) -> bool:
    """Whether a superscript is a link to another place of the text, as the mark of a note is."""
    around = chain(islice(element.iter(), _NEAR), islice(element.iterancestors(), 2))
    return any(name(near).lower() == "a" and "#" in attribute(near, "href") for near in around)


def _number(text: str, otherwise: int) -> int:
    return int(text) if re.fullmatch(r"-?\d{1,9}", text.strip()) else otherwise
