"""The licence around a book of Project Gutenberg is left out; a text about it stays whole."""

from __future__ import annotations

import pytest

from specextend_cli.documents.document import Document
from specextend_cli.documents.read import read_bytes
from tests.documents.made_files import epub, message, p, page

STORY = "The council met on Tuesday. It was raining, and the river rose."
USE = "This ebook is for the use of anyone\nanywhere in the United States.\n\nTitle: The Bridge"
START = "*** START OF THE PROJECT GUTENBERG EBOOK THE BRIDGE\nOF STONE ***"
END = "*** END OF THE PROJECT GUTENBERG EBOOK THE BRIDGE OF STONE ***"
LICENCE = "START: FULL LICENSE\n\nPlease read this before you distribute this work."
OLD_USE = "Project Gutenberg's Etext of The Bridge\n\n***START**THE SMALL PRINT!**FOR PUBLIC DOMAIN ETEXTS**START***"
OLD_START = "*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*"


def words_left_out(document: Document) -> int:
    words = document.extraction.left_out
    assert f"The licence of Project Gutenberg in {document.name} was left out: {words} words." in (
        document.extraction.warnings
    )
    return words


@pytest.mark.parametrize(
    "parts",
    [
        (USE, START, STORY, END, LICENCE),
        (USE, START, STORY, "End of the Project Gutenberg EBook of The Bridge, by Ann", END, LICENCE),
        (USE, START, STORY),
        (OLD_USE, OLD_START, STORY, "End of Project Gutenberg's Etext of The Bridge"),
    ],
)
def test_a_typed_book(parts: tuple[str, ...]) -> None:
    document = read_bytes("a.txt", "\n\n".join(parts).encode())
    assert document.text == STORY
    assert words_left_out(document) == len(" ".join(parts).split()) - len(STORY.split())
    assert read_bytes("a.md", "\n\n".join(parts).encode()).text == STORY


def test_two_books_in_one_file() -> None:
    book = "\n\n".join((USE, START, STORY, END, LICENCE))
    assert read_bytes("a.txt", f"{book}\n\n{book}".encode()).text == f"{STORY}\n\n{STORY}"


def test_a_page_and_a_book() -> None:
    around = [f"<h2>The Project Gutenberg eBook</h2>{p(USE)}<div>{START}</div>", f"<div>{END}</div>{p(LICENCE)}"]
    story = f"<h1>The Bridge</h1>{p(STORY)}"
    for document in (
        read_bytes("a.html", page(around[0] + story + around[1]).encode()),
        read_bytes("a.epub", epub({f"{n}.xhtml": page(part) for n, part in enumerate((around[0], story, around[1]))})),
    ):
        assert document.text == f"The Bridge\n\n{STORY}"
        assert [place.title for place in document.pages] == ["The Bridge"]
        assert words_left_out(document) == len(f"The Project Gutenberg eBook {USE} {START} {END} {LICENCE}".split())


def test_a_text_about_it_stays_whole() -> None:
    about = f"Books begin with this line:\n\n{START}\n\nand end with this one:\n\n{END}\n\nAll else is a licence."
    for document in (read_bytes("a.txt", about.encode()), read_bytes("a.html", page(p(about)).encode())):
        assert document.extraction.left_out == 0
    mail = "\n\n".join((USE, START, STORY, END, LICENCE))
    assert read_bytes("a.eml", bytes(message(mail))).extraction.left_out == 0
