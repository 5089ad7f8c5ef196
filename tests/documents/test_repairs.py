"""What the repairs of printed pages leave alone: lines that only look like columns, line numbers or watermarks."""

from __future__ import annotations

from itertools import pairwise

from specextend_cli.documents.layout import compose, outline_headings
from specextend_cli.documents.line import Line
from specextend_cli.documents.repairs.columns import columns
from specextend_cli.documents.repairs.line_numbers import line_numbers
from specextend_cli.documents.repairs.list_markers import list_markers
from specextend_cli.documents.repairs.running import watermarks


def at(text: str, base: float, *, left: float = 72, right: float = 0, page: int = 1, **more: object) -> Line:
    return Line(text, page, left, right or left + 5 * len(text), base, 10, **more)  # type: ignore[arg-type]


def row(base: float, *cells: tuple[float, str], page: int = 1) -> Line:
    """One line with wide gaps before each cell but the first, as the reader gives it."""
    ends = [(left + 5 * len(text), following) for (left, text), (following, _) in pairwise(cells)]
    text, (last, final) = "\t".join(text for _, text in cells), cells[-1]
    return at(text, base, left=cells[0][0], right=last + 5 * len(final), page=page, gaps=tuple(ends))


PROSE = (
    ("The river rises in the old hills", "A bridge of stone crosses the water"),
    ("and reaches the sea after a while", "below the market, and carts use it"),
    ("of fields, woods and many towns.", "when the ford is too deep for them,"),
    ("People have measured its level", "which happens in most years and"),
    ("every morning since the flood, and", "lasts for weeks; it was paid for"),
    ("they have written it in a book.", "by a tax on salt that many hated."),
)


def test_columns_are_read_one_after_the_other() -> None:
    page = [row(700 - 12 * n, (72, left), (320, right)) for n, (left, right) in enumerate(PROSE)]
    fixed, edits = columns([[at("Waters", 740), *page, at("x" * 80, 600)]])
    lefts, rights = ([pair[side] for pair in PROSE] for side in (0, 1))
    assert [line.text for line in fixed[0]] == ["Waters", *lefts, *rights, "x" * 80]
    assert [edit.kind for edit in edits] == ["column"]
    assert fixed[0][7].left == 320


def test_tables_are_no_columns() -> None:
    cells = [("Station", "Level"), ("Old mill", "3.20"), ("Market bridge", "4.05"), ("Ferry", "2.98")] * 2
    table = [row(700 - 12 * n, (72, left), (320, right)) for n, (left, right) in enumerate(cells)]
    terms = [row(500 - 12 * n, (72, f"{'ABCDEF'[n]} of T"), (200, right)) for n, (_, right) in enumerate(PROSE)]
    assert columns([[*table, *terms]]) == ([[*table, *terms]], [])


def test_cells_of_two_lines_are_no_columns() -> None:
    table = []
    for n in range(0, len(PROSE), 2):
        for side, left in ((0, 72), (1, 320)):
            table += [at(PROSE[n + line][side], 700 - 15 * n - 12 * line, left=left) for line in (0, 1)]
    table += [line._replace(base=line.base - 100) for line in table]
    assert columns([table]) == ([table], [])


def test_few_rows_are_no_columns() -> None:
    page = [row(700 - 12 * n, (72, left), (320, right)) for n, (left, right) in enumerate(PROSE[:4])]
    assert columns([page]) == ([page], [])


def numbered(page: int, first: int = 1, *, cells: bool = False) -> list[Line]:
    texts = [f"{first + n}\t{'Mill' if cells else 'a line of text that is long'}" for n in range(10)]
    return [at(text + ("\t3.20" if cells else ""), 700 - 20 * n, page=page) for n, text in enumerate(texts)]


def test_line_numbers_go() -> None:
    fixed, edits = line_numbers([numbered(1), numbered(2)])
    assert {line.text for page in fixed for line in page} == {"a line of text that is long"}
    assert len(edits) == 20
    assert line_numbers([numbered(1), numbered(2, 11)])[1]  # counted on over the pages


def test_numbers_of_rows_and_of_one_list_stay() -> None:
    for pages in ([numbered(1, cells=True), numbered(2, 11, cells=True)], [numbered(1), [at("text", 700, page=2)]]):
        assert line_numbers(pages) == (pages, [])


def test_watermarks() -> None:
    pages = [[at("Text", 700, page=n), at("DRAFT", 400, page=n, slanted=True)] for n in (1, 2)]
    fixed, edits = watermarks(pages)
    assert [[line.text for line in page] for page in fixed] == [["Text"], ["Text"]]
    assert [edit.before for edit in edits] == ["DRAFT"] * 2
    axis = [[at("Text", 700), at("March", 400, slanted=True), at("April", 400, slanted=True)]]
    assert watermarks(axis) == (axis, [])


def test_the_outline_finds_headings_over_lines_and_near_their_page() -> None:
    pages = [
        [at("The River", 700), at("The River and its", 650), at("Bridges", 638), at("of the river", 600)],
        [at("The River", 700, page=2), at("Ferries", 650, page=2)],
        [at("Ferries", 700, page=3), at("Notes", 650, page=3)],
    ]
    found = outline_headings(
        pages, [("The River and its Bridges", 1), ("Ferries", 1), ("The River", 9), ("Notes", None), ("", 1)]
    )
    texts = [line.text for page in pages for line in page if id(line) in found]
    assert texts == ["The River and its", "Bridges", "Ferries", "Notes"]
    assert found[id(pages[0][1])] == found[id(pages[0][2])]


def marked(base: float, marker: str = "", text: str = "", *, left: float = 100) -> Line:
    """A marker at the left of an item, or a line of the text of an item."""
    return at(marker, base, left=left - 15) if marker else at(text, base, left=left)


def test_markers_that_are_drawn_last_stand_before_their_items() -> None:
    texts = [marked(700, text="Boats pay in"), marked(688, text="advance."), marked(676, text="Dogs wait.")]
    nested = marked(664, text="So do cats.", left=130)
    markers = [marked(700, "1."), marked(676, "2."), marked(664, "◦", left=130)]
    fixed, edits = list_markers([[at("Rules", 740), *texts, nested, *markers]])
    assert [line.text for line in fixed[0]] == [
        *("Rules", "1.", "Boats pay in", "advance.", "2.", "Dogs wait.", "◦", "So do cats.")
    ]
    assert {edit.kind for edit in edits} == {"list marker"}


def test_other_short_lines_stay_in_their_places() -> None:
    item = [marked(700, "1."), marked(700, text="Boats pay.")]
    far, above = at("2.", 660, left=20), at("•", 690)
    page = [at("Rules", 740), *item, at("Dogs wait.", 660, left=200), far, above]
    assert list_markers([page]) == ([page], [])


def test_items_that_fill_a_narrow_column_stay_apart() -> None:
    lines = [at("– inner one item that is long", 700, left=90), at("– inner two", 688, left=90)]
    lines += [at("– inner three items that is long", 676, left=90), at("3. Outer", 664)]
    assert compose([lines]).text == "\n".join(line.text for line in lines)
