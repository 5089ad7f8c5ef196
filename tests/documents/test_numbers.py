"""Numbers of PDFs: raised and lowered ones are powers, indices or marks of notes; those of tables come out whole."""

from __future__ import annotations

import re

import pytest

from specextend_cli.documents.read import read_bytes
from tests.documents.raw_pdf import ASCII, raw_pdf, show, show_lines, width


def read(content: str) -> str:
    return read_bytes("a.pdf", raw_pdf([content])).text


def raised(text: str, small: float = 0.64, rise: float = 0.36, gap: float = 0, *, base: float = 700) -> str:
    """The operators for a line in which what is in braces is raised, `small` and `rise` in sizes, `gap` in points."""
    drawn, left = "", 72.0
    for at, piece in enumerate(re.split("[{}]", text)):
        size = 12 * small if at % 2 else 12
        drawn += show(left, base + 12 * rise * (at % 2), piece, size) if piece else ""
        left += width(piece, size) + gap
    return drawn


@pytest.mark.parametrize(
    ("drawn", "small", "rise", "text"),
    [
        (
            "The lake has 10{6} litres, a drop 10{-6} and the sea 10{12}.",
            0.64,
            0.36,
            "10⁶ litres, a drop 10⁻⁶ and the sea 10¹².",
        ),
        ("Its surface is x{2} or (a + b){2} or 2{n} of it.", 0.64, 0.36, "x² or (a + b)² or 2^n of it."),
        (
            "There were grants{1023}, begun in 1999{12}, until 2016;{3,4} more.",
            0.64,
            0.36,
            "grants, begun in 1999, until 2016; more.",
        ),
        (
            "The total{a} was 1,234{b} on the 21{st} in the 19{e} year.",
            0.64,
            0.36,
            "The total was 1,234 on the 21st in the 19e year.",
        ),
        ("The H{2}O of it takes up CO{2} all year.", 0.64, -0.18, "The H2O of it takes up CO2 all year."),
        ("The mill has 40 m{2}, and a bridge{3} beside it.", 0.97, 0.42, "40 m², and a bridge beside it."),
    ],
)
def test_raised_and_lowered_pieces(drawn: str, small: float, rise: float, text: str) -> None:
    assert read(raised(drawn, small, rise)).endswith(text)


@pytest.mark.parametrize(("before", "behind"), [(0.5, 3), (4, 4)])
def test_a_mark_drawn_late_in_the_gap_left_for_it(before: float, behind: float) -> None:
    """So many points from the words around it."""
    head = "The council adds a new section to the Copyright Act"
    mark = 72 + width(head, 12) + before
    words = show(72, 700, head) + show(mark + width("3", 7.2) + behind, 700, "to create")
    assert (
        read(words + show(mark, 704.6, "3", 7.2) + show(72, 686, "four new ones."))
        == f"{head} to create four new ones."
    )


@pytest.mark.parametrize(("mark", "text"), [("6", "(⁶) Eurostat, 2006."), ("*", "(*) Eurostat, 2006.")])
def test_a_raised_mark_in_brackets(mark: str, text: str) -> None:
    content = show(72, 760, "A line of the text.", 10) + show(72, 700, "(", 10)
    assert read(content + show(75.4, 705, mark, 6.5) + show(78.6, 700, ") Eurostat, 2006.", 10)).endswith(f"\n{text}")


def test_raised_digits_of_a_font_are_marks_of_notes() -> None:
    """Typst sets the marks of notes in them, and says that they are plain digits."""
    content = show(72, 700, "The minutes of the town\xb3 are of 2025, and 3/4 of them new.")
    content += show(72, 400, "\xb3Kept in the hall of the town, \xb9\xb2/8.")
    text = read_bytes("a.pdf", raw_pdf([content], ASCII | {"\xb3": "3", "\xb9": "1", "\xb2": "2"})).text
    assert text.split("\n\n") == [
        "The minutes of the town are of 2025, and 3/4 of them new.",
        "3 Kept in the hall of the town, 12/8.",
    ]


def test_numbers_that_stand_alone_are_no_superscripts() -> None:
    lines = ["1529", "1.5", "The level of 2025", "3"]
    assert read(show_lines(lines, step=15)).split() == " ".join(lines).split()


def test_a_note_below_a_divided_word_keeps_its_number_apart() -> None:
    content = show(330, 500, "the water is rich in nutri-")  # the end of a column
    content += show(72, 92.8, "1", 6) + show(76, 90, "Unlike the river, the lake has no outlet.", 8)
    assert read(content).split("\n")[-1] == "1 Unlike the river, the lake has no outlet."


def test_digits_kerned_at_one_place_in_all_rows_are_no_columns() -> None:
    values = ("14,918,000", "17,628,000", "11,347,000", "12,745,000")
    content = show(72, 720, "All numbers in thousands of dollars of the year", 8)
    for row, value in enumerate(values):
        shown = f"({value[0]}) -30 ({value[1:5]}) -30 ({value[5:]})"
        content += show(72, 700 - 12 * row, f"Item {'ABCD'[row]}", 8)
        content += f"BT /F0 8 Tf 172 {700 - 12 * row} Td [{shown}] TJ ET\n"
    assert read(content).split("\n")[2:] == [f"Item {'ABCD'[row]}  {value}" for row, value in enumerate(values)]


def test_letter_spaced_numbers_are_whole() -> None:
    """All digits are further apart than the letters beside them."""
    times = ("12:15:45", "12:16:45", "13:10:05", "09:41:30")
    content = ""
    for row, time in enumerate(times):
        content += show(72, 700 - 14 * row, f"Reading {'ABCD'[row]} of the mill")
        content += f"BT /F0 12 Tf 1.44 Tc 240 {700 - 14 * row} Td ({time}) Tj 0 Tc ET\n"
    assert [line.split("  ")[-1] for line in read(content).split("\n")] == list(times)
