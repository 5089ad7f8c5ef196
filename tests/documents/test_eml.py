from __future__ import annotations

from base64 import b64encode

import pytest

from specextend_cli.documents.formats import detect
from specextend_cli.documents.read import read_bytes
from specextend_cli.errors import InputError
from tests.documents.edge_cases import refusal
from tests.documents.made_files import message

SUBJECT = "The level of the river – März"
HEAD = f"{SUBJECT}\n\nFrom: Ann Río <ann@example.org>\nTo: bo@example.org\nDate: Mon, 02 Mar 2026 10:00:00 +0100"
CLOSED = "Plan\n\nFrom: a@b\n\nThe bridge is closed."
PART = "Content-Type: text/plain; charset=utf-8\n\nThe bridge is closed.\n"


def head(content: str) -> bytes:
    """A message "Plan" with this content type and what follows it."""
    return f"From: a@b\nSubject: Plan\nMIME-Version: 1.0\nContent-Type: {content}".encode()


def test_headers_and_the_text_part() -> None:
    text = "Dear Bo,\n\nthe water rises slowly at first and then within an hour it covers\nthe road.\n"
    document = read_bytes("a.eml", bytes(message(text, "<p>other</p><p hidden>preview</p>")))
    assert (document.kind, document.title) == ("email", SUBJECT)
    assert document.text == f"{HEAD}\n\nDear Bo,\n\n{' '.join(text.split()[2:])}"
    assert document.blocks[0].kind == "heading"
    assert (document.extraction.warnings, document.extraction.left_out) == ((), 0)


def test_html_where_there_is_no_text() -> None:
    stub = read_bytes("a.eml", bytes(message("Use HTML.", f"<p>{'many words ' * 20}</p><p hidden>preview</p>")))
    assert (stub.text[-10:], stub.extraction.left_out) == ("many words", 1)


def test_attachments_are_named() -> None:
    document = read_bytes("a.eml", bytes(message("See there.", Zü_pdf=b"%PDF-", b_png=b"x")))
    assert document.extraction.warnings == ("2 attachments were not read: Zü.pdf, b.png.",)
    assert document.extraction.unread == 2
    crowd = read_bytes("a.eml", bytes(message("x", **{f"n{n}_txt": b"" for n in range(12)})))
    assert crowd.extraction.warnings[0].endswith("n9.txt and 2 more.")
    only = head("text/plain; name=a.txt\nContent-Disposition: attachment; filename=a.txt\n\nThe bridge is closed.")
    assert read_bytes("a.eml", only).text == CLOSED
    beside = message("See there.")
    beside.add_attachment("The bridge is closed.", filename="a.txt")
    document = read_bytes("a.eml", bytes(beside))
    assert "closed" not in document.text
    assert document.extraction.warnings == ("1 attachment was not read: a.txt.",)
    error = refusal(lambda: read_bytes("a.eml", head("application/pdf; name=b.pdf\n\n%PDF-")))
    assert (error.what, error.why) == ("a.eml is an email without a text", "1 attachment was not read: b.pdf")


def test_forwarded_messages_are_read() -> None:
    outer = message("Forwarded.", a_pdf=b"%PDF-")
    inner = message("Inner text.")
    inner.replace_header("Subject", "The old bridge")
    outer.add_attachment(inner)
    document = read_bytes("a.eml", bytes(outer))
    assert document.text.endswith(f"Forwarded.\n\nThe old bridge\n\n{HEAD.split(chr(10), 2)[2]}\n\nInner text.")
    assert [page.title for page in document.pages] == [SUBJECT, "The old bridge"]
    assert document.extraction.warnings == ("1 attachment was not read: a.pdf.",)
    assert (document.extraction.unread, document.extraction.left_out) == (1, 0)
    saved = message("See there.", old_eml=bytes(inner))
    assert read_bytes("a.eml", bytes(saved)).text.endswith("Inner text.")


@pytest.mark.parametrize(
    ("declared", "written"),
    [
        ("----=_Part_1.2", "----=_Part_1.2"),
        ("----=_NextPart_000_0093_01C81419.EB75E850; charset=x", "----=_NextPart_000_0093_01C81419.EB75E850"),
        ('"quoted part"', "quoted part"),
        ("'=single'", "'=single'"),
    ],
)
def test_boundaries_as_mail_programs_write_them(declared: str, written: str) -> None:
    data = head(f"multipart/alternative; boundary={declared}\n\n--{written}\n{PART}\n--{written}--\n")
    assert read_bytes("a.eml", data).text == CLOSED


SEALED = "-----BEGIN PGP MESSAGE-----\n\nhQEMA5\n=abcd\n-----END PGP MESSAGE-----\n"
ENCRYPTED = {
    "pgp": 'multipart/encrypted; boundary=foo; protocol="application/pgp-encrypted"\n\n--foo\n'
    "Content-Type: application/pgp-encrypted\n\nVersion: 1\n\n--foo\n"
    f"Content-Type: application/octet-stream\n\n{SEALED}\n--foo--\n",
    "smime": "application/pkcs7-mime; smime-type=enveloped-data; name=smime.p7m\n\nMIIB",
    "smime, old": "application/x-pkcs7-mime; name=smime.p7m\nContent-Disposition: attachment\n\nMIIB",
    "inline": f"text/plain\n\n{SEALED}",
}


@pytest.mark.parametrize("sealed", ENCRYPTED.values(), ids=ENCRYPTED)
def test_encrypted_mail(sealed: str) -> None:
    error = refusal(lambda: read_bytes("a.eml", head(sealed)))
    assert error.what == "a.eml is an email without a text"
    assert "encrypted" in error.why
    assert error.fix
    mixed = head(f"multipart/mixed; boundary=out\n\n--out\n{PART}\n--out\nContent-Type: {sealed}\n--out--\n")
    document = read_bytes("a.eml", mixed)
    assert (document.text, document.extraction.unread) == (CLOSED, 1)
    assert document.extraction.warnings[0] == "1 attachment was not read: an encrypted or sealed text."


def test_mail_in_utf_16() -> None:
    data = head("text/plain\n\nDer Weg über die Brücke.").decode()
    for encoded in (data.encode("utf-16"), data.encode("utf-32")):
        document = read_bytes("-", encoded)
        assert (document.kind, document.text) == ("email", "Plan\n\nFrom: a@b\n\nDer Weg über die Brücke.")
    body = b64encode("Der Weg über die Brücke.".encode("utf-16")).decode()
    part = head(f"text/plain; charset=utf-16\nContent-Transfer-Encoding: base64\n\n{body}")
    assert read_bytes("a.eml", part).text.endswith("über die Brücke.")


def test_a_mailbox_has_a_section_for_each_message() -> None:
    messages = [message("First text.\n\n>From the hills.\nFrom here on too."), message(None, "<p>Zweite &uuml;</p>")]
    messages[1].replace_header("Subject", "Re: Level")
    box = b"\n".join(b"From ann@x Mon Jun  6 22:21:22 2005\n" + bytes(made) for made in messages)
    for data in (box, box.replace(b"\n", b"\r\n")):
        document = read_bytes("a.mbox", data)
        assert (document.kind, document.title) == ("email", "")
        assert [page.title for page in document.pages] == [SUBJECT, "Re: Level"]
        assert "First text.\n\nFrom the hills." in document.text
        assert document.text.endswith("Zweite ü")
    assert read_bytes("-", box.replace(b"Message-ID: <1@example.org>\n", b"")).kind == "email"
    document = read_bytes("a.mbox", box + b"\nFrom bo@x Tue Jun  7 22:21:22 2005\n" + head(ENCRYPTED["smime"]))
    assert document.extraction.unread == 1
    assert "First text." in document.text


DEEP = "text/plain\n\ndeep"
for _level in range(60):
    DEEP = f"multipart/mixed; boundary=b{_level}\n\n--b{_level}\nContent-Type: {DEEP}\n--b{_level}--\n"
IMAGES = "--m\nContent-Type: text/plain\n\n{}\n\n--m\nContent-Type: image/png\n\nx\n"
PARTS = {
    "signature": (f"signed; boundary=s\n\n--s\n{PART}\n--s\nContent-Type: application/pgp-signature\n\nx\n--s--\n", 0),
    "texts": (f"mixed; boundary=m\n\n{IMAGES.format('The bridge')}{IMAGES.format('is closed.')}--m--\n", 2),
    "nested": (  # a PDF beside the HTML alternative
        f"alternative; boundary=a\n\n--a\n{PART}\n--a\nContent-Type: multipart/mixed; boundary=b\n\n--b\n"
        "Content-Type: text/html\n\n<p>The bridge is closed.</p>\n--b\nContent-Type: image/png\n\nx\n--b--\n--a--\n",
        1,
    ),
    "deep": (f"mixed; boundary=o\n\n--o\n{PART}\n--o\nContent-Type: {DEEP}\n--o--", 1),
}


@pytest.mark.parametrize("name", PARTS)
def test_texts_of_many_parts(name: str) -> None:
    parts, unread = PARTS[name]
    document = read_bytes("a.eml", head(f"multipart/{parts}"))
    assert (" ".join(document.text.split()), document.extraction.unread) == (" ".join(CLOSED.split()), unread)


def test_a_crowd_of_parts_is_read() -> None:
    crowd = head("multipart/mixed; boundary=o\n\n" + "--o\nContent-Type: message/rfc822\n\n" * 3_000)
    assert read_bytes("a.eml", crowd).text


def test_what_is_an_email() -> None:
    assert detect(bytes(message("x"))) == "email"
    assert detect(b"From ann Mon Mar 2\nReceived: by x\n\tand y\nFrom: a\n\nx") == "email"
    assert detect(b"MEMORANDUM\n\nTo: Bo\nFrom: Ann\n\nx") == "text"
    assert detect(b"From: Ann\nTo: Bo\nSubject: rain\nDate: today\n\nA memo.") == "text"
    assert detect(b"Received: today\n\nwords") == "text"
    data = b"From: Ann\nTo: Bo\nSubject: rain\n\nIt rains."  # the suffix decides
    assert read_bytes("a.txt", data).kind == "text"
    assert read_bytes("a.eml", data).text == "rain\n\nFrom: Ann\nTo: Bo\n\nIt rains."
    assert read_bytes("a.eml", b"It rains.").extraction.warnings == ("a.eml is a text, not an email.",)


def test_messages_without_text_or_with_bad_parts() -> None:
    fields = b"From: a@b\nMIME-Version: 1.0\n"
    made = fields + b"Content-Type: multipart/mixed; boundary=x\n\n--y\nwords"
    assert read_bytes("a.eml", made).text == "From: a@b\n\n--y words"
    assert "words" in read_bytes("a.eml", fields + b"Content-Transfer-Encoding: base64\n\nd29yZHM").text
    with pytest.raises(InputError, match="holds no text"):
        read_bytes("a.eml", b"Received: x\nSubject:\nMIME-Version: 1.0\n\n")


def test_escapes_are_removed() -> None:
    made = b"From: \x1b[31mred@b\nMIME-Version: 1.0\nSubject: =?utf-8?q?=1b]0;x=07title?=\n\nbody \x1b[2J text\n"
    document = read_bytes("a.eml", made)
    assert "\x1b" not in document.text + document.title + document.pages[0].title
    assert "title" in document.title
