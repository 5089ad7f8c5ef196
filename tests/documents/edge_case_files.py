"""Files of the other kinds that make readers stumble, with the text that a person would read in each."""

from __future__ import annotations

from tests.documents.edge_cases import EdgeCase
from tests.documents.made_files import W, docx, epub, item, p, page, table, word, zipped

BOOK = page("<h1>The River</h1><p>It rises in the hills.</p>")


def html(body: str, head: str = "") -> bytes:
    return f"<!DOCTYPE html><html><head>{head}</head><body>{body}</body></html>".encode()


BOMB = b" " * (12 << 20)
"""A part that is packed a thousand to one."""


# ------------------------------------------------------------------------------------------------------- Word


def strict_docx() -> bytes:
    """The stricter of the two forms of the standard has other namespaces."""
    body = word("document", f"<w:body>{p('Head', 'Heading1')}{p('Text.')}</w:body>")
    return zipped({"word/document.xml": body.replace(W, "http://purl.oclc.org/ooxml/wordprocessingml/main")})


def utf16_docx() -> bytes:
    body = word("document", f"<w:body>{p('Größe und Maß.')}</w:body>").replace("UTF-8", "UTF-16")
    return zipped({"word/document.xml": body.encode("utf-16")})


def nested_tables() -> bytes:
    inner = table(("a", "b"))
    return docx(p("Before.") + table(("Station", "Level"), (inner, "3.20")) + p("After."))


def linked() -> bytes:
    run = '<w:hyperlink><w:r><w:t xml:space="preserve"> the book</w:t></w:r></w:hyperlink><w:r><w:t>.</w:t></w:r>'
    field = '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>PAGEREF _x</w:instrText></w:r>'
    return docx(p("See", runs=run + field + "<w:r><w:t> Page 4</w:t></w:r>"))


def levelled() -> bytes:
    return docx(p("Findings", properties='<w:outlineLvl w:val="0"/>') + p("They are few.") + item("one", 1))


def entities() -> bytes:
    lines = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    bomb = f'<?xml version="1.0"?><!DOCTYPE d [<!ENTITY l0 "lol">{lines}]>'
    body = word("document", f"<w:body>{p('&l9;')}</w:body>").split("?>", 1)[1]
    return zipped({"word/document.xml": bomb + body})


def cut_docx() -> bytes:
    return docx(p("words " * 300))[:-120]


# ------------------------------------------------------------------------------------------------------ email


def with_charset(charset: str, data: bytes) -> bytes:
    head = b"From: a@b.c\nSubject: Level\nMIME-Version: 1.0\n"
    kind = f'Content-Type: text/plain; charset="{charset}"\nContent-Transfer-Encoding: 8bit\n\n'
    return head + kind.encode() + data


FILES = (
    # text
    EdgeCase("bom.txt", lambda: b"\xef\xbb\xbfThe river.", "The river."),
    EdgeCase("utf-16.txt", lambda: "Größe – Maß".encode("utf-16"), "Größe – Maß"),
    EdgeCase("utf-32.txt", lambda: "Größe – Maß".encode("utf-32"), "Größe – Maß"),
    EdgeCase("mac.txt", lambda: b"One line here.\r\rAnother there.\r", "One line here.\n\nAnother there."),
    EdgeCase("dos.txt", lambda: b"One line here.\r\n\r\nAnother.\r\n\x1a", "One line here.\n\nAnother."),
    EdgeCase("feeds.txt", lambda: b"Page one.\n\x0cPage two.\n\x0c\x0cLast.", "Page one.\n\nPage two.\n\nLast."),
    EdgeCase("nuls.txt", lambda: b"The river\0 rises." * 9 + b"\0\0\0", error="nuls.txt is a binary file"),
    EdgeCase("control-tokens.txt", lambda: b"<|im_end|> stays text. </s>", "<|im_end|> stays text. </s>"),
    EdgeCase("one-line.txt", lambda: b"level " * 40_000, ("level " * 40_000).strip()),
    EdgeCase("feeds-only.txt", lambda: b"\x0c\x0c\x0c", error="feeds-only.txt is empty"),
    EdgeCase("named.pdf", lambda: b"Just a text.", "Just a text.", warning="named.pdf is a text, not a PDF"),
    EdgeCase("page.txt", lambda: html("<p>Really a page.</p>"), "Really a page.", warning="page.txt is an HTML page"),
    EdgeCase("word.pdf", lambda: docx(p("Really Word.")), "Really Word.", warning="is a Word document (DOCX)"),
    EdgeCase("sheet.docx", lambda: zipped({"xl/workbook.xml": "<x/>"}), error="sheet.docx is an Excel workbook"),
    # Word
    EdgeCase("strict.docx", strict_docx, "Head\n\nText."),
    EdgeCase("utf-16.docx", utf16_docx, "Größe und Maß."),
    EdgeCase("nested.docx", nested_tables, "Before.\n\nStation  Level\n—  3.20\na  b\n\nAfter."),
    EdgeCase("linked.docx", linked, "See the book. Page 4"),
    EdgeCase("levelled.docx", levelled, "Findings\n\nThey are few.\n\n- one"),
    EdgeCase("pictures.docx", lambda: docx("<w:p><w:r><w:drawing/></w:r></w:p>"), error="pictures.docx holds no text"),
    EdgeCase("cut.docx", cut_docx, error="cut.docx is a Word document (DOCX) and damaged"),
    EdgeCase("entities.docx", entities, error="entities.docx is a Word document (DOCX) and damaged"),
    EdgeCase(
        "bomb.docx",
        lambda: zipped({"word/document.xml": BOMB}),
        error="bomb.docx unpacks to more than a document can hold",
    ),
    EdgeCase(
        "deep.docx", lambda: docx("<w:sdt>" * 3000 + p("x") + "</w:sdt>" * 3000), error="deep.docx is a Word document"
    ),
    # books
    EdgeCase("book.epub", lambda: epub({"a.xhtml": BOOK}), "The River\n\nIt rises in the hills."),
    EdgeCase("book.zip", lambda: epub({"a.xhtml": BOOK}), "The River\n\nIt rises in the hills."),
    EdgeCase(
        "latin.epub",
        lambda: epub({"a.xhtml": BOOK.replace("hills", "Höhen").encode("latin-1")}),
        "The River\n\nIt rises in the Höhen.",
    ),
    EdgeCase("missing.epub", lambda: epub({}, spine=("lost.xhtml",)), error="missing.epub: none of 1 section"),
    EdgeCase("bomb.epub", lambda: epub({"a.xhtml": BOMB}), error="bomb.epub unpacks to more than a document can hold"),
    EdgeCase("cut.epub", lambda: epub({"a.xhtml": BOOK})[:-60], error="cut.epub is an EPUB book and damaged"),
    # pages
    EdgeCase("open.html", lambda: b"<html><p>One<p>Two<ul><li>a<li>b</ul>tail", "One\n\nTwo\n\n- a\n- b\n\ntail"),
    EdgeCase("utf-16.html", lambda: "<html><p>Größe</p></html>".encode("utf-16"), "Größe"),
    EdgeCase("scripts.html", lambda: html("<script>document.write('x')</script>"), error="scripts.html holds no text"),
    EdgeCase(
        "tables.html",
        lambda: html("<table><tr><td>a<table><tr><td>x</td><td>y</td></tr></table></td><td>b</td></tr></table>"),
        "a\nx  y\n\nb",
    ),
    EdgeCase("deep.html", lambda: html("<div>" * 5000 + "deep"), error="deep.html is an HTML page that cannot be read"),
    EdgeCase("nul.html", lambda: html("<p>The\0 river.</p>"), "The river."),
    EdgeCase("our-mark.html", lambda: html("<p>The ri\x02ver\x02</p>"), "The river"),
    EdgeCase("our-mark.txt", lambda: b"The ri\x02ver is go\x02\ning on.", "The river is go ing on."),
    EdgeCase("marks.html", lambda: html("<p>Levels<sup>3</sup> rose to 10<sup>6</sup>.</p>"), "Levels rose to 10⁶."),
    # email
    EdgeCase("coded.eml", lambda: with_charset("koi8-r", "Река".encode("koi8-r")), "Level\n\nFrom: a@b.c\n\nРека"),
    EdgeCase("unknown.eml", lambda: with_charset("x-none", "Größe".encode()), "Level\n\nFrom: a@b.c\n\nGröße"),
)
