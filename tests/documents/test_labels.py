"""Declared encodings, as browsers understand them."""

from __future__ import annotations

import pytest

from specextend_cli.documents.decode import codec
from specextend_cli.documents.read import read_bytes
from tests.documents.made_files import epub, page


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
        ("utf-16", "utf-8", "река"),
        ("gb2312", "utf-8", "中国的河流有很多水"),
    ],
)
def test_pages_are_read_as_browsers_read_them(label: str, written: str, text: str) -> None:
    document = read_bytes("a.html", declared(label, text.encode(written)))
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
    assert read_bytes("a.html", declared(label, "Größe, schön, für".encode("cp1252"))).text == "Größe, schön, für"


def test_mail_and_books_too() -> None:
    message = b'From: a@b.c\nMIME-Version: 1.0\nContent-Type: text/plain; charset="gb2312"\n\n'
    assert "请看镕基一文" in read_bytes("a.eml", message + "请看镕基一文".encode("gbk")).text
    for label, written, text in (("GB2312", "gbk", "镕基一文"), ("shift_jis", "cp932", "川の水①\\は高い")):
        xhtml = f'<?xml version="1.0" encoding="{label}"?>' + page(f"<p>{text}</p>")
        assert read_bytes("a.epub", epub({"a.xhtml": xhtml.encode(written)})).text == text


def test_labels_that_mean_nothing() -> None:
    for label in ("", "no-such-thing", "idna", "unicode_escape", "rot13", "hex", "\0", "x-user-defined", "a" * 999):
        assert codec(label) is None
