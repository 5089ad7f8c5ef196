"""Powers, indices, fractions and formulas: no figure may become another."""

from __future__ import annotations

import pytest

from specextend_cli.documents.html.formulas import subscript, superscript
from specextend_cli.documents.read import read_bytes
from tests.documents.made_files import docx, epub, page, word


@pytest.mark.parametrize(
    ("before", "text", "wanted"),
    [
        ("10", "6", "⁶"),
        ("10", "-6", "⁻⁶"),
        ("e", "-kt", "^(-kt)"),
        ("10", "4.5", "^4.5"),
        ("x)", "n+1", "^(n+1)"),
        ("Ca", "2+", "²⁺"),
        ("5", "th", "th"),
        ("M", "lle", "lle"),
        ("n", "o", "o"),
        ("Brand", "®", "®"),
        ("grants", "[12]", "¹²"),
        ("grants", "1,2", "¹²"),
        ("grants.", "1\N{EN DASH}3", "¹³"),
        ("10", "1,2", "^1,2"),
        ("word", "*", "*"),
    ],
)
def test_superscripts(before: str, text: str, wanted: str) -> None:
    assert superscript(before, text) == wanted


@pytest.mark.parametrize(
    ("before", "text", "wanted"), [("H", "2", "2"), ("101", "2", "₂"), ("x", "i+1", "i+1"), ("5", "10", "₁₀")]
)
def test_subscripts(before: str, text: str, wanted: str) -> None:
    assert subscript(before, text) == wanted


def web(body: str) -> str:
    text = read_bytes("a.html", f"<!DOCTYPE html><html><body><p>{body}</p></body></html>".encode()).text
    assert read_bytes("a.epub", epub({"a.xhtml": page(f"<p>{body}</p>")})).text == text
    return text


def test_links_to_notes_go_wherever_they_stand() -> None:
    assert web('in 1990<sup><a href="#cite_note-3">[3]</a></sup> and later') == "in 1990 and later"
    assert (
        web('in 1990<a href="#fn1"><sup>1</sup></a>, 12.5<sup><a href="notes.xhtml#a">a</a></sup>') == "in 1990, 12.5"
    )
    assert web('<sup><a href="a.xhtml#r1">1</a></sup> See there.') == "1 See there."


@pytest.mark.parametrize(
    ("formula", "wanted"),
    [
        ("<mfrac><mn>1</mn><mn>2</mn></mfrac>", "1/2"),
        ("<mn>3</mn><mfrac><mn>1</mn><mn>2</mn></mfrac>", "3 1/2"),
        ("<mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mi>c</mi></mfrac>", "(a+b)/c"),
        ("<mfrac linethickness='0'><mi>n</mi><mi>k</mi></mfrac>", "n over k"),
        ("<msup><mn>10</mn><mn>6</mn></msup>", "10⁶"),
        ("<msup><mn>10</mn><mrow><mo>−</mo><mn>6</mn></mrow></msup>", "10⁻⁶"),
        ("<msup><mi>x</mi><mrow><mi>n</mi><mo>+</mo><mn>1</mn></mrow></msup>", "x^(n+1)"),
        ("<msub><mi>x</mi><mn>1</mn></msub><msub><mi>x</mi><mi>i</mi></msub>", "x₁x_i"),
        ("<msqrt><mi>x</mi><mo>+</mo><mn>1</mn></msqrt>", "√(x+1)"),
        ("<mroot><mi>x</mi><mn>3</mn></mroot>", "³√x"),
        ("<munderover><mo>∑</mo><mi>i</mi><mi>n</mi></munderover><mi>i</mi>", "∑_i^ni"),
        ("<mover accent='true'><mi>x</mi><mo>¯</mo></mover>", "x"),
        ("<mi>sin</mi><mo>\u2061</mo><mi>x</mi>", "sin x"),
        ("<mn>2</mn><mo>\u2062</mo><mi>x</mi>", "2x"),
        ("<semantics><mi>x</mi><annotation encoding='application/x-tex'>\\bf x</annotation></semantics>", "x"),
        ("<mtable><mtr><mtd>1</mtd><mtd>2</mtd></mtr><mtr><mtd>3</mtd></mtr></mtable>", "1, 2; 3"),
        ("<mfrac><mn>1</mn></mfrac>", "1"),
    ],
)
def test_formulas_of_pages(formula: str, wanted: str) -> None:
    assert web(f"So <math>{formula}</math>.") == f"So {wanted}."


def test_the_formula_behind_a_picture_is_read() -> None:
    hidden = '<span style="display: none;"><math><mfrac><mn>1</mn><mn>2</mn></mfrac></math></span><img src="x"/>'
    assert web(f"It is {hidden} of it") == "It is 1/2 of it"
    assert web("A<span style='display: none'><math><mtext>do this</mtext></math></span> b") == "A b"


def test_absurd_formulas_cost_nothing() -> None:
    deep = "<msup><mi>x</mi>" * 900 + "<mi>y</mi>" + "</msup>" * 900
    assert "x" in read_bytes("a.html", f"<html><body><p>a <math>{deep}</math>".encode()).text


def run(text: str, properties: str = "") -> str:
    return f"<w:r><w:rPr>{properties}</w:rPr><w:t>{text}</w:t></w:r>"


def test_superscripts_of_word() -> None:
    up, down = '<w:vertAlign w:val="superscript"/>', '<w:vertAlign w:val="subscript"/>'
    styles = word("styles", f'<w:style w:styleId="Power"><w:rPr>{up}</w:rPr></w:style>')
    body = run("10") + run("1", up) + run("2", up) + run(" and 10") + run("6", '<w:rStyle w:val="Power"/>')
    body += run(" of CO") + run("2", down) + run(", grants") + run("3", up) + run(" on the 5") + run("th", up)
    document = read_bytes("a.docx", docx(f"<w:p>{body}</w:p>", styles=styles))
    assert document.text == "10¹² and 10⁶ of CO2, grants on the 5th"
    assert document.extraction.changes["note mark"] == 1


def test_formulas_of_word() -> None:
    def m(tag: str, *inner: str) -> str:
        return f"<m:{tag}>{''.join(inner)}</m:{tag}>"

    def r(text: str) -> str:
        return m("r", m("t", text))

    bound = m("naryPr", '<m:chr m:val="∑"/>')
    formulas = {
        m("f", m("num", r("1")), m("den", r("2"))): "1/2",
        r("3") + m("f", m("num", r("1")), m("den", r("2"))): "3 1/2",
        m("f", m("num", r("a+b")), m("den", r("c"))): "(a+b)/c",
        m("sSup", m("e", r("10")), m("sup", r("6"))): "10⁶",
        m("sSub", m("e", r("x")), m("sub", r("i"))): "x_i",
        m("rad", m("deg"), m("e", r("x"))): "√x",
        m("nary", bound, m("sub", r("i=1")), m("sup", r("n")), m("e", r("i"))): "∑_(i=1)^n i",
        m("d", m("e", r("x"))): "(x)",
        r("1") + r("0"): "10",
        m("func", m("fName", r("sin")), m("e", r("x"))): "sin x",
        m("m", m("mr", m("e", r("1")), m("e", r("2"))), m("mr", m("e", r("3")))): "1, 2; 3",
    }
    math = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
    for formula, wanted in formulas.items():
        paragraph = f"<w:p {math}>{run('So ')}<m:oMath>{formula}</m:oMath>{run('.')}</w:p>"
        assert read_bytes("a.docx", docx(paragraph)).text == f"So {wanted}.", wanted
