"""HTML to sections: the visible text of a page in order.

Scripts, styles and forms are skipped; navigation and hidden text are recorded as removed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import chain, islice, pairwise
from typing import Any

from lxml import etree

from specextend_cli.documents.decode import codec, decode
from specextend_cli.documents.html.article import OUTSIDE, outside_of_article, warn
from specextend_cli.documents.html.formulas import formula, subscript, superscript
from specextend_cli.documents.html.visibility import HEADINGS, NOTE_MARK, VisibilityFilter, is_note_reference
from specextend_cli.documents.markup import MarkupError, attribute, html_root, integer, name, xml_root
from specextend_cli.documents.numbering import FORMS, figure
from specextend_cli.documents.sections import Cell, ItemKind, Parsed, Table
from specextend_cli.documents.source import Source
from specextend_cli.errors import InputError

_LISTS = frozenset(("dl", "ol", "ul"))
_KINDS: dict[str, ItemKind] = {**dict.fromkeys(HEADINGS, "heading"), **dict.fromkeys(("dd", "dt", "li"), "row")}
_BLOCKS = {
    *_KINDS,
    *("address", "article", "aside", "blockquote", "body", "caption", "center", "details", "dialog", "div", "dl"),
    *("fieldset", "figcaption", "figure", "footer", "form", "header", "hr", "legend", "main", "ol", "p", "pre"),
    *("section", "summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul"),
}
_INLINE = frozenset(("a", "sub", "sup"))
_NO_CELL = frozenset(("table", "pre", "blockquote")) | HEADINGS  # what holds them is for layout
_CHARSET = re.compile(
    rb"<(?:meta\b[^>]{0,512}?charset|\?xml\b[^>]{0,256}?encoding)\s*=\s*[\"']?\s*([\w.:-]{2,40})", re.I
)
_XML_DECLARATION = re.compile(r"\A\s*<\?xml[^>]*\?>")
_MAX_MARK = 12  # characters of a note mark
_NEAR = 8  # elements of a note mark
_LONG_CELL = 300  # characters; a cell with more in paragraphs is for layout


def parse(source: Source) -> Parsed:
    """The sections of an HTML file, or those of its article; InputError where it is nested too deeply."""
    parsed = Parsed("html")
    data = source.path.read_bytes()
    text, warnings = decode(source.name, data, declared(data))
    parsed.warnings += warnings
    try:
        root = html_root(text)
        _read(root, parsed, outside_of_article(root))
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


def _read(root: Any, parsed: Parsed, outside: Collection[Any] = ()) -> None:
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
                part = _part(element, visibility)
                parsed.edits += part.edits
                for text in (text for section in part.sections for _, text in section.items):
                    parsed.remove(OUTSIDE, text)
            elif why is None and tag == "math":
                builder.data(formula(element))
            elif why is None and tag == "tr" and (cells := _cells(element, parsed, visibility, outside)):
                builder.row(cells)
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
    builder.flush(ends_table=True)


def _part(element: Any, visibility: VisibilityFilter, outside: Collection[Any] = ()) -> Parsed:
    """What is read in an element, by itself."""
    part = Parsed("html")
    _walk(element, part, visibility, outside)
    return part


def _cells(row: Any, parsed: Parsed, visibility: VisibilityFilter, outside: Collection[Any]) -> list[Cell]:
    """The cells of a row; [] where one has parts of its own, as cells that lay out a page have."""
    cells = list(row.iterchildren("{*}td", "{*}th"))
    has_more = len(cells) < len(row) or any((cell.tail or "").strip() for cell in cells)
    if has_more or any(name(inner).lower() in _NO_CELL for cell in cells for inner in cell.iter("*")):
        return []
    parts = [_part(cell, visibility, outside) for cell in cells]
    contents = [[item for section in part.sections for item in section.items] for part in parts]
    is_alone = sum(map(bool, contents)) == 1
    for part, items in zip(parts, contents, strict=True):
        is_list = is_alone and any(kind == "row" for kind, _ in items)
        if is_list or (part.characters > _LONG_CELL and (is_alone or len(items) > 1)):
            return []
    for part in parts:
        parsed.edits += part.edits
    spans = ([integer(attribute(cell, key), 1) for key in ("colspan", "rowspan")] for cell in cells)
    return [Cell(_cell_text(items), *span) for items, span in zip(contents, spans, strict=True)]


def _cell_text(items: Sequence[tuple[ItemKind, str]]) -> str:
    """The text of a cell; the items of a list stay in it."""
    text = ""
    for (before, _), (kind, part) in pairwise([("paragraph", ""), *items]):
        text += ("; " if before == kind == "row" else " ") + part.removeprefix("- ")
    return " ".join(text.split())


class _ItemBuilder:
    """Start and end of elements to items. Text is collected until a block ends."""

    def __init__(self, parsed: Parsed) -> None:
        self._parsed = parsed
        self._text: list[str] = []
        self._open = Counter[str]()  # open elements by their tags
        self._lists: list[int | None] = []  # the next number of each open list, None where it has bullets
        self._marker = ""
        self._table = Table()
        self._scripts: list[tuple[int, str] | None] = []  # start and kind of open inline elements

    def start(self, tag: str, element: Any) -> None:
        if tag in _LISTS:
            self._lists.append(integer(attribute(element, "start"), 1) if tag == "ol" else None)
        if tag in _BLOCKS:
            self.flush(ends_table=tag == "table")
            self._open[tag] += 1
            if _KINDS.get(tag) == "row":
                self._marker = self._marker_of(element) if tag == "li" else ""
        elif tag == "br":
            self._text.append("\n")
        elif tag in _INLINE:
            kind = "note" if tag == "a" and is_note_reference(element, self._before(len(self._text))) else tag
            self._scripts.append((len(self._text), kind) if kind != "a" else None)

    def end(self, tag: str, element: Any) -> None:
        if tag in _LISTS:
            self._lists.pop()
        if tag in _BLOCKS:
            self.flush(ends_table=tag == "table")
            self._open[tag] -= 1
            if _KINDS.get(tag) == "row":
                self._marker = ""
        elif tag in _INLINE and (script := self._scripts.pop()):
            self._set_script(*script, element)

    def row(self, cells: list[Cell]) -> None:
        """Add a row of a table."""
        self.flush()
        self._table.add(cells)

    def data(self, text: str | None) -> None:
        if text:
            self._text.append(text if self._open["pre"] else re.sub(r"\s+", " ", text))

    def _marker_of(self, element: Any) -> str:
        """The marker of a list item: "- ", or in an ordered list its number, as "3. " or "c. "."""
        if not self._lists or (following := self._lists[-1]) is None:
            return "- "
        number = integer(attribute(element, "value"), following)
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

    def _before(self, end: int) -> str:
        """The text before position `end` of the block, enough to tell what a mark follows."""
        return "".join(self._text[max(end - 4, 0) : end])

    def flush(self, *, ends_table: bool = False) -> None:
        """End the block, and the table where it ends too."""
        text = "".join(self._text)
        self._text.clear()
        self._scripts = [None] * len(self._scripts)
        if text.strip():
            self._parsed.add_rows(self._table)
        open_kinds = {_KINDS.get(tag, "paragraph") for tag, number in self._open.items() if number}
        kind: ItemKind = "heading" if "heading" in open_kinds else "row" if "row" in open_kinds else "paragraph"
        for part in re.split(r"\n[ \t]*\n\s*", text) if not self._open["pre"] else [text]:
            if part.strip():
                self._parsed.add(kind, self._marker + part.strip())
                self._marker = ""
        if ends_table:
            self._parsed.add_rows(self._table)
            self._table = Table()


def _is_note_link(element: Any) -> bool:
    """True if a superscript is or contains a link within the text, as note marks do."""
    around = chain(islice(element.iter(), _NEAR), islice(element.iterancestors(), 2))
    return any(name(near).lower() == "a" and "#" in attribute(near, "href") for near in around)
