from __future__ import annotations

from pathlib import Path

import pytest

from specextend_cli.documents import archive
from specextend_cli.documents.document import Document
from specextend_cli.documents.read import read_bytes
from specextend_cli.errors import InputError
from tests.documents.edge_cases import refusal
from tests.documents.made_files import docx, item, level, p, table, word, zipped


def read(body: str, **parts: str) -> Document:
    return read_bytes("a.docx", docx(body, **parts))


def refused(data: bytes) -> InputError:
    return refusal(lambda: read_bytes("a.docx", data))


def run(content: str, properties: str = "") -> str:
    return f"<w:r><w:rPr>{properties}</w:rPr>{content}</w:r>"


def test_headings_paragraphs_and_sections() -> None:
    styles = word(
        "styles",
        '<w:style w:styleId="T1"><w:name w:val="heading 1"/></w:style>'
        '<w:style w:styleId="Mine"><w:pPr><w:outlineLvl w:val="1"/></w:pPr></w:style>',
    )
    body = p("Rivers", "Title") + p("Water &amp; stone.") + p("Source", "T1") + p("It rises.") + p("Mouth", "Mine")
    document = read(body + p("It ends.") + p("Own", properties='<w:outlineLvl w:val="2"/>') + p("x"), styles=styles)
    assert (document.kind, document.unit) == ("docx", "section")
    assert document.text == "Rivers\n\nWater & stone.\n\nSource\n\nIt rises.\n\nMouth\n\nIt ends.\n\nOwn\n\nx"
    assert [page.title for page in document.pages] == ["Rivers", "Source", "Mouth", "Own"]


def numbering(*levels: str, overrides: str = "", more: str = "") -> str:
    """Lists 1 and 2 of these levels; list 2 has `overrides`."""
    return word(
        "numbering",
        f'<w:abstractNum w:abstractNumId="5">{"".join(levels)}</w:abstractNum>{more}'
        '<w:num w:numId="1"><w:abstractNumId w:val="5"/></w:num>'
        f'<w:num w:numId="2"><w:abstractNumId w:val="5"/>{overrides}</w:num>',
    )


def style(name: str, properties: str, based: str = "") -> str:
    return (
        f'<w:style w:styleId="{name}"><w:name w:val="{name}"/><w:basedOn w:val="{based}"/>'
        f"<w:pPr>{properties}</w:pPr></w:style>"
    )


def in_list(number: int, at: int | str) -> str:
    return f'<w:numPr><w:ilvl w:val="{at}"/><w:numId w:val="{number}"/></w:numPr>'


def test_headings_have_the_numbers_that_word_shows() -> None:
    lists = numbering(level(0, "%1"), level(1, "%1.%2"), level(2, "%1.%2.%3"), level(3, "(%4)"))
    styles = word(
        "styles",
        style("Heading1", in_list(1, 0))
        + style("Heading2", in_list(1, 1))
        + style("Heading3", '<w:numPr><w:ilvl w:val="2"/></w:numPr>', "Heading1")
        + style("Plain", '<w:numPr><w:numId w:val="0"/></w:numPr>', "Heading1"),
    )
    body = (
        *(p("Scope", "Heading1"), p("Goals", "Heading2"), p("Limits", "Heading2"), p("Time", "Heading3")),
        *(p("Means", "Heading1"), p("", "Heading2"), p("Staff", "Heading2"), p("Thanks", "Plain")),
    )
    document = read("".join(body), numbering=lists, styles=styles)
    assert document.text.split("\n\n") == [
        *("1 Scope", "1.1 Goals", "1.2 Limits", "1.2.1 Time", "2 Means"),
        *("2.2 Staff", "Thanks"),  # an empty heading has a number too
    ]
    assert document.pages[-1].title.startswith("1 Scope: 1.1 Goals")


def boxed(text: str) -> str:
    return f"<w:txbxContent>{p(text)}</w:txbxContent>"


def numbered_from(first: int, form: str) -> str:
    return numbering(level(0, "%1:", form).replace('t w:val="1"', f't w:val="{first}"'))


def field_of_an_old_form(field: str) -> str:
    begin = run(f"<w:fldChar w:fldCharType='begin'><w:ffData>{field}</w:ffData></w:fldChar>")
    code = run("<w:instrText> FORMDROPDOWN </w:instrText>") + run("<w:fldChar w:fldCharType='end'/>")
    return p("When: ", runs=begin + code)


FORMS = ("upperRoman", "lowerLetter", "lowerRoman", "upperLetter", "decimalZero", "none", "chineseCounting")
GO_ON = item("a", 1) + item("b", 1, 1) + item("c", 1) + item("d", 1, 1) + item("e", 2)
DECIMAL = (level(0, "%1."), level(1, "%1.%2"))
STATUTE = (level(0, "Article %1", "upperRoman"), level(1, "Section %1.%2", "decimalZero", more="<w:isLgl/>"))
AGAIN = '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="7"/></w:lvlOverride>'
LINKED = "".join(
    f'<w:abstractNum w:abstractNumId="{n}"><w:numStyleLink w:val="{name}"/></w:abstractNum>'
    f'<w:num w:numId="{n}"><w:abstractNumId w:val="{n}"/></w:num>'
    for n, name in ((3, "Legal"), (4, "Loop"))
)
OF_STYLES = {
    "numbering": numbering(*DECIMAL, more=LINKED),
    "styles": word("styles", style("Legal", in_list(1, 0)) + style("Loop", in_list(4, 0))),
}
FOOTNOTES = f'<w:footnote w:id="-1">{p("line")}</w:footnote><w:footnote w:id="2">{p("See here.")}</w:footnote>'
NOTES = {
    "footnotes": word("footnotes", FOOTNOTES),
    "endnotes": word("endnotes", f'<w:endnote w:id="2">{p("And there.")}</w:endnote>'),
}
MARKS = run('<w:footnoteReference w:id="2"/>') + run('<w:endnoteReference w:id="2"/>')
SYMBOLS = (("Symbol", "F061"), ("Symbol", "F0B3"), ("Wingdings", "F0E0"), ("Wingdings", "F0FC"), ("Other", "x"))
CHOICES = "<w:listEntry w:val='Summer'/><w:listEntry w:val='Winter'/>"
TEXTS: dict[str, tuple[str, str, dict[str, str]]] = {
    # The body, its text, and the other parts.
    "forms of numbers": (
        "".join(item(f"t{at}", 1, at) for at in range(len(FORMS))),
        "I) t0\na) t1\ni) t2\nA) t3\n01) t4\n) t5\n1) t6",
        {"numbering": numbering(*(level(at, f"%{at + 1})", form) for at, form in enumerate(FORMS)))},
    ),
    "letters": (item("x", 1), "aa: x", {"numbering": numbered_from(27, "lowerLetter")}),
    "roman": (item("x", 1), "MCMXLIX: x", {"numbering": numbered_from(1949, "upperRoman")}),
    "large": (item("x", 1), "999999999: x", {"numbering": numbered_from(999_999_999, "lowerLetter")}),
    "on": (GO_ON, "1. a\n1.1 b\n2. c\n2.1 d\n3. e", {"numbering": numbering(*DECIMAL)}),
    "again": (GO_ON, "1. a\n1.1 b\n2. c\n2.1 d\n7. e", {"numbering": numbering(*DECIMAL, overrides=AGAIN)}),
    "legal": (item("a", 1) + item("b", 1, 1), "Article I a\nSection 1.01 b", {"numbering": numbering(*STATUTE)}),
    "linked": (item("a", 3) + item("b", 4), "1. a\n- b", OF_STYLES),
    "below": (item("first", 1, 1), "1.1 first", {"numbering": numbering(*DECIMAL)}),
    "notes": (
        p("Said", runs=MARKS) + p("more.") + p("Next", "Heading1") + p("end"),
        "Said\n\nmore.\n\n1 See here.\n2 And there.\n\nNext\n\nend",
        NOTES,
    ),
    "tables in tables": (
        p("Rain:") + table(("x", f"{p('in')}{table(('a', 'b'), ('c', 'd'))}{p('side')}"), ("y", "z")),
        "Rain:\n\nx  in side\na  b\nc  d\ny  z",
        {},
    ),
    "boxes in cells": (
        table((p("a", runs=run(f"<w:pict>{boxed('box')}</w:pict>")), "b"), ("c", "d")) + p("end"),
        "a  b\n\nbox\n\nc  d\n\nend",
        {},
    ),
    "boxes": (
        p("around", runs=run(f"<AC><Choice>{boxed('box')}</Choice><Fallback>{boxed('box')}</Fallback></AC>")),
        "around\n\nbox",
        {},
    ),
    "changes": (
        "<w:p><w:r><w:t>kept</w:t></w:r><w:del><w:r><w:delText>gone</w:delText><w:t>gone</w:t></w:r></w:del>"
        "<w:ins><w:r><w:t> new</w:t><w:tab/><w:t>tab</w:t><w:br/><w:t>line</w:t><w:br w:type='page'/></w:r></w:ins>"
        f"<w:r><w:instrText>PAGE</w:instrText></w:r></w:p><w:sdt><w:sdtContent>{p('control')}</w:sdtContent></w:sdt>",
        "kept new  tab\nline\n\ncontrol",
        {},
    ),
    "symbols": (
        p("a", runs="".join(run(f'<w:sym w:font="{font}" w:char="{code}"/>') for font, code in SYMBOLS)),
        "aα≥→✓•",
        {},
    ),
    "private codes": (p("a", runs=run("<w:t>\uf0e0 b</w:t>", '<w:rFonts w:ascii="Wingdings"/>')), "a→ b", {}),
    "box": (field_of_an_old_form("<w:checkBox><w:default w:val='0'/></w:checkBox>"), "When: [ ]", {}),
    "checked": (field_of_an_old_form("<w:checkBox><w:checked/></w:checkBox>"), "When: [x]", {}),
    "first": (field_of_an_old_form(f"<w:ddList>{CHOICES}</w:ddList>"), "When: Summer", {}),
    "chosen": (field_of_an_old_form(f"<w:ddList><w:result w:val='1'/>{CHOICES}</w:ddList>"), "When: Winter", {}),
    "none": (field_of_an_old_form(f"<w:ddList><w:result w:val='7'/>{CHOICES}</w:ddList>"), "When:", {}),
    "empty": (field_of_an_old_form("<w:ddList><w:result w:val='x'/></w:ddList>"), "When:", {}),
}


@pytest.mark.parametrize(("body", "text", "parts"), TEXTS.values(), ids=TEXTS)
def test_what_is_read_of_a_body(body: str, text: str, parts: dict[str, str]) -> None:
    assert read(body, **parts).text == text


@pytest.mark.parametrize("bad", ["x", "-1", "", "99999999999", "٣"])
def test_numbers_that_are_none(bad: str) -> None:
    lists = numbering(level(0, "%1.").replace('w:val="1"', f'w:val="{bad}"').replace('ilvl="0"', f'ilvl="{bad}"'))
    assert read(p("a", properties=in_list(1, bad)), numbering=lists).text.endswith("a")


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
    for deep in ("<w:p>" * 5000, "<w:sdt>" * 3000 + p("x") + "</w:sdt>" * 3000):
        assert refused(docx(deep)).what.startswith("a.docx is a Word document")
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


def test_hidden_text_and_readings_are_left_out() -> None:
    hidden = run("<w:t> (ask Ann)</w:t>", "<w:vanish/>") + run("<w:t>.</w:t>", '<w:vanish w:val="0"/>')
    reading, base = (run(f"<w:t>{text}</w:t>") for text in ("とうきょう", "東京"))
    ruby = f"<w:ruby><w:rt>{reading}</w:rt><w:rubyBase>{base}</w:rubyBase></w:ruby>"
    struck = run("<w:t>four</w:t>", "<w:strike/>") + run("<w:t> six</w:t>", "<w:dstrike/>")
    document = read(p("The dam is safe", runs=hidden) + p("", runs=run(ruby)) + p("Boats pay five.", runs=struck))
    assert document.text == "The dam is safe.\n\n東京\n\nBoats pay five."
    changes = document.extraction.changes
    assert (changes["hidden text"], changes["deleted text"], document.extraction.left_out) == (1, 2, 4)


def test_formulas_and_charts_that_are_objects_are_counted() -> None:
    formula = "<w:object><w:OLEObject ProgID='Equation.DSMT4'/></w:object>"
    document = read(p("The level is ", runs=run(formula) + run("<w:drawing><chart/></w:drawing>" * 2)))
    assert document.extraction.unread == 3
    assert document.extraction.warnings == ("3 objects were not read: formulas or charts of a.docx.",)
