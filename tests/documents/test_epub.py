from __future__ import annotations

import pytest

from specextend_cli.documents.read import read_bytes
from specextend_cli.errors import InputError
from tests.documents.edge_cases import refusal
from tests.documents.made_files import epub, page, zipped

ENCRYPTED = (
    '<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container" xmlns:e="http://www.w3.org/2001/04/xmlenc#">'
    '<e:EncryptedData><e:EncryptionMethod Algorithm="{}"/><e:CipherData><e:CipherReference URI="OPS/{}"/>'
    "</e:CipherData></e:EncryptedData></encryption>"
)


def refused(data: bytes) -> InputError:
    return refusal(lambda: read_bytes("a.epub", data))


def test_spine_order_headings_and_notes() -> None:
    files = {
        "b.xhtml": page("<h1>Second</h1><p>two</p><h2>Part</h2><p>three&nbsp;&hellip;</p>"),
        "note.xhtml": page("<p><sup>1</sup>A note.</p>"),
        "a.xhtml": page("<p>One<sup>1</sup> <a id='x'/>start</p><script/><p>next</p>"),
        "c.xhtml": page("<p>named</p>"),
    }
    book = epub(files, spine=("a.xhtml", "b.xhtml", "c.xhtml"), aside=("note.xhtml",))
    document = read_bytes("-", book)
    assert (document.kind, document.unit, document.title) == ("epub", "section", "A River & its Book")
    assert document.text == "One start\n\nnext\n\nSecond\n\ntwo\n\nPart\n\nthree …\n\nnamed\n\n1 A note."
    assert [page.title for page in document.pages] == ["", "Second", "Part", "", ""]
    assert document.extraction.failed == ()


def test_a_missing_file_is_a_failed_section() -> None:
    files = {"a.xhtml": page("<p>a</p>"), "z.xhtml": page("<p>z</p>")}
    document = read_bytes("a.epub", epub(files, spine=("a.xhtml", "lost.xhtml", "z.xhtml")))
    assert document.text == "a\n\nz"
    assert document.extraction.failed == (2,)
    assert [page.number for page in document.pages] == [1, 3]
    assert document.extraction.warnings == ("Section 2 of a.epub could not be read.",)
    error = refused(epub({}, spine=("lost.xhtml",)))
    assert error.what == "a.epub: none of 1 section could be read"
    assert error.why == "a file of the book is missing"


@pytest.mark.parametrize("damage", [{"central": -30}, {"entry": 40}, {"central": -36}], ids=["crc", "data", "method"])
def test_a_damaged_file_is_a_failed_section(damage: dict[str, int]) -> None:
    files = {f"{name}.xhtml": page(f"<h1>{name}</h1><p>Part {name} of the book. {'rain ' * 50}</p>") for name in "abc"}
    book = bytearray(epub(files))
    places = {"entry": book.index(b"OPS/b.xhtml"), "central": book.rindex(b"OPS/b.xhtml")}
    for place, offset in damage.items():
        book[places[place] + offset] ^= 0x63
    document = read_bytes("a.epub", bytes(book))
    assert [section.title for section in document.pages] == ["a", "c"]
    assert document.extraction.failed == (2,)
    assert document.extraction.warnings == ("Section 2 of a.epub could not be read.",)


def test_entities_of_a_file_are_refused_and_the_rest_is_read() -> None:
    bomb = '<!DOCTYPE html [<!ENTITY a "lol"><!ENTITY f SYSTEM "file:///etc/passwd">]>' + page("<p>&a;&f;</p>")
    document = read_bytes("a.epub", epub({"a.xhtml": bomb, "b.xhtml": page("<p>b</p>")}))
    assert (document.text, document.extraction.failed) == ("b", (1,))


def test_protected_books() -> None:
    files = {"a.xhtml": page("<p>a</p>")}
    error = refused(epub(files, extra={"META-INF/encryption.xml": ENCRYPTED.format("http://x#aes", "a.xhtml")}))
    assert error.what == "a.epub is copy-protected"
    fonts = ENCRYPTED.format("http://www.idpf.org/2008/embedding", "font.otf")
    assert read_bytes("a.epub", epub(files, extra={"META-INF/encryption.xml": fonts})).text == "a"


@pytest.mark.parametrize(
    "parts",
    [
        {"META-INF/container.xml": "<container/>"},
        {"META-INF/container.xml": "not xml"},
        {"META-INF/container.xml": '<c><rootfile full-path="../../etc/passwd"/></c>'},
        {"META-INF/container.xml": '<c><rootfile full-path="x"/></c>', "x": "<package/>"},
    ],
)
def test_damaged_books(parts: dict[str, str]) -> None:
    assert refused(zipped(parts)).what == "a.epub is an EPUB book and damaged"


def test_nothing_is_read_twice() -> None:
    assert read_bytes("a.epub", epub({"a.xhtml": page("<p>a</p>")}, spine=("a.xhtml",) * 50)).text == "a"


def test_paths_lead_nowhere_but_into_the_book() -> None:
    names = ("../../../etc/passwd", "file:///etc/passwd", "http://example.org/x.xhtml", "%2e%2e/%2e%2e/etc/passwd")
    document = read_bytes("a.epub", epub({"a.xhtml": page("<p>a</p>")}, spine=("a.xhtml", *names)))
    assert document.text == "a"
    assert document.extraction.failed == (2, 3, 4, 5)


def pictures(*types: str) -> bytes:
    """A book whose spine is items of these media types."""
    items = "".join(f'<item id="i{n}" href="{n}.x" media-type="{kind}"/>' for n, kind in enumerate(types))
    refs = "".join(f'<itemref idref="i{n}"/>' for n in range(len(types)))
    package = f"<package><manifest>{items}</manifest><spine>{refs}</spine></package>"
    files = {f"{n}.x": page(f"<p>text {n}</p>") for n in range(len(types))}
    return zipped({"META-INF/container.xml": '<c><rootfile full-path="a.opf"/></c>', "a.opf": package} | files)


def test_pictures_in_the_place_of_pages_are_counted() -> None:
    document = read_bytes("a.epub", pictures("image/png", "application/xhtml+xml", "image/svg+xml"))
    assert (document.text, document.extraction.unread) == ("text 1", 2)
    assert document.extraction.warnings == ("2 pictures were not read that a.epub has in the place of pages.",)
    assert "pictures" in refused(pictures("image/jpeg", "application/pdf")).why
