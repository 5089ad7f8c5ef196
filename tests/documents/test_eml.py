from __future__ import annotations

import pytest

from specextend_cli.documents import read_bytes
from specextend_cli.documents.formats import detect
from specextend_cli.errors import InputError
from tests.documents.made_files import message

SUBJECT = "The level of the river – März"
HEAD = f"{SUBJECT}\n\nFrom: Ann Río <ann@example.org>\nTo: bo@example.org\nDate: Mon, 02 Mar 2026 10:00:00 +0100"


def test_headers_and_the_text_part() -> None:
    text = "Dear Bo,\n\nthe water rises slowly at first and then within an hour it covers\nthe road.\n"
    document = read_bytes("a.eml", bytes(message(text, "<p>other</p>")))
    assert (document.kind, document.title) == ("email", SUBJECT)
    whole = "the water rises slowly at first and then within an hour it covers the road."
    assert document.text == f"{HEAD}\n\nDear Bo,\n\n{whole}"
    assert document.blocks[0].kind == "heading"
    assert document.extraction.warnings == ()


def test_html_where_there_is_no_text() -> None:
    document = read_bytes("a.eml", bytes(message(None, "<h2>News</h2><p>Gr&ouml;&szlig;e</p><style>p{}</style>")))
    assert document.text == f"{HEAD}\n\nNews\n\nGröße"
    assert [page.title for page in document.pages] == [SUBJECT, "News"]
    stub = read_bytes("a.eml", bytes(message("Use HTML.", f"<p>{'many words ' * 20}</p>")))
    assert stub.text.endswith("many words")


def test_attachments_are_named() -> None:
    document = read_bytes("a.eml", bytes(message("See there.", a_pdf=b"%PDF-", b_png=b"x")))
    assert document.extraction.warnings == ("2 attachments were not read: a.pdf, b.png.",)
    outer = message("Forwarded.")
    outer.add_attachment(message("Inner text."))
    document = read_bytes("a.eml", bytes(outer))
    assert "Inner" not in document.text
    assert document.extraction.warnings == ("1 attachment was not read: a forwarded message.",)
    crowd = read_bytes("a.eml", bytes(message("x", **{f"n{n}_txt": b"" for n in range(12)})))
    assert crowd.extraction.warnings[0].endswith("n9.txt and 2 more.")


@pytest.mark.parametrize("charset", ["iso-8859-15", "utf-8", "no-such", "idna", "utf-16"])
def test_charsets(charset: str) -> None:
    head = f"From: a@b\nMIME-Version: 1.0\nSubject: s\nContent-Type: text/plain; charset={charset}\n\n".encode()
    body = "caf\xe9 \u20ac5".encode("iso-8859-15" if charset == "iso-8859-15" else "utf-8")
    assert read_bytes("a.eml", head + body).text.endswith("café €5")


def test_what_is_an_email() -> None:
    assert detect(bytes(message("x"))) == "email"
    assert detect(b"From ann Mon Mar 2\nReceived: by x\n\tand y\nFrom: a\n\nx") == "email"
    assert detect(b"MEMORANDUM\n\nTo: Bo\nFrom: Ann\n\nx") == "text"
    assert detect(b"From: Ann\nTo: Bo\nSubject: rain\nDate: today\n\nA memo.") == "text"
    assert detect(b"Received: today\n\nwords") == "text"


def test_messages_without_text_or_with_bad_parts() -> None:
    head = b"From: a@b\nMIME-Version: 1.0\n"
    assert read_bytes("a.eml", head + b"Content-Type: multipart/mixed; boundary=x\n\n--y\nwords").text == "From: a@b"
    assert "words" in read_bytes("a.eml", head + b"Content-Transfer-Encoding: base64\n\nd29yZHM").text
    with pytest.raises(InputError, match="holds no text"):
        read_bytes("a.eml", b"Received: x\nSubject:\nMIME-Version: 1.0\n\n")


def test_escapes_are_removed() -> None:
    made = b"From: \x1b[31mred@b\nMIME-Version: 1.0\nSubject: =?utf-8?q?=1b]0;x=07title?=\n\nbody \x1b[2J text\n"
    document = read_bytes("a.eml", made)
    assert "\x1b" not in document.text + document.title + "".join(page.title for page in document.pages)
    assert "title" in document.title
