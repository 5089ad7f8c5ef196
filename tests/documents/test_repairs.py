"""What the repairs of printed pages move and remove, and what they leave alone: tables, lists and short lines."""

from __future__ import annotations

import random

import pytest

from specextend_cli.documents.cleaning import repair_pages
from specextend_cli.documents.layout import compose, outline_headings
from specextend_cli.documents.line import Line, Repair
from specextend_cli.documents.read import read_bytes
from specextend_cli.documents.repairs.hyphens import drop_caps
from specextend_cli.documents.repairs.line_numbers import line_numbers
from specextend_cli.documents.repairs.notes import interruptions, remove_note_marks
from specextend_cli.documents.repairs.order import columns, list_markers, reading_order, side_headings
from specextend_cli.documents.repairs.rows import empty_cells
from specextend_cli.documents.repairs.running import running_lines
from tests.documents.made_lines import at, prose, repaired, row, texts
from tests.documents.raw_pdf import raw_pdf, show

TITLE, SIDE = at("A title over the page", 740, size=18), at("Results", 640, left=36, size=13)
NOTE = [at("1 Pub. L. No. 103-62, and", 100, size=7), at("another one that is cited.", 92, size=7)]
CUT = at("A paragraph whose last sentence was told by the", 688)
BEGUN, GOES_ON = at("A sentence that is interrupted by a figure", 700), at("goes on behind it and ends.", 600)
BESIDE = [
    at(text, base, left=360)
    for text, base in (("Figure 1: The mill.", 740), ("agency in the other column and", 700), ("ends there.", 688))
]
FIGURE = [at("Figure 2: Levels", 680, size=8), at("Mill", 650, size=7)]
CELLS = (("Station", "Level"), ("Old mill", "3.20"), ("Market bridge", "4.05"), ("Ferry", "2.98")) * 2
HALVES = (
    ("The river rises in the old hills", "A bridge of stone crosses the water"),
    ("and reaches the sea after a while", "below the market, and carts use it"),
    ("of fields, woods and many towns.", "when the ford is too deep for them,"),
    ("People have measured its level", "which happens in most years and"),
    ("every morning since the flood, and", "lasts for weeks; it was paid for"),
    ("they have written it in a book.", "by a tax on salt that many hated."),
)
WHO = "the council of the market town"
BODY = [at(f"line {k} of the body text", 700 - 12 * k, left=200) for k in range(10)]
ITEMS = [at("Boats pay in", 700, left=100), at("advance.", 688, left=100), at("Dogs wait.", 676, left=100)]
MARKERS = [at("1.", 700, left=85), at("2.", 676, left=85), at("◦", 664, left=115)]
CAP, RIVER = at("T", 680, size=36), at("he river rises in the hills", 700, left=110)


def in_columns(rows: tuple[tuple[str, str], ...], right: float = 320) -> list[Line]:
    return [row(700 - 12 * n, (72, one), (right, other)) for n, (one, other) in enumerate(rows)]


@pytest.mark.parametrize(
    ("repair", "page", "order"),
    [
        (reading_order, [NOTE[0], *prose("a", 700, 9), TITLE], [10, *range(1, 10), 0]),
        (side_headings, [*BODY, SIDE], [*range(5), 10, *range(5, 10)]),
        (list_markers, [*ITEMS, at("So do cats.", 664, left=130), *MARKERS], [4, 0, 1, 5, 2, 6, 3]),
        (interruptions, [BEGUN, *FIGURE, GOES_ON, *prose("a", 570, 3)], [0, 3, 1, 2, 4, 5, 6]),
        (interruptions, [at("Ended.", 740), CUT, *NOTE, at("agency and ends.", 700, left=320)], [0, 2, 3, 1, 4]),
        (interruptions, [*prose("a", 736, 4), CUT, *BESIDE], [5, 0, 1, 2, 3, 4, 6, 7]),
    ],
)
def test_what_is_out_of_its_place_is_moved_or_removed(repair: Repair, page: list[Line], order: list[int]) -> None:
    fixed, edits = repaired(repair, [page])
    assert texts(fixed) == [page[number].text for number in order]
    assert edits


def test_columns_are_read_one_after_the_other() -> None:
    fixed, edits = repaired(columns, [[at("Waters", 740), *in_columns(HALVES), at("x" * 80, 600)]])
    lefts, rights = ([pair[side] for pair in HALVES] for side in (0, 1))
    assert texts(fixed) == ["Waters", *lefts, *rights, "x" * 80]
    assert [edit.kind for edit in edits] == ["column"]


def test_a_drop_cap_that_a_file_holds_elsewhere_joins_its_line() -> None:
    assert drop_caps([[CAP, TITLE, RIVER]], []) == [[TITLE, RIVER._replace(text=f"T{RIVER.text}")]]


TWICE = [
    at(HALVES[n + line][side], 700 - 100 * copy - 15 * n - 12 * line, left=(72, 320)[side])
    for copy in (0, 1)
    for n in range(0, 6, 2)
    for side in (0, 1)
    for line in (0, 1)
]
CONTENTS = [
    row(700 - 14 * n, *cells)
    for n, cells in enumerate((((72, "Annex"), (160, "Methods"), (500, "7")), ((160, "Oil"), (500, "8"))))
]
WRAPPED = [
    row(700, (72, "Praise"), (160, "A public word for good"), (360, "Alone")),
    row(688, (160, "work, and a letter of"), (360, "or in pairs")),
    row(676, (72, "Penalty"), (160, "A fine"), (360, "Alone")),
    row(664, (72, "Other"), (160, "A warning"), (360, "Alone")),
]
LEVELS = [row(700 - 14 * n, (72, f"Mill {n}"), (160, "3.20"), (220, "19"), (280, "7")) for n in range(4)]
ENDED = [at("A sentence that ends here.", 700), at("Figure 2: Levels", 680, size=8), at("goes on and no more", 600)]
TOLD = [CUT, at("Table 1 and then in the others that follow it", 676), at("goes on, and on and ends.", 664)]
LISTED = [at("Parameters of the function that is called so", 700), at("source: where it comes from", 660)]
SHORT = [*(at("1.", 700, left=85), at("Boats pay.", 700, left=100)), at("Dogs wait.", 660, left=200), at("•", 690)]
AXIS = [*prose("a", 700, 4), *(at(str(n), 500 + 12 * n) for n in range(9)), *prose("b", 400, 4)]
TURNED = [*prose("a", 700, 4), at("a word that is turned", 900, turn=1), at("another one", 990, turn=1)]


@pytest.mark.parametrize(
    ("repair", "page"),
    [
        (reading_order, [TITLE, *prose("a", 700, 9), *prose("b", 700, 9, left=320)]),
        (reading_order, [TITLE, *prose("b", 700, 9, left=320), *prose("a", 700, 9)]),
        (reading_order, AXIS),
        (reading_order, TURNED),
        (reading_order, [at(f"a line of text {n}", 400 + 40 * n) for n in range(9)]),
        (interruptions, TOLD),
        (interruptions, ENDED),
        (interruptions, [*LISTED, *prose("a", 600, 3)]),
        (empty_cells, CONTENTS),
        (empty_cells, WRAPPED),
        (empty_cells, [row(714, (72, "Place"), (160, "What was measured")), *LEVELS]),
        (columns, in_columns(CELLS)),
        (
            columns,
            in_columns(tuple((f"{name} of T", text) for name, (_, text) in zip("ABCDEF", HALVES, strict=True)), 200),
        ),
        (columns, in_columns(HALVES[:4])),
        (columns, TWICE),
        (running_lines, [at("Text", 700), at("March", 400, slanted=True), at("April", 400, slanted=True)]),
        (drop_caps, [CAP, TITLE, RIVER._replace(text="However it rises")]),
        (drop_caps, [TITLE, CAP, RIVER._replace(text="However it rises")]),
        (side_headings, [*BODY, SIDE, *(at("their text", 625 - 12 * k, left=36) for k in range(4))]),
        (list_markers, SHORT),
        (line_numbers, [at(f"{1 + n}\tMill\t3.20", 700 - 20 * n) for n in range(10)]),
        (line_numbers, [at(f"{1 + n} years\t3,269,557\t41 years\t2,375,849", 700 - 12 * n) for n in range(20)]),
        (line_numbers, [at(f"{1 + n}\trepair of the old mill at the ford\t{WHO}", 700 - 12 * n) for n in range(20)]),
    ],
)
def test_what_only_looks_like_it_stays(repair: Repair, page: list[Line]) -> None:
    assert repaired(repair, [page]) == ([page], [])


@pytest.mark.parametrize("seed", range(20))
def test_no_repair_by_position_loses_a_line(seed: int) -> None:
    chance = random.Random(seed)
    said = (
        "Figure 1: a river",
        "goes on in small letters and is longer",
        "A sentence that ends here, or there.",
        "3  4",
    )
    page = [
        at(
            f"{chance.choice(said)} {n}",
            chance.uniform(0, 800),
            left=chance.choice((40, 72, 300)),
            size=chance.choice((7, 10, 10, 10, 18)),
            bold=chance.random() < 0.2,
            turn=int(chance.random() < 0.05),
        )
        for n in range(chance.randrange(1, 60))
    ]
    for repair in (reading_order, interruptions, empty_cells):
        assert sorted(texts(repair([page, page], []))) == sorted(texts([page, page]))
    assert repair_pages([page], [])


# ---------------------------------------------------------------------------------- sentences that notes interrupt


def page_of(number: int, *lines: Line) -> list[Line]:
    return [line._replace(page=number) for line in lines]


@pytest.mark.parametrize("rest", ["agency and ends.", "Secretary of the Interior."])
def test_a_sentence_goes_on_above_the_notes_of_its_page(rest: str) -> None:
    first, prior = at("A paragraph that begins here and has two lines, and", 700), at("Another one ends.", 740)
    pages = [page_of(1, prior, first, CUT, *NOTE), page_of(2, at(rest, 740), *prose("a", 700, 3))]
    fixed, edits = repaired(interruptions, pages)
    assert fixed == [page_of(1, prior, *NOTE, first, CUT), pages[1]]
    assert [(edit.kind, edit.page) for edit in edits] == [("moved", 1)] * 2
    assert f"{first.text} {CUT.text} {rest}" in compose(fixed).text.split("\n\n")


def test_notes_in_the_size_of_the_text_have_raised_numbers() -> None:
    notes = [at("¹By the mill, in the year of the flood.", 660), at("It is lost.", 648)]
    rest = page_of(2, at("agency and ends.", 740), *prose("a", 700, 9))
    fixed = interruptions([page_of(1, at("Ended.", 740), CUT, *notes), rest], [])
    assert fixed[0] == page_of(1, at("Ended.", 740), *notes, CUT)
    pages = [page_of(1, at("Ended.", 740), CUT, at("¹⁴C was measured in the wood and in the", 676)), rest]
    assert repaired(interruptions, pages) == (pages, [])


@pytest.mark.parametrize(
    ("last", "following"),
    [
        (at("A sentence that ends here, on its page.", 688), at("agency in small letters", 740)),
        (CUT, at("A name begins a paragraph.", 740, left=90)),
        (CUT, at("Other type", 740, size=14)),
        (CUT, None),
        (at("Total", 688), at("agency in small letters", 740)),
    ],
)
def test_notes_stay_where_they_interrupt_nothing(last: Line, following: Line | None) -> None:
    pages = [page_of(1, last, *NOTE), page_of(2, *([following] if following else []))]
    assert repaired(interruptions, pages) == (pages, [])


def test_a_capital_goes_on_behind_a_full_line_only() -> None:
    lines = [at("It was told in a paragraph of the full width by the", 712), at("and no more than that by the", 700)]
    name = at("Secretary of the Interior, who has to be asked.", 740)
    for last, joined in ((lines[::-1], True), (lines, False)):
        text = compose([page_of(1, *last), page_of(2, name, *prose("a", 700, 3))]).text
        assert (f"{last[-1].text} {name.text}" in text) == joined


def test_a_year_at_the_head_of_a_line_begins_no_note() -> None:
    small = (
        *(
            "1013 The council met for the last time on the fourth of May,",
            "2016 and never again. What it said is lost,",
        ),
        "1014 as all others are.",
    )
    notes = [at(text, 100 - 10 * n, size=8) for n, text in enumerate(small)]
    text = compose([[*prose("a", 700, 9), *notes]]).text
    assert "fourth of May, 2016 and never again" in text
    assert "\n1014 as all" in text


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("the grants¹⁰²³ of 1999¹² and 2016,³", "the grants of 1999 and 2016,"),
        ("of 1,234ᵇ and 45%ᶜ, the totalᵃ", "of 1,234 and 45%, the total"),
        ("several.¹,² Then", "several. Then"),
        ("10⁶, 10⁻⁶, x², m³, (a + b)², 2.5³ and (see above)⁴", "10⁶, 10⁻⁶, x², m³, (a + b)², 2.5³ and (see above)"),
        ("2ⁿ and eˣ of the 19ᵉ and the XXIᵉ siècle", "2^n and e^x of the 19e and the XXIe siècle"),
        ("¹² 18 U.S.C.", "12 18 U.S.C."),
    ],
)
def test_marks_of_notes_and_powers(text: str, plain: str) -> None:
    assert remove_note_marks(text, 1, []) == plain


# -------------------------------------------------------------------------------------------------- line numbers


@pytest.mark.parametrize(
    "item", ["Item of the mill no. {}", "repair of mill {}", "{}.50\t{}.25", "The council met in the year 19{}."]
)
def test_numbers_of_lists_stay(item: str) -> None:
    """Short items, even in lower case, rows of figures, and sentences: on one page and on several."""
    pages = []
    for page in range(3):
        rows = ""
        for number in range(20 * page + 1, 20 * page + 21):
            y = 700 - 20 * (number - 20 * page)
            rows += show(60, y, str(number))
            rows += "".join(
                show(90 + 80 * n, y, cell) for n, cell in enumerate(item.format(number, number).split("\t"))
            )
        pages.append(rows)
    for made in (pages, pages[:1]):
        assert "line number" not in read_bytes("a.pdf", raw_pdf(made)).extraction.changes


def test_line_numbers_begin_again_or_count_on() -> None:
    def numbered(page: int, first: int) -> list[Line]:
        return [at(f"{first + n}\ta line of text that is long", 700 - 20 * n, page=page) for n in range(10)]

    for first in (1, 11):
        fixed, edits = repaired(line_numbers, [numbered(1, 1), numbered(2, first)])
        assert set(texts(fixed)) == {"a line of text that is long"}
        assert len(edits) == 20
    pages = [numbered(1, 1), [at("text", 700)]]
    assert repaired(line_numbers, pages) == (pages, [])


def test_the_outline_finds_headings_over_lines_and_near_their_page() -> None:
    pages = [
        [at("The River", 700), at("The River and its", 650), at("Bridges", 638), at("of the river", 600)],
        [at("The River", 700, page=2), at("Ferries", 650, page=2)],
        [at("Ferries", 700, page=3), at("Notes", 650, page=3)],
    ]
    outline = [("The River and its Bridges", 1), ("Ferries", 1), ("The River", 9), ("Notes", None), ("", 1)]
    found = outline_headings(pages, outline)
    headings = [line.text for page in pages for line in page if id(line) in found]
    assert headings == ["The River and its", "Bridges", "Ferries", "Notes"]
    assert found[id(pages[0][1])] == found[id(pages[0][2])]


def test_items_that_fill_a_narrow_column_stay_apart() -> None:
    lines = [at("– inner one item that is long", 700, left=90), at("– inner two", 688, left=90)]
    lines += [at("– inner three items that is long", 676, left=90), at("3. Outer", 664)]
    assert compose([lines]).text == "\n".join(texts([lines]))
