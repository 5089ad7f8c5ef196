from __future__ import annotations

from pathlib import Path

import pytest

from specextend_cli.documents import Document, archive, read_bytes
from specextend_cli.errors import InputError
from tests.documents.edge_cases import refusal
from tests.documents.made_files import docx, item, p, table, word, zipped


def read(body: str, **parts: str) -> Document:
    return read_bytes("a.docx", docx(body, **parts))


def refused(data: bytes) -> InputError:
    return refusal(lambda: read_bytes("a.docx", data))


def test_headings_paragraphs_and_sections() -> None:
    styles = word(
        "styles",
        '<w:style w:styleId="T1"><w:name w:val="heading 1"/></w:style>'
        '<w:style w:styleId="Mine"><w:basedOn w:val="T1"/></w:style>'
        '<w:style w:styleId="Loop"><w:basedOn w:val="Loop"/></w:style>',
    )
    body = (
        p("Rivers", "Title") + p("Water &amp; stone.") + p("Source", "T1") + p("It rises.", "Loop") + p("Mouth", "Mine")
    )
    document = read(body + p("It ends.") + p("Own", properties='<w:outlineLvl w:val="2"/>') + p("x"), styles=styles)
    assert (document.kind, document.unit) == ("docx", "section")
    assert document.text == "Rivers\n\nWater & stone.\n\nSource\n\nIt rises.\n\nMouth\n\nIt ends.\n\nOwn\n\nx"
    assert [page.title for page in document.pages] == ["Rivers", "Source", "Mouth", "Own"]


def test_lists() -> None:
    numbering = word(
        "numbering",
        '<w:abstractNum w:abstractNumId="0"><w:lvl w:ilvl="0"><w:numFmt w:val="decimal"/></w:lvl>'
        '<w:lvl w:ilvl="1"><w:numFmt w:val="lowerLetter"/></w:lvl></w:abstractNum>'
        '<w:abstractNum w:abstractNumId="1"><w:lvl w:ilvl="0"><w:numFmt w:val="bullet"/></w:lvl></w:abstractNum>'
        '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>'
        '<w:num w:numId="2"><w:abstractNumId w:val="1"/></w:num>',
    )
    styles = word("styles", f'<w:style w:styleId="Dots">{item("", 2)[5:-6]}</w:style>')
    assert read(p("a", "Dots") + p("b", "Dots"), numbering=numbering, styles=styles).text == "- a\n- b"
    body = item("one", 1) + item("below", 1, 1) + item("two", 1) + item("anew", 1, 1) + item("dot", 2) + item("lost", 7)
    assert read(body, numbering=numbering).text == "1. one\n1. below\n2. two\n1. anew\n- dot\n- lost"


def test_tables_and_tables_in_tables() -> None:
    inner = f"{p('in')}{table(('a', 'b'), ('c', 'd'))}{p('side')}"
    assert read(p("Rain:") + table(("Year", "mm"), ("2019", "812"))).text == "Rain:\n\nYear  mm\n2019  812"
    assert read(table(("x", inner), ("y", "z"))).text == "x  in side\na  b\nc  d\ny  z"


def test_notes_follow_their_section() -> None:
    notes = word(
        "footnotes", f'<w:footnote w:id="-1">{p("line")}</w:footnote><w:footnote w:id="2">{p("See here.")}</w:footnote>'
    )
    ends = word("endnotes", f'<w:endnote w:id="2">{p("And there.")}</w:endnote>')
    body = p("Said", runs='<w:r><w:footnoteReference w:id="2"/></w:r><w:r><w:endnoteReference w:id="2"/></w:r>')
    document = read(body + p("more.") + p("Next", "Heading1") + p("end"), footnotes=notes, endnotes=ends)
    assert document.text == "Said\n\nmore.\n\n1 See here.\n2 And there.\n\nNext\n\nend"


def test_changes_fields_boxes_and_breaks() -> None:
    body = (
        "<w:p><w:r><w:t>kept</w:t></w:r><w:del><w:r><w:delText>gone</w:delText><w:t>gone</w:t></w:r></w:del>"
        "<w:ins><w:r><w:t> new</w:t><w:tab/><w:t>tab</w:t><w:br/><w:t>line</w:t><w:br w:type='page'/></w:r></w:ins>"
        "<w:r><w:instrText>PAGE</w:instrText></w:r></w:p>"
        "<w:p><w:r><w:t>around</w:t><AlternateContent><Choice><w:txbxContent><w:p><w:r><w:t>box</w:t></w:r></w:p>"
        "</w:txbxContent></Choice><Fallback><w:txbxContent><w:p><w:r><w:t>box</w:t></w:r></w:p></w:txbxContent>"
        f"</Fallback></AlternateContent></w:r></w:p><w:sdt><w:sdtContent>{p('control')}</w:sdtContent></w:sdt>"
    )
    assert read(body).text == "kept new  tab\nline\n\naround\n\nbox\n\ncontrol"


def test_the_main_part_may_have_any_name() -> None:
    rels = '<Relationships><Relationship Type="http://x/officeDocument" Target="/word/document2.xml"/></Relationships>'
    parts = {"_rels/.rels": rels, "word/document2.xml": word("document", f"<w:body>{p('here')}</w:body>")}
    core = '<cp xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title> The  Title </dc:title></cp>'
    document = read_bytes("-", zipped(parts | {"docProps/core.xml": core}))
    assert (document.text, document.title) == ("here", "The Title")


def test_what_is_damaged_or_empty() -> None:
    whole = docx(p("words " * 200))
    assert refused(whole[: len(whole) // 2]).what == "a.docx is a Word document (DOCX) and damaged"
    assert refused(zipped({"word/styles.xml": ""})).why == "word/document.xml is missing in it"
    assert "and damaged" in refused(zipped({"word/document.xml": "<w:document>"})).what
    assert refused(docx("")).what == "a.docx holds no text"
    assert refused(docx("<w:p>" * 5000)).what.startswith("a.docx is a Word document (DOCX) and damaged")
    flipped = bytearray(docx(p("words")))
    flipped[flipped.index(b"word/document.xml") + 40] ^= 0xFF
    assert refused(bytes(flipped)).what == "a.docx is damaged"


def test_entities_are_refused() -> None:
    laughs = '<!DOCTYPE d [<!ENTITY a "lol"><!ENTITY b "&a;&a;">]>'
    outside = '<!DOCTYPE d [<!ENTITY f SYSTEM "file:///etc/passwd">]>'
    for head in (laughs, outside, laughs.encode("utf-16").decode("utf-16")):
        body = word("document", f"<w:body>{p('&b;&f;')}</w:body>").replace("?>", f"?>{head}", 1)
        assert "entities" in refused(zipped({"word/document.xml": body})).why


def test_zip_bombs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = zipped({"word/document.xml": b" " * (80 << 20)})
    assert refused(bomb).what == "a.docx unpacks to more than a document can hold"
    small = zipped({"word/document.xml": b" " * (8 << 20)})
    assert "500 times" in refused(small).why
    crowd = tmp_path / "crowd.docx"
    crowd.write_bytes(zipped({f"word/{n}": b"" for n in range(11)}, deflate=False))
    monkeypatch.setattr(archive, "MAX_MEMBERS", 10)
    error = refusal(lambda: archive.Archive(crowd, "crowd.docx"))
    assert error.why == "it holds 11 files, and 10 are the most that are read"


def test_encrypted_zip() -> None:
    data = bytearray(docx(p("words")))
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = -1
        while (at := data.find(mark, at + 1)) >= 0:
            data[at + place] |= 1
    assert refused(bytes(data)).what == "a.docx is encrypted"
