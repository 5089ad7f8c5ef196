"""Running heads on one or two pages are those that repeat a heading of an earlier page."""

from __future__ import annotations

from specextend_cli.documents.read import read_bytes
from tests.documents.made_pdfs import SENTENCES, Sheets, wrap

TITLES = ("Starting the Machine", "Running the Machine", "Mending the Machine")
REST = ("led back to the mill.", "sold to the town.", "kept for the summer.")


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
    assert book(18) == book(18, heads=False)
    assert all(f"The water of this chapter is {rest}" in book(18) for rest in REST)


def test_what_is_below_a_head_stays() -> None:
    made = Sheets()
    for number in range(1, 4):
        made.page([(TITLES[number - 1], 18, 0), *story(number)])
        made.page([(f"{number}.1 2008", 11, 0), *story(number)], head=TITLES[number - 1])
    assert read_bytes("a.pdf", made.data()).text.count(".1 2008") == 3


def test_lines_that_repeat_no_heading_stay() -> None:
    assert TITLES[1].upper() in book(11)


def test_headings_that_return_stay() -> None:
    made = Sheets()
    for number, size in enumerate((18, 13, 0, 13, 0, 0, 0)):
        made.page([("Results", size, 0), *story(number)] if size else story(number))
    assert read_bytes("a.pdf", made.data()).text.count("Results") == 3
