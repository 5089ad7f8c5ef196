"""Running heads that are set like the text, and page numbers of chapters: no sentence is interrupted by them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from specextend_cli.documents.read import read_bytes
from tests.documents.made_pdfs import SENTENCES, wrap
from tests.documents.raw_pdf import raw_pdf, show

PAGES, LINES = 6, 20
STORY = wrap(
    " ".join(f"On day {day} {SENTENCES[day % 4][:1].lower()}{SENTENCES[day % 4][1:]}" for day in range(110)), 70
)
PARTS = [STORY[LINES * at : LINES * (at + 1)] for at in range(PAGES)]
Made = Callable[[int], str]


def opinion(above: Made, below: Made, *, step: float = 22) -> bytes:
    """Pages of one text with what is drawn `above` and `below` the text of each, by its number."""
    pages = []
    for number, lines in enumerate(PARTS, 1):
        text = "".join(show(90, 650 - step * at, line) for at, line in enumerate(lines))
        pages.append(above(number) + text + below(number))
    return raw_pdf(pages)


def centred(y: float, text: str) -> str:
    return show(290 - 2.6 * len(text), y, text)


def nothing(number: int) -> str:
    return ""


def number_below(number: int) -> str:
    return centred(40, f"{number}")


def docket(number: int) -> str:
    stamp = show(60, 770, f"Case: 88-1021  Document: 44  Page: {number}  Filed: 02/03/2031", 9)
    title = show(200, 720, "Court of the Upper Valley", 16) if number == 1 else ""
    return stamp + title + centred(690 if number == 1 else 720, "No. 88-1021")


def ruled(number: int) -> str:
    return centred(690, "MILL v. WEIR COMPANY") + centred(676, "_" * 30)


def close(number: int) -> str:
    return centred(686, "Opinion of the Court") + centred(668, "Cite as: 12 Weirs 345 (2031)")


def chapters(lengths: Sequence[int], form: str) -> Made:
    names = [form.format(at, page) for at, length in enumerate(lengths, 3) for page in range(1, length + 1)]
    return lambda number: centred(40, names[number - 1])


CASES = {
    "docket": (docket, number_below, 22, "No. 88-1021"),
    "rule": (ruled, number_below, 22, ""),
    "close": (close, number_below, 16, ""),
    "chapter": (nothing, chapters([6], "{} - {}"), 22, ""),
    "chapters": (nothing, chapters([2, 3, 1], "{}-{}"), 22, ""),
    "dashes": (nothing, chapters([3, 3], "- {}\x96{} -"), 22, ""),
}


@pytest.mark.parametrize("name", CASES)
def test_sentences_go_on_over_the_pages(name: str) -> None:
    above, below, step, once = CASES[name]
    text = read_bytes("opinion.pdf", opinion(above, below, step=step)).text
    story = " ".join(line for part in PARTS for line in part)
    head, begins, rest = " ".join(text.split()).partition("On day 0")
    assert begins + rest == story
    assert once in head
    assert len(head) < 60
    assert "Cite" not in head
    assert "_" not in head
