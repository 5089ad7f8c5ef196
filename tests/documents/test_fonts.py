"""Fonts whose dictionaries say more about their characters than PDFium reads, and TeX's that say nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from pypdf.generic import DictionaryObject, NameObject

from specextend_cli.documents.pdf.fonts import MappedPages, _fonts, meaning
from specextend_cli.documents.read import read_bytes
from tests.documents.raw_pdf import ASCII, bitmap_font_pdf, font_pdf, raw_pdf, show, show_lines, unicode_map

FIRST = "the \x1brst \x1cood of the year was con\x1bned to \x1cat \x1belds, and the o\x1dce di\x1eered over it."
WHOLE = "the first flood of the year was confined to flat fields, and the office differed over it."


def named(lines: list[str], names: Mapping[str, str], told: Mapping[str, str]) -> bytes:
    """Lines in a font whose glyphs have `names`, and whose map says that they stand for `told`."""
    differences = " ".join(f"{ord(code)} /{name}" for code, name in names.items())
    encoding = f"/Encoding << /BaseEncoding /WinAnsiEncoding /Differences [{differences}] >>"
    font = f"/Subtype /Type1 /BaseFont /Times-Roman {encoding} /ToUnicode 3 0 R"
    return font_pdf([show_lines(lines)], font, unicode_map(ASCII | dict(told)))


def test_a_lone_character_that_pdfium_drops_is_counted() -> None:
    document = read_bytes("a.pdf", raw_pdf([show(72, 700, "the b weir")], {"b": "\x02"}))
    assert next(edit.kind for edit in document.extraction.edits) == "unreadable character"
    assert document.text.split() == ["the", "weir"]


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("f_i", "f_l", "f_f_i", "f_f"), "ilif"),
        (("fi", "fl", "ffi", "ff"), "ffff"),
        (("uniFB01", "uniFB02", "uniFB03", "f_f.alt"), "ilif"),
    ],
)
def test_ligatures_are_what_their_glyphs_are_called(names: tuple[str, ...], told: str) -> None:
    codes = "\x1b\x1c\x1d\x1e"
    data = named([FIRST], dict(zip(codes, names, strict=True)), dict(zip(codes, told, strict=True)))
    assert read_bytes("a.pdf", data).text == WHOLE


def test_a_ligature_of_capitals_is_read() -> None:
    lines = ["We measured it. \x1fe river rose. \x1fis was new. \x1fey wrote it down."]
    document = read_bytes("a.pdf", named(lines, {"\x1f": "T_h"}, {"\x1f": "h"}))
    assert document.text == "We measured it. The river rose. This was new. They wrote it down."


def test_maps_that_do_not_contradict_the_names_stay() -> None:
    """A name of several letters for what the map says is another one: the map is right."""
    lines = ["the \x1brst \x1brst \x1bnal word"]
    assert "x" in read_bytes("a.pdf", named(lines, {"\x1b": "f_i"}, {"\x1b": "x"})).text


@pytest.mark.parametrize(
    "text",
    [
        "The café of José in Besançon, and the surveyors’ “kept” report.",
        "Die Mühle in Köln mahlt täglich; es war schön, früher.",
        "El niño de Jesús comió aquí más jamón.",
    ],
)
def test_codes_of_symbolic_fonts_are_those_of_windows(text: str) -> None:
    widths = f"/FirstChar 0 /LastChar 255 /Widths [{'500 ' * 256}]"
    described = "/Type /FontDescriptor /FontName /AB+Roman /Flags 4 /FontBBox [0 0 500 700] /ItalicAngle 0 /StemV 80"
    font = f"/Subtype /TrueType /BaseFont /AB+Roman {widths} /FontDescriptor << {described} >>"
    assert read_bytes("a.pdf", font_pdf([show_lines([text.encode("cp1252").decode("latin-1")])], font)).text == text


@pytest.mark.parametrize("shift", [0, 1])
def test_type_3_fonts_with_names_are_read(shift: int) -> None:
    """By the names of the glyphs, whatever the codes."""
    text = "The mill ground forty sacks a day in the year of the flood."
    special = {" ": "space", ".": "period"}
    names = {ord(letter) + shift: special.get(letter, letter) for letter in set(text)}
    document = read_bytes("a.pdf", bitmap_font_pdf(["".join(chr(ord(letter) + shift) for letter in text)], names))
    assert document.text == text
    assert not document.extraction.warnings


def test_names_of_glyphs() -> None:
    letters = {"T_h": "Th", "f_f_i.alt": "ffi", "ffl": "ffl", "eacute": "é", "uni00E90301": "é\u0301", "u1D538": "A"}
    assert {name: meaning(name) for name in letters} == letters
    assert not any(map(meaning, ("a65", "g12", "f_unknownname", "uFFFFFF", ".notdef")))


def test_fonts_of_forms_are_found_once() -> None:
    """Also where forms hold themselves, many times."""
    resources, font = DictionaryObject(), DictionaryObject()
    form = DictionaryObject({NameObject("/Resources"): resources})
    resources[NameObject("/Font")] = DictionaryObject({NameObject("/F0"): font})
    resources[NameObject("/XObject")] = DictionaryObject({NameObject(f"/X{n}"): form for n in range(50)})
    page = DictionaryObject({NameObject("/XObject"): DictionaryObject({NameObject("/X"): form})})
    assert list(_fonts(page, set())) == [font]


def test_a_page_that_cannot_be_mended_is_read_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MappedPages, "_mended", lambda pages, index: b"no PDF")
    assert MappedPages(Path("a.pdf"), None).page(1) is None


# ----------------------------------------------------------------------------------- TeX's bitmap fonts


@pytest.mark.parametrize(
    "codes",
    [
        "\xcf\xf0\xe5\xe4\xf1\xf2\xe0\xe2\xeb\xff\xe5\xf2 \xe2\xf1\xe5 o\x1cces \xff\xe7\xfb\xea",  # Cyrillic
        "oÎrli\xb9zei kaÈ mìnimoc âqjrìc eÐnai tä \x1claki stn o\x1cc",  # Greek
    ],
)
def test_other_scripts_are_said_to_be_unread(codes: str) -> None:
    assert "cannot be read" in read_bytes("a.pdf", bitmap_font_pdf([codes])).extraction.warnings[0]
