"""HTML to sections: the visible text of a page in order.

Scripts, styles and forms are skipped; navigation and hidden text are recorded as removed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import chain, islice
from typing import Any

from lxml import etree

from specextend_cli.documents.decode import codec, decode
from specextend_cli.documents.html.article import OUTSIDE, outside_of_article, warn
from specextend_cli.documents.html.formulas import formula, subscript, superscript
from specextend_cli.documents.html.visibility import HEADINGS, NOTE_MARK, VisibilityFilter, is_note_reference
from specextend_cli.documents.markup import MarkupError, attribute, html_root, name, xml_root
from specextend_cli.documents.numbering import FORMS, figure
from specextend_cli.documents.sections import Cell, ItemKind, Parsed, Table
from specextend_cli.documents.source import Source
from specextend_cli.errors import InputError

_ROWS = frozenset(("dd", "dt", "li"))
_LISTS = frozenset(("dl", "ol", "ul"))
_BLOCKS = {
    *("address", "article", "aside", "blockquote", "body", "caption", "center", "details", "dialog", "div", "dl"),
    *("fieldset", "figcaption", "figure", "footer", "form", "header", "hr", "legend", "main", "ol", "p", "pre"),
    *("section", "summary", "table", "tbody", "tfoot", "thead", "tr", "ul"),
}
_INLINE = frozenset(("a", "sub", "sup"))
_BREAKS_ROW = frozenset(("table", "ul", "ol", "dl", "pre", "blockquote")) | HEADINGS
_CHARSET = re.compile(
    rb"<(?:meta\b[^>]{0,512}?charset|\?xml\b[^>]{0,256}?encoding)\s*=\s*[\"']?\s*([\w.:-]{2,40})", re.I
)
_XML_DECLARATION = re.compile(r"\A\s*<\?xml[^>]*\?>")
_MAX_MARK = 12  # characters of a note mark
_NEAR = 8  # elements of a note mark
_LONG_CELL = 300  # a cell with more text is for layout, and has paragraphs


def parse(source: Source) -> Parsed:
    """The sections of an HTML file, or those of its article; InputError where it is nested too deeply."""
    parsed = Parsed("html")
    data = source.content()
    text, warnings = decode(source.name, data, declared(data))
    parsed.warnings += warnings
    try:
        root = html_root(text)
        _read(root, parsed, set() if root is None else outside_of_article(root))
    except MarkupError as error:
        what = f"{source.name} is an HTML page that cannot be read"
        raise InputError(what, why=str(error), fix="print it to PDF") from None
    warn(parsed, source.name)
    return parsed


def declared(data: bytes) -> str | None:
    """The codec of the encoding that a page declares in its head, if it is a known one."""
    match = _CHARSET.search(data[:4096])
    return codec(match[1].decode("ascii", "replace")) if match else None


def read_html(text: str, parsed: Parsed) -> None:
    """Add the content of an HTML text; the title of the page is used where there is none yet."""
    _read(html_root(text), parsed)


def read_xhtml(data: bytes, parsed: Parsed) -> None:
    """The same for XHTML, as in a book; it is read as HTML where it is not well-formed."""
    text = decode("", data, declared(data))[0]
    try:
        # Decoded here, as libxml2 does not map the labels of encodings as browsers do.
        root = xml_root(_XML_DECLARATION.sub("", text, count=1).encode("utf-8", "replace"))
    except MarkupError as error:
        if "entities" in str(error):
            raise
        root = html_root(text)
    _read(root, parsed)


def _read(root: Any | None, parsed: Parsed, outside: Collection[Any] = ()) -> None:
    if root is None:
        return
    titles = ("".join(head.itertext()) for head in root.iterfind(".//{*}head/{*}title"))
    parsed.title = parsed.title or " ".join(next(titles, "").split())
    _walk(root, parsed, VisibilityFilter(root), outside)


def _walk(root: Any, parsed: Parsed, visibility: VisibilityFilter, outside: Collection[Any]) -> None:
    """Add what is read in an element; of elements `outside` the items are recorded as removed."""
    builder = _ItemBuilder(parsed)
    walk = etree.iterwalk(root, events=("start", "end"))
    skipped: Any = None
    for event, element in walk:
        tag = name(element).lower()
        if event == "start":
            why = visibility.skip_reason(element, tag)
            if why is None and element in outside:
                part = Parsed("html")
                _walk(element, part, visibility, ())
                for text in (text for section in part.sections for _, text in section.items):
                    parsed.remove(OUTSIDE, text)
            elif why is None and tag == "math":
                builder.data(formula(element))
            elif why is None:
                builder.start(tag, element)
                builder.data(element.text)
                continue
            if why:
                parsed.remove(why, " ".join(element.itertext()))
            walk.skip_subtree()
            skipped = element
        else:
            if element is not skipped:
                builder.end(tag, element)
            if element is not root:
                builder.data(element.tail)
    builder.close()


class _ItemBuilder:
    """Start and end of elements to items. Text is collected until a block ends."""

    def __init__(self, parsed: Parsed) -> None:
        self._parsed = parsed
        self._text: list[str] = []
        self._heading = 0  # number of open headings
        self._pre = 0
        self._items = 0  # number of open list items, terms and definitions
        self._lists: list[int | None] = []  # the next number of each open list, None where it has bullets
        self._marker = ""
        self._table = Table()
        self._cells: list[Cell] | None = None
        self._open = False  # whether a cell is open
        self._data_row = False  # whether its row has other cells with text
        self._cell_lists = 0  # number of open lists whose items stay in the cell
        self._first = False  # whether their next item is the first of its list
        self._span = (1, 1)  # its columns and rows
        self._scripts: list[tuple[int, str] | None] = []  # start and kind of open inline elements

    def start(self, tag: str, element: Any) -> None:
        if tag in _LISTS:
            self._lists.append(_number(attribute(element, "start"), 1) if tag == "ol" else None)
            self._cell_lists += bool(self._cell_lists) or self._fits(element)
        if self._cell_lists and tag in _LISTS | _ROWS:
            self._text.append(" " if self._first or tag not in ("dt", "li") else "; ")
            self._first = tag in _LISTS
            return
        if tag in _BREAKS_ROW and self._cells is not None:
            self._end_row()
        if tag in ("td", "th"):
            self._end_cell()
            self._open = self._cells is not None
            self._span = _number(attribute(element, "colspan"), 1), _number(attribute(element, "rowspan"), 1)
        elif tag == "tr":
            self._end_row()
            self._cells = []
            self._data_row = sum(any(_texts(cell)) for cell in element.iterchildren("{*}td", "{*}th")) > 1
        elif tag in HEADINGS:
            self._flush()
            self._heading += 1
        elif tag in _ROWS:
            self._flush()
            self._items += 1
            self._marker = self._number(tag, element) or ("- " if tag == "li" else "")
        elif tag in _BLOCKS:
            self._break()
            self._pre += tag == "pre"
            if tag == "table":
                self._end_table()
        elif tag == "br":
            self._text.append("\n")
        elif tag in _INLINE:
            kind = "note" if tag == "a" and is_note_reference(element, self._before()) else tag
            self._scripts.append((len(self._text), kind) if kind != "a" else None)

    def end(self, tag: str, element: Any) -> None:
        in_cell = self._cell_lists > 0 and tag in _LISTS | _ROWS
        if tag in _LISTS:
            self._lists.pop()
            self._cell_lists -= in_cell
        if in_cell:
            self._text.append(" ")
        elif tag in ("td", "th"):
            self._end_cell()
        elif tag in ("tr", "table"):
            self._end_row()
            if tag == "table":
                self._end_table()
        elif tag in HEADINGS:
            self._flush()
            self._heading -= 1
        elif tag in _ROWS:
            self._flush()
            self._marker = ""
            self._items -= 1
        elif tag in _BLOCKS:
            self._break()
            self._pre -= tag == "pre"
        elif tag in _INLINE and (script := self._scripts.pop()):
            self._set_script(*script, element)

    def data(self, text: str | None) -> None:
        if text:
            self._text.append(text if self._pre else re.sub(r"\s+", " ", text))

    def close(self) -> None:
        self._end_row()
        self._end_table()
        self._flush()

    def _fits(self, element: Any) -> bool:
        """True if the items of a list stay in a cell: it is short, and beside other cells."""
        texts = chain(self._text, islice(_texts(element), _LONG_CELL))
        return self._open and self._data_row and sum(map(len, texts)) <= _LONG_CELL

    def _number(self, tag: str, element: Any) -> str:
        """The number of an item of an ordered list, as "3. " or "c. "; else ""."""
        if tag != "li" or not self._lists or (following := self._lists[-1]) is None:
            return ""
        number = _number(attribute(element, "value"), following)
        self._lists[-1] = number + 1
        return f"{figure(number, FORMS.get(attribute(element.getparent(), 'type'), 'decimal'))}. "

    def _set_script(self, start: int, kind: str, element: Any) -> None:
        """Convert a sub- or superscript so that it stays distinct from the text before it; remove note marks."""
        start = min(start, len(self._text))
        text, before = "".join(self._text[start:]), self._before(start)
        is_mark = kind == "note" or (kind == "sup" and 0 < len(text.strip()) <= _MAX_MARK and _is_note_link(element))
        if is_mark and before.strip():
            self._parsed.remove(NOTE_MARK, text)
            self._text[start:] = [""]
        elif kind != "note":
            self._text[start:] = [(subscript if kind == "sub" else superscript)(before, text)]

    def _before(self, end: int | None = None) -> str:
        """The text before position `end` of the block, or what there is of it; enough to tell what a mark follows."""
        end = len(self._text) if end is None else end
        return "".join(self._text[max(end - 4, 0) : end])

    def _break(self) -> None:
        """End a block: a paragraph, or a line in a cell."""
        if self._cells is None:
            self._flush()
        elif sum(map(len, self._text)) > _LONG_CELL:
            self._end_row()
        else:
            self._text.append(" ")

    def _end_cell(self) -> None:
        text = " ".join("".join(self._text).split()).replace(" ; ", "; ")
        if self._cells is None:
            self._flush()
        else:
            self._clear()
            if text or self._open:
                self._cells.append(Cell(text, *self._span))
            self._open, self._span = False, (1, 1)

    def _end_row(self) -> None:
        """End a row with the cells so far; what follows in it is ordinary text."""
        if self._cells is not None:
            self._end_cell()
            cells, self._cells = self._cells, None
            filled = [cell for cell in cells if cell.text]
            if len(filled) == 1 and len(filled[0].text) > _LONG_CELL:
                self._parsed.add_rows(self._table)
                self._parsed.add("paragraph", filled[0].text)
            else:
                self._table.add(cells)
        self._flush()

    def _end_table(self) -> None:
        self._parsed.add_rows(self._table)
        self._table = Table()

    def _clear(self) -> None:
        self._text.clear()
        self._scripts = [None] * len(self._scripts)

    def _flush(self) -> None:
        text = "".join(self._text)
        self._clear()
        if self._cells is not None and not self._heading:
            if text.strip():
                self._cells.append(Cell(" ".join(text.split())))
            return
        if text.strip():
            self._parsed.add_rows(self._table)
        for part in re.split(r"\n[ \t]*\n\s*", text) if not self._pre else [text]:
            if part.strip():
                kind: ItemKind = "heading" if self._heading else "row" if self._items else "paragraph"
                self._parsed.add(kind, self._marker + part.strip())
                self._marker = ""


def _texts(element: Any) -> Iterator[str]:
    return filter(None, (" ".join(text.split()) for text in element.itertext("*")))


def _is_note_link(element: Any) -> bool:
    """True if a superscript is or contains a link within the text, as note marks do."""
    around = chain(islice(element.iter(), _NEAR), islice(element.iterancestors(), 2))
    return any(name(near).lower() == "a" and "#" in attribute(near, "href") for near in around)


def _number(text: str, otherwise: int) -> int:
    return int(text) if re.fullmatch(r"-?\d{1,9}", text.strip()) else otherwise
