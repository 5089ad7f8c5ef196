"""What repairs by position leave alone, and that none of them loses a line."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from specextend_cli.documents.layout import compose
from specextend_cli.documents.line import Line
from specextend_cli.documents.repairs import repair_pages
from specextend_cli.documents.repairs.notes import interruptions, remove_note_marks
from specextend_cli.documents.repairs.order import reading_order
from specextend_cli.documents.repairs.rows import empty_cells
from specextend_cli.documents.repairs.running import running_lines


def at(text: str, base: float, *, left: float = 72, size: float = 10, page: int = 1, **more: object) -> Line:
    return Line(text, page, left, left + 0.5 * size * len(text), base, size, **more)  # type: ignore[arg-type]


def prose(letter: str, base: float, count: int, *, left: float = 72) -> list[Line]:
    return [at(f"line {n} of the text {letter}", base - 12 * n, left=left) for n in range(count)]


def texts(pages: list[list[Line]]) -> list[str]:
    return [line.text for page in pages for line in page]


def row(base: float, *cells: tuple[float, str]) -> Line:
    ends = [(left + 5 * len(text), following) for (left, text), (following, _) in pairwise(cells)]
    last, final = cells[-1]
    text = "  ".join(text for _, text in cells)
    return Line(text, 1, cells[0][0], last + 5 * len(final), base, 10, gaps=tuple(ends))


# --------------------------------------------------------------------------------------------------- reading order


def test_columns_keep_the_order_of_the_file() -> None:
    left, right = prose("a", 700, 9), prose("b", 700, 9, left=320)
    title, foot = at("A title over both of the columns of this page", 740, size=18), at("x" * 80, 400)
    for page in ([title, *left, *right, foot], [title, *right, *left, foot]):
        assert reading_order([page]) == ([page], [])


def test_a_title_and_a_note_go_where_they_stand() -> None:
    title, note = at("A title over the page", 740, size=18), at("1 A note at its foot that goes on", 90, size=7)
    body = prose("a", 700, 9)
    fixed, edits = reading_order([[note, *body, title]])
    assert fixed == [[title, *body, note]]
    assert {edit.kind for edit in edits} == {"moved"}


def test_figures_at_an_axis_and_turned_lines_stay() -> None:
    axis = [at(str(n), 500 + 12 * n) for n in range(9)]
    turned = [at("a word that is turned", 900, turn=1), at("another one", 990, turn=1)]
    page = [*prose("a", 700, 4), *axis, *turned, *prose("b", 400, 4)]
    assert reading_order([page]) == ([page], [])


def test_a_page_in_no_order_stays() -> None:
    page = [at(f"a line of text {n}", 400 + 40 * n) for n in range(9)]
    assert reading_order([page]) == ([page], [])


@pytest.mark.parametrize("seed", range(40))
def test_no_repair_by_position_loses_a_line(seed: int) -> None:
    chance = random.Random(seed)
    words = (
        "Figure 1: a river",
        "goes on in small letters and is longer",
        "A sentence that ends here, or there.",
        "3  4",
    )
    page = [
        at(
            chance.choice(words) + f" {n}",
            chance.uniform(0, 800),
            left=chance.choice((40, 72, 300)),
            size=chance.choice((7, 10, 10, 10, 18)),
            bold=chance.random() < 0.2,
            turn=int(chance.random() < 0.05),
        )
        for n in range(chance.randrange(1, 60))
    ]
    for repair in (reading_order, interruptions, empty_cells):
        assert sorted(texts(repair([page, page])[0])) == sorted(texts([page, page]))
    assert repair_pages([page])


# ----------------------------------------------------------------------------------------------------------- notes


def page_of(number: int, *lines: Line) -> list[Line]:
    return [line._replace(page=number) for line in lines]


NOTE = [at("1 Pub. L. No. 103-62, and", 100, size=7), at("another one that is cited.", 92, size=7)]
CUT = at("A paragraph whose last sentence was told by the", 688)
ENDED = at("A sentence that ends here, on its page.", 688)


@pytest.mark.parametrize("rest", ["agency and ends.", "Secretary of the Interior."])
def test_a_sentence_goes_on_above_the_notes_of_its_page(rest: str) -> None:
    first, prior = at("A paragraph that begins here and has two lines, and", 700), at("Another one ends.", 740)
    pages = [page_of(1, prior, first, CUT, *NOTE), page_of(2, at(rest, 740), *prose("a", 700, 3))]
    fixed, edits = interruptions(pages)
    assert fixed == [page_of(1, prior, *NOTE, first, CUT), pages[1]]
    assert [(edit.kind, edit.page) for edit in edits] == [("moved", 1)] * 2
    assert f"{first.text} {CUT.text} {rest}" in compose(fixed).text.split("\n\n")


def test_a_sentence_goes_on_in_the_next_column() -> None:
    rest = [at("agency in the other column and", 700, left=320), at("ends there.", 688, left=320)]
    assert interruptions([[at("Ended.", 740), CUT, *NOTE, *rest]])[0] == [[at("Ended.", 740), *NOTE, CUT, *rest]]


def test_notes_stay_where_they_interrupt_nothing() -> None:
    indented, item = at("A name begins a paragraph.", 740, left=90), at("Other type", 740, size=14)
    full = [*prose("b", 700, 5), at("that is told by the", 640)]  # began on the page before
    for page, following in (
        ([ENDED, *NOTE], at("agency in small letters", 740)),
        ([CUT, *NOTE], indented),
        ([CUT, *NOTE], item),
        ([CUT, *NOTE], None),
        ([at("Total", 688), *NOTE], at("agency in small letters", 740)),
    ):
        pages = [page_of(1, *page), page_of(2, *([following] if following else []))]
        assert interruptions(pages) == (pages, [])
    pages = [page_of(1, CUT), page_of(2, *full, *NOTE), page_of(3, at("agency and ends.", 740))]
    assert interruptions(pages) == (pages, [])


def test_a_capital_goes_on_behind_a_full_line_only() -> None:
    lines = [at("It was told in a paragraph of the full width by the", 712), at("and no more than that by the", 700)]
    name = at("Secretary of the Interior, who has to be asked.", 740)
    for last, joined in ((lines[::-1], True), (lines, False)):
        text = compose([page_of(1, *last), page_of(2, name, *prose("a", 700, 3))]).text
        assert (f"{last[-1].text} {name.text}" in text) == joined


# ----------------------------------------------------------------------------------------------------------- cells


def test_a_table_of_contents_has_no_empty_cells() -> None:
    entries = ((72, "Appendix I"), (160, "Methods"), (500, "7")), ((160, "Oil"), (500, "8")), ((160, "Gas"), (500, "9"))
    page = [row(700 - 14 * n, *cells) for n, cells in enumerate(entries)]
    assert empty_cells([page]) == ([page], [])


def test_further_lines_of_cells_are_no_rows() -> None:
    page = [
        row(700, (72, "Praise"), (160, "A public word for good"), (360, "Alone")),
        row(688, (160, "work, and a letter of"), (360, "or in pairs")),
        row(676, (72, "Penalty"), (160, "A fine"), (360, "Alone")),
        row(664, (72, "Other"), (160, "A warning"), (360, "Alone")),
    ]
    assert empty_cells([page]) == ([page], [])


def test_a_cell_over_two_columns_fills_nothing() -> None:
    page = [row(700 - 14 * n, (72, f"Mill {n}"), (160, "3.20"), (220, "19"), (280, "7")) for n in range(4)]
    spanning = row(714, (72, "Place"), (160, "What was measured"))
    assert empty_cells([[spanning, *page]]) == ([[spanning, *page]], [])


# ----------------------------------------------------------------------------------------------------------- marks


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("the grants¹⁰²³ of 1999¹² and 2016,³", "the grants of 1999 and 2016,"),
        ("of 1,234ᵇ and 45%ᶜ, the totalᵃ", "of 1,234 and 45%, the total"),
        ("several.¹,² Then", "several. Then"),
        ("10⁶, 10⁻⁶, x², m³, (a + b)², 2.5³ and (see above)⁴", "10⁶, 10⁻⁶, x², m³, (a + b)², 2.5³ and (see above)"),
        ("2ⁿ and eˣ of the 19ᵉ siècle", "2^n and e^x of the 19e siècle"),
        ("ᵃ Includes all", "a Includes all"),
        ("¹² 18 U.S.C.", "12 18 U.S.C."),
    ],
)
def test_marks_of_notes_and_powers(text: str, plain: str) -> None:
    assert remove_note_marks(text, 1, []) == plain


def test_a_year_at_the_head_of_a_line_begins_no_note() -> None:
    small = [
        at("1013 The council met for the last time on the fourth of May,", 100, size=8),
        at("2016 and never again. What it said is in the book of the mill,", 90, size=8),
        at("1014 as all others are.", 80, size=8),
    ]
    text = compose([[*prose("a", 700, 9), *small]]).text
    assert "fourth of May, 2016 and never again" in text
    assert "\n1014 as all" in text


# ---------------------------------------------------------------------------------------------------- running heads


def test_large_titles_of_numbered_chapters_stay() -> None:
    def pages(head: str) -> list[list[Line]]:
        return [
            [
                at(head.replace("#", str(n)), 760, size=14, page=n),
                *(at(f"{'x' * n} {k} and the other words of this line", 700 - 12 * k, page=n) for k in range(9)),
            ]
            for n in range(1, 7)
        ]

    for title in ("#. Levels and Floods", "Chapter #"):
        assert running_lines(pages(title)) == (pages(title), [])
