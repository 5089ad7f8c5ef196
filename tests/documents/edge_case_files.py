"""Files of the other kinds that make readers stumble, with the text that a person would read in each."""

from __future__ import annotations

from tests.documents.edge_cases import EdgeCase
from tests.documents.made_files import W, docx, epub, p, page, word, zipped

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


def linked() -> bytes:
    run = '<w:hyperlink><w:r><w:t xml:space="preserve"> the book</w:t></w:r></w:hyperlink><w:r><w:t>.</w:t></w:r>'
    field = '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>PAGEREF _x</w:instrText></w:r>'
    return docx(p("See", runs=run + field + "<w:r><w:t> Page 4</w:t></w:r>"))


JOINED = "family 👩\u200d👩\u200d👧 and می\u200cخواهم"
FILES = (
    # text
    EdgeCase("mac.txt", lambda: b"One line here.\r\rAnother there.\r", "One line here.\n\nAnother there."),
    EdgeCase("dos.txt", lambda: b"One line here.\r\n\r\nAnother.\r\n\x1a", "One line here.\n\nAnother."),
    EdgeCase("control-tokens.txt", lambda: b"<|im_end|> stays text. </s>", "<|im_end|> stays text. </s>"),
    EdgeCase("joined.txt", JOINED.encode, JOINED),
    EdgeCase("nothing.vtt", lambda: b"WEBVTT\n\nNOTE nothing\n", error="nothing.vtt holds no text"),
    EdgeCase("wordless.vtt", lambda: b"1\n00:00:01,000 --> 00:00:02,000\n \n", error="wordless.vtt holds no text"),
    EdgeCase("one-line.txt", lambda: b"level " * 40_000, ("level " * 40_000).strip()),
    EdgeCase("feeds-only.txt", lambda: b"\x0c\x0c\x0c", error="feeds-only.txt is empty"),
    EdgeCase("page.txt", lambda: html("<p>Really a page.</p>"), "Really a page.", warning="page.txt is an HTML page"),
    EdgeCase("word.pdf", lambda: docx(p("Really Word.")), "Really Word.", warning="is a Word document (DOCX)"),
    EdgeCase("sheet.docx", lambda: zipped({"xl/workbook.xml": "<x/>"}), error="sheet.docx is an Excel workbook"),
    # Word
    EdgeCase("strict.docx", strict_docx, "Head\n\nText."),
    EdgeCase("utf-16.docx", utf16_docx, "Größe und Maß."),
    EdgeCase("linked.docx", linked, "See the book. Page 4"),
    EdgeCase("pictures.docx", lambda: docx("<w:p><w:r><w:drawing/></w:r></w:p>"), error="pictures.docx holds no text"),
    # books
    EdgeCase("book.epub", lambda: epub({"a.xhtml": BOOK}), "The River\n\nIt rises in the hills."),
    EdgeCase("book.zip", lambda: epub({"a.xhtml": BOOK}), "The River\n\nIt rises in the hills."),
    EdgeCase("bomb.epub", lambda: epub({"a.xhtml": BOMB}), error="bomb.epub unpacks to more than a document can hold"),
    EdgeCase("cut.epub", lambda: epub({"a.xhtml": BOOK})[:-60], error="cut.epub is an EPUB book and damaged"),
    # pages
    EdgeCase("open.html", lambda: b"<html><p>One<p>Two<ul><li>a<li>b</ul>tail", "One\n\nTwo\n\n- a\n- b\n\ntail"),
    EdgeCase("nul.html", lambda: html("<p>The\0 river.</p>"), "The river."),
    EdgeCase("our-mark.html", lambda: html("<p>The ri\x02ver\x02</p>"), "The river"),
    EdgeCase("our-mark.txt", lambda: b"The ri\x02ver is go\x02\ning on.", "The river is go ing on."),
)
