"""Encodings: declared ones as browsers understand them, others by byte-order mark, as UTF-16, or guessed."""

from __future__ import annotations

import pytest

from specextend_cli.documents.read import read_bytes
from tests.documents.made_files import epub, page

RUSSIAN = "Совет решил поднять плотину: река опять вышла из берегов."
JAPANESE = "議会は堤防を高くすることを決めた。川がまた溢れたからである。"


def declared(label: str, data: bytes) -> bytes:
    return b"<html><head><meta charset=" + label.encode() + b"></head><body><p>" + data + b"</p></body></html>"


@pytest.mark.parametrize(
    ("label", "written", "text"),
    [
        ("gb2312", "gbk", "中国的河流有很多水，请看镕基一文"),
        ("euc-kr", "cp949", "강물이 높다 똠방각하 펲시콜라"),
        ("shift_jis", "cp932", "川の水①は高い㈱"),
        ("euc-jp", "euc_jis_2004", "川の水①は高い"),
        ("big5", "big5hkscs", "香港嘅河流好多水"),
        ("latin1", "cp1252", "“Größe” – €5"),
        ("iso-2022-jp", "iso2022_jp", "川の水は高い"),
        ("windows-1251", "cp1251", RUSSIAN),
        ("utf-8", "utf-16", RUSSIAN),
        ("latin-1", "utf-8-sig", RUSSIAN),
        # labels that the bytes contradict, or that mean nothing
        ("utf-16", "utf-8", "река"),
        ("gb2312", "utf-8", "中国的河流有很多水"),
        ("no-such-thing", "utf-8", RUSSIAN),
        ("unicode_escape", "utf-8", RUSSIAN),
    ],
)
def test_pages_are_read_as_browsers_read_them(label: str, written: str, text: str) -> None:
    document = read_bytes("a.html", declared(label, b"").decode().replace("<p>", f"<p>{text}").encode(written))
    assert document.text == text
    assert document.extraction.warnings == ()


@pytest.mark.parametrize(
    ("label", "written", "text", "wrong"),
    [
        ("gb2312", "gbk", "中国的河流有很多水", b"\xff"),
        ("euc-kr", "cp949", "강물이 높다", b"\xff"),
        ("shift_jis", "cp932", "川の水は高い", b"\x81"),
        ("windows-1253", "cp1253", "Το ποτάμι", b"\xd2"),
    ],
)
def test_one_wrong_byte_does_not_spoil_the_page(label: str, written: str, text: str, wrong: bytes) -> None:
    document = read_bytes("a.html", declared(label, text.encode(written) + wrong))
    assert document.text == text + "�"
    assert "were replaced by �" in document.extraction.warnings[0]


@pytest.mark.parametrize("label", ["utf-8", "euc-jp"])
def test_a_label_that_most_bytes_contradict_is_not_believed(label: str) -> None:
    document = read_bytes("a.html", declared(label, "Größe, schön, für".encode("cp1252")))
    assert document.text == "Größe, schön, für"
    assert "read as Windows-1252" in document.extraction.warnings[0]


def test_mail_and_books_too() -> None:
    for charset, written, text in (
        ("gb2312", "gbk", "请看镕基一文"),
        ("koi8-r", "koi8-r", "Река"),
        ("x", "utf-8", "Größe"),
    ):
        head = f'From: a@b.c\nMIME-Version: 1.0\nContent-Type: text/plain; charset="{charset}"\n\n'
        assert text in read_bytes("a.eml", head.encode() + text.encode(written)).text
    for label, written, text in (("GB2312", "gbk", "镕基一文"), ("shift_jis", "cp932", "川の水①\\は高い")):
        xhtml = f'<?xml version="1.0" encoding="{label}"?>' + page(f"<p>{text}</p>")
        assert read_bytes("a.epub", epub({"a.xhtml": xhtml.encode(written)})).text == text


# ------------------------------------------------------------------------------------------------------ undeclared


@pytest.mark.parametrize(
    ("words", "written", "name"),
    [
        (RUSSIAN, "cp1251", "Windows-1251"),
        (RUSSIAN, "koi8-r", "KOI8-R"),
        ("Το συμβούλιο αποφάσισε να υψώσει το φράγμα.", "cp1253", "Windows-1253"),
        ("Rada postanowiła podwyższyć tamę, ponieważ rzeka znów wystąpiła z brzegów.", "cp1250", "Windows-1250"),
        ("L’été dernier, le fleuve a débordé à Orléans.", "mac_roman", "MacRoman"),
        (JAPANESE, "euc_jp", "EUC-JP"),
        ("议会决定加高堤坝,因为河水又一次漫过了河岸。", "gb18030", "GB18030"),
        ("L’été dernier, le fleuve a débordé à Orléans : « trop d’eau ».", "cp1252", "Windows-1252"),
        ("Der Fluß steigt im Frühling über die Ufer, und die Bürger räumen ihre Häuser.", "cp850", "cp850"),
    ],
)
def test_encodings_are_guessed_by_their_letters(words: str, written: str, name: str) -> None:
    document = read_bytes("a.txt", f"Levels, 2025\n\n{words}\n".encode(written))
    assert document.text.split("\n\n")[1] == words
    assert f"read as {name}, " in document.extraction.warnings[0]


def test_an_encoding_is_guessed_by_a_few_letters_in_a_long_text() -> None:
    text = "The river rises in spring.\n" * 9_000 + RUSSIAN
    assert read_bytes("a.txt", text.encode("koi8-r")).text.endswith(RUSSIAN)


@pytest.mark.parametrize("written", ["utf-8-sig", "utf-16", "utf-32"])
def test_unicode_with_a_mark(written: str) -> None:
    document = read_bytes("a.txt", f"Levels\n\n{RUSSIAN}\n".encode(written))
    assert (document.text, document.extraction.warnings) == (f"Levels\n\n{RUSSIAN}", ())


@pytest.mark.parametrize(
    ("data", "text", "warnings"),
    [
        ("Größe – “Maß”".encode("cp1252"), "Größe – “Maß”", "a.txt is not UTF-8: read as Windows-1252, 6 bytes"),
        (b"caf\xe9 \x81", "café �", "1 byte of a.txt are not valid Windows-1252 and were replaced by �."),
        ("Größe ".encode() * 9 + b"\xff", "Größe " * 9 + "�", "1 byte of a.txt are not valid UTF-8 and were replaced"),
    ],
)
def test_guesses_and_damage_are_said(data: bytes, text: str, warnings: str) -> None:
    document = read_bytes("a.txt", data)
    assert document.text == text
    assert document.extraction.warnings[-1].startswith(warnings)
