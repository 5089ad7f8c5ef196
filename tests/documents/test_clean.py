from __future__ import annotations

import pytest

from specextend_cli.documents.document import Edit
from specextend_cli.documents.layout import compose
from specextend_cli.documents.line import HYPHEN, Line, lines_of_text
from specextend_cli.documents.repairs import repair_pages
from specextend_cli.documents.repairs.characters import characters, plain_characters
from specextend_cli.documents.repairs.hyphens import drop_caps, hyphens
from specextend_cli.documents.repairs.notes import note_marks
from specextend_cli.documents.repairs.order import side_headings
from specextend_cli.documents.repairs.rows import rows
from specextend_cli.documents.repairs.running import KEPT, running_lines


def texts(pages: list[list[Line]]) -> list[list[str]]:
    return [[line.text for line in page] for page in pages]


def at(text: str, base: float, *, left: float = 72, size: float = 10, page: int = 1, bold: bool = False) -> Line:
    return Line(text, page, left, left + 0.5 * size * len(text), base, size, bold)


def test_characters() -> None:
    lines = [
        "ﬁne oﬀice ﬂow",
        "so\u00adft",
        "Background ........ 7",
        "Terms . . . . . . . 12",
        "a  b\u00a0c",
        "x    y\tz",
    ]
    fixed, edits = characters([[at(text, 0) for text in lines]])
    assert texts(fixed) == [["fine office flow", "soft", "Background … 7", "Terms … 12", "a b c", "x  y  z"]]
    kinds = [edit.kind for edit in edits]
    assert kinds.count("ligature") == 3
    assert kinds.count("dot leader") == 2


def test_words_are_joined_at_no_break_hyphens_as_tex_has_them() -> None:
    divided = [
        "the govern\u2011",
        "ment has a long\u2011",
        "term plan for the gov\u2011",
        "ernment and its long\u2011term aims",
    ]
    pages = [[at(text, 700 - 12 * row) for row, text in enumerate(divided)]]
    (fixed,), edits = hyphens(characters(pages)[0])
    wanted = "the government has a long-term plan for the government and its long-term aims"
    assert " ".join(line.text for line in fixed) == wanted
    assert [edit.kind for edit in edits] == ["hyphen joined"] * 3


def test_an_ellipsis_is_no_dot_leader() -> None:
    text = "we had a developer . . . that wanted to stop... and so on"
    assert texts(characters([[at(text, 0)]])[0]) == [[text]]


def test_man_page_overstrike() -> None:
    assert texts(characters([[at("N\x08NA\x08AM\x08ME\x08E", 0)]])[0]) == [["NAME"]]


def test_running_heads_feet_and_page_numbers_go() -> None:
    pages = []
    for n in range(1, 9):
        body = [at(f"Unlike all the others, line {chr(96 + n) * 9} {k}", 700 - 12 * k, page=n) for k in range(20)]
        foot = at(f"Page {n}", 30, page=n)
        number = at("xii" if n == 1 else str(n), 18, page=n)
        head = at("Annual Report 2024", 780, page=n)
        pages.append([foot, head, *body, number])  # files often hold the foot first
    fixed, edits = running_lines(pages)
    assert all(len(page) == 20 for page in fixed)
    kinds = [edit.kind for edit in edits]
    assert kinds.count("running head") == 8
    assert kinds.count("page number") == 16


def test_lines_that_only_look_alike_stay() -> None:
    pages = [[at(f"Table {n}", 700 - 37 * n, page=n), at(f"body {n * 'x'}", 300, page=n)] for n in range(1, 6)]
    assert running_lines(pages)[0] == pages
    years = [[at(str(1900 + 7 * n), 700, page=n), at("body " + n * "x", 300, page=n)] for n in range(1, 6)]
    assert running_lines(years)[0] == years


def test_a_large_title_that_returns_keeps_its_first_place() -> None:
    pages = [
        [
            at("Key Findings", 700, size=20, page=n),
            *(at(n * "w " + "text " * 9, 600 - 12 * k, page=n) for k in range(5)),
        ]
        for n in range(1, 5)
    ]
    fixed, _ = running_lines(pages)
    assert [page[0].text == "Key Findings" for page in fixed] == [True, False, False, False]


def test_running_lines_in_text_files() -> None:
    texts_of = [f"THE TITLE\n\nThe text {'abcdef'[n]} goes on\nand on with {'uvwxyz'[n]}.\n\n{n + 1}" for n in range(6)]
    fixed, _ = running_lines([lines_of_text(text, n) for n, text in enumerate(texts_of, 1)])
    assert texts(fixed)[2] == ["The text c goes on", "and on with w."]


def invoice(n: int) -> list[Line]:
    said = (f"Invoice {1000 + n}", f"Date: {n} May 2024", f"Amount: {100 + 7 * n}.50", f"Total: {120 + 7 * n}.50")
    return [at(text, 780 - 24 * k, page=n) for k, text in enumerate((*said[:2], "Delivered to Paris", *said[2:]))]


def test_lines_that_differ_in_figures_are_no_running_heads() -> None:
    pages = [invoice(n) for n in range(1, 6)]
    assert running_lines(pages) == (pages, [])
    longer = [
        [*invoice(n), *(at(f"Stone {n} {k} " * 5, 600 - 12 * k, page=n) for k in range(30))] for n in range(1, 40)
    ]
    assert running_lines(longer) == (longer, [])


def test_labelled_numbers_that_count_up_are_no_page_numbers() -> None:
    for label in ("Invoice {}", "INV-{}", "Order no. {}", "Case #{}"):
        pages = [
            [at(label.format(n), 780, page=n), *(at(f"Body {n} {k} " * 9, 700 - 12 * k, page=n) for k in range(9))]
            for n in range(1, 9)
        ]
        assert running_lines(pages) == (pages, []), label


def paged(number: int, head: str = "", foot: str = "") -> list[Line]:
    body = [
        at(f"The sentence number {number * 9 + k} of the text goes on", 700 - 12 * k, page=number) for k in range(9)
    ]
    around = [at(text, base, page=number) for text, base in ((head, 780), (foot, 40)) if text]
    return [*around, *body]


def test_heads_of_short_chapters_go() -> None:
    heads = ["", "2 CHAPTER 1. THE MILL", "3", "4 CHAPTER 1. THE MILL", "", "6 CHAPTER 2. THE FORD", "7"]
    pages = [paged(n, head, "" if head else str(n)) for n, head in enumerate(heads, 1)]
    fixed, edits = running_lines(pages)
    assert fixed == [paged(n) for n in range(1, 8)]
    assert sorted(edit.before for edit in edits) == sorted(head or str(n) for n, head in enumerate(heads, 1))
    titles = ["1 The old mill", "2 The new mill", "3 The ford below"]
    pages = [paged(n, title) for n, title in enumerate(titles, 1)]
    assert running_lines(pages) == (pages, [])


def test_in_a_short_document_the_first_head_and_the_last_foot_stay() -> None:
    pages = [paged(n, "Report of the mill", "Confidential") for n in (1, 2)]
    fixed, _ = running_lines(pages)
    assert fixed == [paged(1, "Report of the mill"), paged(2, "", "Confidential")]
    fixed, edits = running_lines([paged(n, "", f"- {n} -") for n in (1, 2)])
    assert (fixed, {edit.kind for edit in edits}) == ([paged(1), paged(2)], {"page number"})
    others = [paged(1, "", "Order no. 1"), paged(2, "", "Order no. 2")]
    assert running_lines(others) == (others, [])


def test_what_is_most_of_its_pages_is_no_running_head() -> None:
    pages = [
        [
            at(text, 780 - 60 * k, page=n)
            for k, text in enumerate(("Stone and Sons", "12 Bridge Road, Paris", chr(96 + n)))
        ]
        for n in range(1, 6)
    ]
    fixed, edits = running_lines(pages)
    assert fixed == pages
    assert {edit.kind for edit in edits} == {KEPT}
    assert len(edits) == 10


def test_a_running_head_may_carry_its_page_number_and_that_of_its_chapter() -> None:
    pages = [
        [
            at(f"Chapter {1 + n // 12}: Levels  {n}", 780, page=n),
            *(at(f"Body {chr(96 + n % 26)} {k} " * 9, 700 - 12 * k, page=n) for k in range(9)),
        ]
        for n in range(1, 60)
    ]
    fixed, edits = running_lines(pages)
    assert all(len(page) == 9 for page in fixed)
    assert {edit.kind for edit in edits} == {"running head"}


def test_hyphens_are_joined_as_the_document_itself_spells_the_word() -> None:
    lines = [
        "The government and a third-party audit.",
        f"The govern{HYPHEN}",
        f"ment asked a third{HYPHEN}",
        f"party, and self{HYPHEN}",
        "appointed critics disagreed about the re-",
        "port of pages 3-",
        "5 and the Anglo-",
        "Saxon tribes.",
    ]
    fixed, edits = hyphens([[at(text, -12 * k) for k, text in enumerate(lines)]])
    text = " ".join(line.text for line in fixed[0])
    assert (
        "The government asked a third-party, and self-appointed critics disagreed about the report of pages 3-5" in text
    )
    assert "the Anglo-Saxon tribes" in text
    assert HYPHEN not in text
    assert [edit.kind for edit in edits] == ["hyphen joined"] * 6
    assert edits[0].before == "govern-\nment"


@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [
        ("was registered as PK-", "LQP and it", "PK-LQP"),
        ("the aircraft was an ET-", "AVJ of 2018", "ET-AVJ"),
        ("the aircraft was a 9V-", "SMF of 2018", "9V-SMF"),
        ("it was a Boeing 737-", "MAX of 2018", "737-MAX"),
        ("it was a Boeing 737-", "8 of 2018", "737-8"),
        ("it was flown by the B-", "52 of 2018", "B-52"),
        ("it was an Airbus A320-", "neo of 2018", "A320-neo"),
        (f"a raid by the FBI{HYPHEN}", "led men of", "FBI-led"),
        ("it was meant as a 10-", "year plan of", "10-year"),
        ("for children of 10-", "to 12-year-olds", "10- to"),
        ("THE REPORT OF THE GOVERN-", "MENT ON THE ROADS", "GOVERNMENT"),
    ],
)
def test_capitals_and_numbers_keep_their_hyphen(first: str, second: str, wanted: str) -> None:
    fixed, _ = hyphens([[at(first, -12), at(second, -24)]])
    assert wanted in " ".join(line.text for line in fixed[0])


def test_hyphens_in_rows_of_a_table_stay() -> None:
    for first in ("Grade A-", "The mill and the bridge  A-"):
        assert texts(hyphens([[at(first, -12), at("12 in all", -24)]])[0]) == [[first, "12 in all"]]


def test_a_note_below_a_hyphen_keeps_its_number() -> None:
    lines = [at("and faster than the usual standard-", 70, size=9.5), at("1 See the book of the mill.", 39, size=7.5)]
    assert texts(hyphens([lines])[0]) == [[line.text for line in lines]]


def test_hyphens_across_pages_and_words_of_one_line() -> None:
    fixed, _ = hyphens([[at(f"a pre{HYPHEN}", 10)], [at("diction", 700, page=2)]])
    assert texts(fixed) == [["a prediction"], []]


def test_note_marks() -> None:
    fixed, edits = note_marks(
        [[at("of the grants⁶ and “words.”¹² An area of 5 km² and 10⁶ more", 5), at("⁶Pub. L.", 0)]]
    )
    assert texts(fixed) == [["of the grants and “words.” An area of 5 km² and 10⁶ more", "6 Pub. L."]]
    assert len(edits) == 2


def test_pieces_of_a_row_are_joined() -> None:
    first = at("organizations⁴", 100, left=72)
    second = at("and others", 100, left=first.right + 3)
    cell = at("17%", 100, left=second.right + 80)
    assert texts(rows([[first, second, cell]])[0]) == [["organizations⁴ and others  17%"]]
    below = at("and others", 88)
    assert texts(rows([[first, below]])[0]) == [["organizations⁴", "and others"]]


def test_side_headings_go_where_they_stand() -> None:
    body = [at(f"line {k} of the body text", 700 - 12 * k, left=200) for k in range(10)]
    side = [at("Results", 640, left=36, size=13), at("in Brief", 625, left=36, size=13)]
    fixed, edits = side_headings([[*body, *side]])
    assert texts(fixed)[0][4:8] == ["line 4 of the body text", "Results", "in Brief", "line 5 of the body text"]
    assert len(edits) == 2


def test_headings_of_a_narrow_column_stay_with_it() -> None:
    body = [at(f"line {k} of the body text", 700 - 12 * k, left=200) for k in range(10)]
    column = [at("Results", 640, left=36, size=13), *(at("their text", 625 - 12 * k, left=36) for k in range(4))]
    assert side_headings([[*body, *column]])[0] == [[*body, *column]]


def lay_out(text: str) -> str:
    return compose(repair_pages([lines_of_text(text, 1)])[0]).text


def test_wrapped_lines_become_paragraphs() -> None:
    source = """\
The first paragraph is wrapped at a width of about sixty
characters and goes on over three lines until it comes to
its end.

The second follows a blank line and holds a word that is hyphen-
ated at the end.
  The third is only indented, as books have it, after the short
line above.
"""
    first, second, *_ = lay_out(source).split("\n\n")
    assert first.endswith("goes on over three lines until it comes to its end.")
    assert "a word that is hyphenated at the end." in second


def test_double_spaced_lines_are_still_one_paragraph() -> None:
    source = "A sentence that was typed with\n\nempty lines between all of its\n\nlines and so goes on\n\nand on."
    assert lay_out(source) == " ".join(source.split())


def test_lists_and_tables_keep_their_lines() -> None:
    source = """\
We ask three things of those who read this text to its end:
- that they like it;
- that they tell others about it, which takes a little longer
  to say than one line holds;
- that they return.

Year     Rain      Flood
2019     812 mm    none
2020     1,002 mm  two
"""
    listing, table = lay_out(source).split("\n\n")
    assert listing.split("\n")[2].startswith("- that they tell others")
    assert listing.split("\n")[2].endswith("to say than one line holds;")
    assert table.split("\n") == ["Year  Rain  Flood", "2019  812 mm  none", "2020  1,002 mm two"]


def test_long_unwrapped_lines_are_paragraphs() -> None:
    one, two = "One sentence of many words. " * 9, "Another sentence of words. " * 12
    assert lay_out(f"{one}\n{two}\n{one}") == "\n\n".join((one.strip(), two.strip(), one.strip()))


def test_headings() -> None:
    source = "INTRODUCTION\n\nBody text that is quite plain.\n\n2.1 Scope of the Work\n\n"
    source += "More of it here.\n\nFindings and Advice\n\nEnd."
    result = compose([lines_of_text(source, 1)])
    found = [result.text[b.start : b.end] for b in result.blocks if b.kind == "heading"]
    assert found == ["INTRODUCTION", "2.1 Scope of the Work", "Findings and Advice"]


def test_paragraphs_go_on_over_the_page() -> None:
    pages = [
        lines_of_text("A sentence that does not end where the page", 1),
        lines_of_text("ends but on the next.\n\nAnother.", 2),
    ]
    result = compose(pages)
    assert result.text == "A sentence that does not end where the page ends but on the next.\n\nAnother."
    assert [(p.number, result.text[p.start : p.end][:5]) for p in result.pages] == [(1, "A sen"), (2, "ends ")]


def test_chinese_is_joined_without_spaces() -> None:
    assert lay_out("这是一个很长的句子它在这里换行\n然后继续。") == "这是一个很长的句子它在这里换行然后继续。"


def test_a_drop_cap_that_a_file_holds_elsewhere_joins_its_line() -> None:
    letter, title = at("T", 680, size=36), at("The Mill", 740, size=18, bold=True)
    first, others = at("he river rises in the hills", 700, left=110), [at("and falls.", 688, left=110)]
    fixed, edits = drop_caps([[letter, title, first, *others]])
    assert fixed == [[title, first._replace(text="The river rises in the hills"), *others]]
    assert [edit.kind for edit in edits] == ["initial"]
    page = [letter, title, first._replace(text="However it rises"), *others]
    assert drop_caps([page]) == ([page], [])


def test_what_browsers_print_around_a_page_goes() -> None:
    for head, foot in (
        ("11/28/26, 8:51 AM  The Mill", "https://example.org/mill  #/2"),
        ("The Mill  https://example.org/mill", "# of 2  28.11.2026, 08:51"),
    ):
        pages = [[at(head, 780, page=n), at(f"The mill {n * 'x'}", 700, page=n)] for n in (1, 2)]
        pages = [[*page, at(foot.replace("#", str(n)), 20, page=n)] for n, page in enumerate(pages, 1)]
        fixed, edits = running_lines(pages)
        assert texts(fixed) == [["The mill x"], ["The mill xx"]]
        assert [edit.kind for edit in edits] == ["running head", "running foot"] * 2
        assert texts(running_lines(pages[:1])[0]) == [["The mill x"]]
    memo = [[at("11/28/26, 8:51 AM  The Mill", 780), at("The mill", 700), at("See https://example.org/mill", 20)]]
    assert running_lines(memo) == (memo, [])


def test_letters_of_formulas_are_letters() -> None:
    edits: list[Edit] = []
    assert plain_characters("where 𝑎 + ℎ = 𝛼𝟐 and 𝗕𝗼𝗹𝗱", 1, edits) == "where a + h = α2 and Bold"
    assert [edit.before for edit in edits] == ["𝑎", "ℎ", "𝛼𝟐", "𝗕𝗼𝗹𝗱"]
