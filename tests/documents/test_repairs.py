"""What the repairs of printed pages remove and move, and what they leave alone: tables, lists and short lines."""

from __future__ import annotations

from itertools import pairwise

import pytest

from specextend_cli.documents.layout import compose, outline_headings
from specextend_cli.documents.line import Line
from specextend_cli.documents.read import read_bytes
from specextend_cli.documents.repairs.hyphens import drop_caps
from specextend_cli.documents.repairs.line_numbers import line_numbers
from specextend_cli.documents.repairs.order import columns, list_markers, side_headings
from specextend_cli.documents.repairs.running import watermarks
from tests.documents.made_pdfs import SENTENCES, wrap
from tests.documents.raw_pdf import FIXED, raw_pdf, show


def at(text: str, base: float, *, left: float = 72, page: int = 1, size: float = 10, **more: object) -> Line:
    return Line(text, page, left, left + 0.5 * size * len(text), base, size, **more)  # type: ignore[arg-type]


def row(base: float, *cells: tuple[float, str]) -> Line:
    """One line with wide gaps before each cell but the first, as the reader gives it."""
    ends = [(left + 5 * len(text), following) for (left, text), (following, _) in pairwise(cells)]
    line = at("\t".join(text for _, text in cells), base, left=cells[0][0], gaps=tuple(ends))
    return line._replace(right=cells[-1][0] + 5 * len(cells[-1][1]))


PROSE = (
    ("The river rises in the old hills", "A bridge of stone crosses the water"),
    ("and reaches the sea after a while", "below the market, and carts use it"),
    ("of fields, woods and many towns.", "when the ford is too deep for them,"),
    ("People have measured its level", "which happens in most years and"),
    ("every morning since the flood, and", "lasts for weeks; it was paid for"),
    ("they have written it in a book.", "by a tax on salt that many hated."),
)
CELLS = (("Station", "Level"), ("Old mill", "3.20"), ("Market bridge", "4.05"), ("Ferry", "2.98")) * 2


def test_columns_are_read_one_after_the_other() -> None:
    page = [row(700 - 12 * n, (72, left), (320, right)) for n, (left, right) in enumerate(PROSE)]
    fixed, edits = columns([[at("Waters", 740), *page, at("x" * 80, 600)]])
    lefts, rights = ([pair[side] for pair in PROSE] for side in (0, 1))
    assert [line.text for line in fixed[0]] == ["Waters", *lefts, *rights, "x" * 80]
    assert [edit.kind for edit in edits] == ["column"]
    assert fixed[0][7].left == 320


@pytest.mark.parametrize(
    "page",
    [
        [row(700 - 12 * n, (72, left), (320, right)) for n, (left, right) in enumerate(CELLS)],
        [row(500 - 12 * n, (72, f"{'ABCDEF'[n]} of T"), (200, right)) for n, (_, right) in enumerate(PROSE)],
        [row(700 - 12 * n, (72, left), (320, right)) for n, (left, right) in enumerate(PROSE[:4])],
        [
            at(PROSE[n + line][side], 700 - 100 * copy - 15 * n - 12 * line, left=(72, 320)[side])
            for copy in (0, 1)
            for n in range(0, 6, 2)
            for side in (0, 1)
            for line in (0, 1)
        ],
    ],
    ids=["table", "terms", "few rows", "cells of two lines"],
)
def test_what_is_no_columns(page: list[Line]) -> None:
    assert columns([page]) == ([page], [])


# -------------------------------------------------------------------------------------------------- line numbers


@pytest.mark.parametrize("pages", [1, 3])
@pytest.mark.parametrize("style", ["one text", "raised", "empty lines"])
def test_line_numbers_of_testimony_are_removed(style: str, pages: int) -> None:
    said = [f"     Q.  {line}" if at % 4 == 0 else line for at, line in enumerate(wrap(" ".join(SENTENCES * 16), 54))]
    lines = ["" if style == "empty lines" and at % 6 == 3 else line for at, line in enumerate(said[: 25 * pages])]
    made = []
    for page in range(pages):
        drawn = show(500, 750, str(page + 1), 12, FIXED) if pages > 1 else ""
        for row, line in enumerate(lines[25 * page : 25 * page + 25]):
            y, number = 695 - 25 * row, f"{row + 1:>2}"
            size, rise = (9, 3) if style == "raised" else (12, 0)
            text = "" if style == "one text" else show(95, y, line, 12, FIXED) if line else ""
            drawn += text + show(60, y + rise, f"{number}  {line}" if style == "one text" else number, size, FIXED)
        made.append(drawn)
    document = read_bytes("a.pdf", raw_pdf(made))
    assert document.text.split() == " ".join(lines).split()
    assert document.extraction.changes["line number"] == 25 * pages


@pytest.mark.parametrize(
    "item", ["Item of the mill no. {}", "repair of mill {}", "{}.50\t{}.25", "The council met in the year 19{}."]
)
def test_numbers_of_lists_stay(item: str) -> None:
    """Short items, even in lower case, rows of figures, and sentences: on one page and on several."""
    pages = []
    for page in range(3):
        rows = ""
        for row in range(20):
            number = 20 * page + row + 1
            rows += show(60, 700 - 20 * row, str(number))
            for at, cell in enumerate(item.format(number, number).split("\t")):
                rows += show(90 + 80 * at, 700 - 20 * row, cell)
        pages.append(rows)
    for made in (pages, pages[:1]):
        assert "line number" not in read_bytes("a.pdf", raw_pdf(made)).extraction.changes


def numbered(page: int, first: int = 1, text: str = "a line of text that is long") -> list[Line]:
    return [at(f"{first + n}\t{text}", 700 - 20 * n, page=page) for n in range(10)]


def test_line_numbers_begin_again_or_count_on() -> None:
    for first in (1, 11):
        fixed, edits = line_numbers([numbered(1), numbered(2, first)])
        assert {line.text for page in fixed for line in page} == {"a line of text that is long"}
        assert len(edits) == 20
    for pages in ([numbered(1, 1, "Mill\t3.20"), numbered(2, 11, "Mill\t3.20")], [numbered(1), [at("text", 700)]]):
        assert line_numbers(pages) == (pages, [])


# -------------------------------------------------------------------------------- watermarks, headings, markers


def test_watermarks() -> None:
    pages = [[at("Text", 700, page=n), at("DRAFT", 400, page=n, slanted=True)] for n in (1, 2)]
    assert watermarks(pages)[0] == [page[:1] for page in pages]
    axis = [[at("Text", 700), at("March", 400, slanted=True), at("April", 400, slanted=True)]]
    assert watermarks(axis) == (axis, [])


def test_a_drop_cap_that_a_file_holds_elsewhere_joins_its_line() -> None:
    letter, title = at("T", 680, size=36), at("The Mill", 740)
    first, other = (at(f"{word} rises in the hills", 700, left=110) for word in ("he river", "However it"))
    assert drop_caps([[letter, title, first]])[0] == [[title, first._replace(text=f"T{first.text}")]]
    for page in ([letter, title, other], [title, letter, other]):
        assert drop_caps([page]) == ([page], [])


def test_side_headings_go_where_they_stand_and_columns_stay() -> None:
    body = [at(f"line {k} of the body text", 700 - 12 * k, left=200) for k in range(10)]
    side = [at("Results", 640, left=36, size=13), at("in Brief", 625, left=36, size=13)]
    assert side_headings([[*body, *side]])[0] == [[*body[:5], *side, *body[5:]]]
    column = [side[0], *(at("their text", 625 - 12 * k, left=36) for k in range(4))]
    assert side_headings([[*body, *column]])[0] == [[*body, *column]]


def test_the_outline_finds_headings_over_lines_and_near_their_page() -> None:
    pages = [
        [at("The River", 700), at("The River and its", 650), at("Bridges", 638), at("of the river", 600)],
        [at("The River", 700, page=2), at("Ferries", 650, page=2)],
        [at("Ferries", 700, page=3), at("Notes", 650, page=3)],
    ]
    outline = [("The River and its Bridges", 1), ("Ferries", 1), ("The River", 9), ("Notes", None), ("", 1)]
    found = outline_headings(pages, outline)
    texts = [line.text for page in pages for line in page if id(line) in found]
    assert texts == ["The River and its", "Bridges", "Ferries", "Notes"]
    assert found[id(pages[0][1])] == found[id(pages[0][2])]


def test_markers_that_are_drawn_last_stand_before_their_items() -> None:
    texts = [at("Boats pay in", 700, left=100), at("advance.", 688, left=100), at("Dogs wait.", 676, left=100)]
    nested = at("So do cats.", 664, left=130)
    markers = [at("1.", 700, left=85), at("2.", 676, left=85), at("◦", 664, left=115)]
    fixed, edits = list_markers([[at("Rules", 740), *texts, nested, *markers]])
    said = [line.text for line in fixed[0]]
    assert said == ["Rules", "1.", "Boats pay in", "advance.", "2.", "Dogs wait.", "◦", "So do cats."]
    assert {edit.kind for edit in edits} == {"list marker"}


def test_other_short_lines_stay_in_their_places() -> None:
    item = [at("1.", 700, left=85), at("Boats pay.", 700, left=100)]
    page = [at("Rules", 740), *item, at("Dogs wait.", 660, left=200), at("2.", 660, left=20), at("•", 690)]
    assert list_markers([page]) == ([page], [])


def test_items_that_fill_a_narrow_column_stay_apart() -> None:
    lines = [at("– inner one item that is long", 700, left=90), at("– inner two", 688, left=90)]
    lines += [at("– inner three items that is long", 676, left=90), at("3. Outer", 664)]
    assert compose([lines]).text == "\n".join(line.text for line in lines)
