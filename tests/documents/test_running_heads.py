"""Running heads, feet and page numbers: no sentence is interrupted by them, and what only looks like one stays."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from specextend_cli.documents.line import Line, lines_of_text
from specextend_cli.documents.read import read_bytes
from specextend_cli.documents.repairs.running import KEPT, running_lines
from tests.documents.made_lines import at, repaired
from tests.documents.made_pdfs import SENTENCES, Sheets, wrap
from tests.documents.raw_pdf import raw_pdf, show

TITLES = ("Starting the Machine", "Running the Machine", "Mending the Machine")
REST = ("led back to the mill.", "sold to the town.", "kept for the summer.")


def paged(number: int, head: str = "", foot: str = "") -> list[Line]:
    """A page of nine lines; files often hold the foot first."""
    body = [f"The sentence number {chr(96 + number % 26)} {'abcdefghi'[k] * 5} of the text goes on" for k in range(9)]
    around = [at(text, base, page=number) for text, base in ((foot, 40), (head, 780)) if text]
    return [*around, *(at(text, 700 - 12 * k, page=number) for k, text in enumerate(body))]


@pytest.mark.parametrize(
    ("heads", "feet"),
    [
        ([f"Chapter {1 + n // 12}: Levels  {n}" for n in range(1, 60)], [""] * 59),
        ([""] * 2, ["- 1 -", "- 2 -"]),
    ],
    ids=["with numbers", "two pages"],
)
def test_heads_and_feet_go(heads: Sequence[str], feet: Sequence[str]) -> None:
    pages = [paged(n, head, foot) for n, (head, foot) in enumerate(zip(heads, feet, strict=True), 1)]
    fixed, edits = repaired(running_lines, pages)
    assert fixed == [paged(n) for n in range(1, len(pages) + 1)]
    assert sorted(edit.before for edit in edits) == sorted(filter(None, (*heads, *feet)))


def invoice(n: int, stones: int) -> list[Line]:
    """Lines that differ in figures; stones are lines below them."""
    said = (f"Invoice {1000 + n}", f"Date: {n} May 2024", "Delivered to Paris", f"Total: {120 + 7 * n}.50")
    lines = [at(text, 780 - 24 * k, page=n) for k, text in enumerate(said)]
    return [*lines, *(at(f"Stone {n} {k} " * 5, 600 - 12 * k, page=n) for k in range(stones))]


@pytest.mark.parametrize(
    "pages",
    [
        [invoice(n, 0) for n in range(1, 6)],
        [invoice(n, 30) for n in range(1, 40)],
        [[at(f"Table {n}", 700 - 37 * n, page=n), at(f"body {n * 'x'}", 300, page=n)] for n in range(1, 6)],
        [[at(str(1900 + 7 * n), 700, page=n), at("body " + n * "x", 300, page=n)] for n in range(1, 6)],
        [[at(f"Chapter {n}", 760, size=14, page=n), *paged(n)] for n in range(1, 7)],
        *([paged(n, label.format(n)) for n in range(1, 9)] for label in ("Invoice {}", "INV-{}", "Case #{}")),
        [paged(n, title) for n, title in enumerate(("1 The old mill", "2 The new mill", "3 The ford"), 1)],
        [[at("11/28/26, 8:51 AM  The Mill", 780), at("The mill", 700), at("See https://example.org/mill", 20)]],
    ],
)
def test_what_only_looks_like_running_heads_stays(pages: list[list[Line]]) -> None:
    assert repaired(running_lines, pages) == (pages, [])


def test_a_large_title_that_returns_keeps_its_first_place() -> None:
    pages = [[at("Key Findings", 780, size=20, page=n), *paged(n)] for n in range(1, 5)]
    assert running_lines(pages, []) == [pages[0], *map(paged, range(2, 5))]


def test_running_lines_in_text_files() -> None:
    texts = [f"THE TITLE\n\nThe text {'abcdef'[n]} goes on\nand on with {'uvwxyz'[n]}.\n\n{n + 1}" for n in range(6)]
    fixed = running_lines([lines_of_text(text, n) for n, text in enumerate(texts, 1)], [])
    assert [line.text for line in fixed[2]] == ["The text c goes on", "and on with w."]
    pages = [f"Order 77{n}\n\nDelivered to Paris\n\nTotal {100 + 7 * n}.00\n" for n in range(6)]
    text = read_bytes("orders.txt", "\f".join(pages).encode()).text
    assert all(line in text for page in pages for line in page.split("\n"))
    document = read_bytes("levels.txt", b"12\f13\f14\f15")
    assert document.text.split() == ["12", "13", "14", "15"]
    assert document.extraction.warnings


def test_in_a_short_document_the_first_head_and_the_last_foot_stay() -> None:
    fixed = running_lines([paged(n, "Report of the mill", "Confidential") for n in (1, 2)], [])
    assert fixed == [paged(1, "Report of the mill"), paged(2, "", "Confidential")]


def test_what_is_most_of_its_pages_stays_and_is_said(sheets: Sheets) -> None:
    for _ in range(4):
        sheets.page([("Receipt", 11, 20), ("Paid in full: 120.00", 11, 20)])
    document = read_bytes("copies.pdf", sheets.data())
    assert document.text.count("120.00") == 4
    assert document.extraction.changes[KEPT] == 8
    assert "Pages 1-4" in document.extraction.warnings[0]


# ------------------------------------------------------------------------------------- heads that repeat a heading


def story(number: int) -> list[tuple[str, float, float] | str]:
    """Lines that end within a sentence."""
    text = wrap(" ".join(f"On day {number} {sentence.lower()}" for sentence in SENTENCES * 3))
    return [(text[0], 11, 8), *text[1:], "The water of this chapter is"]


def book(size: float, *, heads: bool = True) -> str:
    """Chapters of two pages, whose second pages have the chapter's title as their head."""
    made = Sheets()
    for number, (title, rest) in enumerate(zip(TITLES, REST, strict=True), 1):
        made.page([(f"{number} {title}", size, 0), *story(number)])
        made.page([rest, *story(number)], head=f"{number}. {title.upper()}" if heads else "")
    return read_bytes("a.pdf", made.data()).text


def test_heads_that_repeat_a_heading_interrupt_no_sentence() -> None:
    text = book(18)
    assert text == book(18, heads=False)
    assert all(f"The water of this chapter is {rest}" in text for rest in REST)
    assert TITLES[1].upper() in book(11)  # where it repeats no heading


def test_headings_that_return_stay(sheets: Sheets) -> None:
    for number, size in enumerate((18, 13, 0, 13, 0, 0, 0)):
        sheets.page([("Results", size, 0), *story(number)] if size else story(number))
    assert read_bytes("a.pdf", sheets.data()).text.count("Results") == 3


# ----------------------------------------------------------------------------------- opinions, set like their heads

STORY = wrap(" ".join(f"On day {day} {SENTENCES[day % 4].lower()}" for day in range(110)), 70)
PAGES = range(1, 7)


def centred(y: float, text: str) -> str:
    return show(290 - 2.6 * len(text), y, text)


def docket(number: int) -> str:
    stamp = show(60, 770, f"Case: 88-1021  Document: 44  Page: {number}  Filed: 02/03/2031", 9)
    title = show(200, 720, "Court of the Upper Valley", 16) if number == 1 else ""
    return stamp + title + centred(690 if number == 1 else 720, "No. 88-1021") + centred(40, f"{number}")


RULED = centred(690, "MILL v. WEIR COMPANY") + centred(676, "_" * 30)
AROUND = {
    "docket": [docket(number) for number in PAGES],
    "rule": [RULED + centred(40, f"{number}") for number in PAGES],
    "chapters": [centred(40, foot) for foot in ("3-1", "3-2", "4-1", "4-2", "4-3", "5-1")],
}


@pytest.mark.parametrize("around", AROUND.values(), ids=AROUND)
def test_sentences_go_on_over_the_pages(around: Sequence[str]) -> None:
    """Pages of one text with what is drawn around it on each."""
    lines = [STORY[20 * number - 20 : 20 * number] for number in PAGES]
    pages = ["".join(show(90, 650 - 22 * at, line) for at, line in enumerate(page)) for page in lines]
    text = read_bytes("opinion.pdf", raw_pdf([*map("".join, zip(around, pages, strict=True))])).text
    head, begins, rest = " ".join(text.split()).partition("On day 0")
    assert begins + rest == " ".join(STORY[:120])
    assert ("88-1021" in head) == (around is AROUND["docket"])
    assert len(head) < 60
    assert "_" not in head
