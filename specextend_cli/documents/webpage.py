"""HTML to sections: what a reader of the page would read, in order.

Scripts, styles, forms and what the page hides go unread; navigation and hidden text are noted as removed.
"""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import Any

from lxml import etree

from specextend_cli.documents.decode import decode
from specextend_cli.documents.markup import MarkupError, attribute, html_root, name, xml_root
from specextend_cli.documents.sections import Kind, Parsed
from specextend_cli.errors import InputError

_NEVER = frozenset(
    (
        *("applet", "audio", "button", "canvas", "datalist", "embed", "frameset", "iframe", "input", "map", "noembed"),
        *("noframes", "noscript", "object", "rp", "rt", "script", "select", "style", "svg", "template", "textarea"),
        *("title", "video"),
    )
)
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_ROWS = frozenset(("dd", "dt", "li"))
_BLOCKS = frozenset(
    (
        *("address", "article", "aside", "blockquote", "body", "caption", "center", "details", "dialog", "div", "dl"),
        *("fieldset", "figcaption", "figure", "footer", "form", "header", "hr", "legend", "main", "ol", "p", "pre"),
        *("section", "summary", "table", "tbody", "tfoot", "thead", "tr", "ul"),
    )
)
_BREAKS_ROW = frozenset(("table", "ul", "ol", "dl", "pre", "blockquote")) | _HEADINGS
_HIDDEN = re.compile(r"(?:^|[;\s])(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
_CHARSET = re.compile(
    rb"<(?:meta\b[^>]{0,512}?charset|\?xml\b[^>]{0,256}?encoding)\s*=\s*[\"']?\s*([\w.:-]{2,40})", re.I
)
_ENCODINGS = ("big5", "cp1", "cp8", "cp9", "euc", "gb", "iso", "johab", "koi8", "mac", "ptcp", "shift", "tis", "utf-8")
_MARK = re.compile(r"\s*[\[(]?(\d{1,4})[\])]?\s*")
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_LONG_CELL = 300  # a cell with more text is layout, and its paragraphs are paragraphs


def parse(path: Path, shown: str) -> Parsed:
    """The sections of an HTML file; InputError when its nesting is beyond reading."""
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
    return parsed


def declared(data: bytes) -> str | None:
    """The encoding that a page names in its head, where it is one that exists."""
    if (match := _CHARSET.search(data[:4096])) is None:
        return None
    try:
        found = codecs.lookup(match[1].decode("ascii")).name
    except (LookupError, UnicodeDecodeError):
        return None
    # What the web calls Latin-1 is Windows-1252. Other codecs of Python (escapes, IDNA) are no encodings of pages.
    return "cp1252" if found in ("iso8859-1", "ascii") else found if found.startswith(_ENCODINGS) else None


def read_html(text: str, parsed: Parsed) -> None:
    """Add what an HTML text says; the title of the page becomes the document's where there is none yet."""
    _read(html_root(text), parsed)


def read_xhtml(data: bytes, parsed: Parsed) -> None:
    """The same for a file of a book, which should be XML and is read as HTML where it is not."""
    try:
        root = xml_root(data)
    except MarkupError as error:
        if "entities" in str(error):
            raise
        root = html_root(decode("", data, declared(data))[0])
    _read(root, parsed)


def _read(root: Any | None, parsed: Parsed) -> None:
    if root is None:
        return
    titles = ("".join(head.itertext()) for head in root.iterfind(".//{*}head/{*}title"))
    parsed.title = parsed.title or " ".join(next(titles, "").split())
    writer = _Writer(parsed)
    walk = etree.iterwalk(root, events=("start", "end"))
    skipped: Any = None
    for event, element in walk:
        tag = name(element).lower()
        if event == "start":
            why = _unread(element, tag)
            if why is None:
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
                writer.end(tag)
            if element is not root:
                writer.data(element.tail)
    writer.close()


def _unread(element: Any, tag: str) -> str | None:
    """None when the element is read; else what its text is called among the removed, or "" where it has none."""
    if tag in _NEVER or not tag:
        return ""
    role = element.get("role", "")
    if tag == "nav" or role in ("navigation", "search", "menu", "menubar"):
        return "navigation"
    hidden = "hidden" in element.attrib or element.get("aria-hidden") == "true"
    return "hidden text" if hidden or _HIDDEN.search(element.get("style", "")) else None


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
        self._cells: list[str] | None = None
        self._raised: list[int] = []

    def start(self, tag: str, element: Any) -> None:
        if tag in _BREAKS_ROW and self._cells is not None:
            self._end_row()
        if tag in ("td", "th"):
            self._end_cell()
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
        elif tag == "br":
            self._text.append("\n")
        elif tag == "sup":
            self._raised.append(len(self._text))

    def end(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._end_cell()
        elif tag in ("tr", "table"):
            self._end_row()
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
        elif tag == "sup" and self._raised:
            self._raise(self._raised.pop())

    def data(self, text: str | None) -> None:
        if text:
            self._text.append(text if self._pre else re.sub(r"\s+", " ", text))

    def close(self) -> None:
        self._end_row()
        self._flush()

    def _next_marker(self, element: Any) -> str:
        if not self._lists or self._lists[-1] is None:
            return "- "
        number = _number(attribute(element, "value"), self._lists[-1])
        self._lists[-1] = number + 1
        return f"{number}. "

    def _raise(self, start: int) -> None:
        """A raised number becomes raised digits, which the cleaning knows as marks of notes."""
        start = min(start, len(self._text))
        if match := _MARK.fullmatch("".join(self._text[start:])):
            self._text[start:] = [match[1].translate(_RAISED)]

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
            self._text.clear()
            self._cells.append(text)

    def _end_row(self) -> None:
        """The cells so far are a row; what follows in it, if anything does, is text like any other."""
        if self._cells is not None:
            self._end_cell()
            cells = [cell for cell in self._cells if cell]
            kind: Kind = "row" if len(cells) > 1 or sum(map(len, cells)) <= _LONG_CELL else "paragraph"
            self._cells = None
            # Cells are told apart by a tab, which cleaning turns into two spaces, as those of a PDF's table.
            self._parsed.add(kind, "\t".join(cells))
        self._flush()

    def _flush(self) -> None:
        text = "".join(self._text)
        self._text.clear()
        self._raised.clear()
        if self._cells is not None and not self._heading:
            if text.strip():
                self._cells.append(" ".join(text.split()))
            return
        for part in re.split(r"\n[ \t]*\n\s*", text) if not self._pre else [text]:
            if part.strip():
                kind: Kind = "heading" if self._heading else "row" if self._items else "paragraph"
                self._parsed.add(kind, self._marker + part.strip())
                self._marker = ""


def _number(text: str, otherwise: int) -> int:
    return int(text) if re.fullmatch(r"-?\d{1,9}", text.strip()) else otherwise
