"""Characters and divided words are repaired, and lines become paragraphs, lists, tables and headings."""

from __future__ import annotations

import pytest

from specextend_cli.documents.cleaning import repair_pages
from specextend_cli.documents.layout import compose
from specextend_cli.documents.line import HYPHEN, lines_of_text
from specextend_cli.documents.repairs.characters import characters
from specextend_cli.documents.repairs.hyphens import hyphens
from tests.documents.made_lines import at, repaired


@pytest.mark.parametrize(
    ("text", "wanted", "kinds"),
    [
        ("ﬁne oﬀice ﬂow", "fine office flow", ["ligature"] * 3),
        ("so\u00adft", "soft", ["soft hyphen"]),
        ("Background ........ 7", "Background … 7", ["dot leader"]),
        ("Terms . . . . . . . 12", "Terms … 12", ["dot leader"]),
        ("we had . . . to stop... and so on", "we had . . . to stop... and so on", []),
        ("a  b\u00a0c", "a b c", ["white space"] * 2),
        ("x    y\tz", "x  y  z", ["white space"] * 2),
        ("N\x08NA\x08AM\x08ME\x08E", "NAME", ["overstrike"] * 4),  # of man pages
        ("where 𝑎 + ℎ = 𝛼𝟐 and 𝗕𝗼𝗹𝗱", "where a + h = α2 and Bold", ["styled letters"] * 4),
    ],
)
def test_characters(text: str, wanted: str, kinds: list[str]) -> None:
    [[line]], edits = repaired(characters, [[at(text, 0)]])
    assert line.text == wanted
    assert [edit.kind for edit in edits] == kinds


def joined(*lines: str) -> str:
    """The text of lines one below the other, some of which end within a word."""
    (fixed,), edits = repaired(hyphens, characters([[at(text, -12 * row) for row, text in enumerate(lines)]], []))
    assert {edit.kind for edit in edits} <= {"hyphen joined"}
    return " ".join(line.text for line in fixed)


@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [
        ("this govern-", "ment and", "this government and"),
        ("this govern\u2011", "ment and", "this government and"),  # as XeTeX has them
        ("asked a third-", "party and", "third-party and"),  # as the document itself spells it
        ("the Anglo-", "Saxon tribes", "Anglo-Saxon"),
        ("the aircraft was a 9V-", "SMF of 2018", "9V-SMF"),
        ("see the pages 3-", "5 of it", "3-5"),
        ("it was an Airbus A320-", "neo of 2018", "A320-neo"),
        (f"a raid by the FBI{HYPHEN}", "led men of", "FBI-led"),
        ("it was meant as a 10-", "year plan of", "10-year"),
        ("for children of 10-", "to 12-year-olds", "10- to"),
        ("THE REPORT OF THE GOVERN-", "MENT ON THE ROADS", "GOVERNMENT"),
        ("Ein-", "und Ausgang", "Ein- und Ausgang"),
        ("the short-", "and long-term effects", "short- and long-term"),
        ("the milk-transport-", "ing ducts", "milk-transporting"),
        ("all that is un-", "like it", "unlike"),
        ("Grade A-", "12 in all", "Grade A- 12"),  # rows of a table
        ("The mill and the bridge\tA-", "12 in all", "A- 12"),
    ],
)
def test_words_at_line_ends(first: str, second: str, wanted: str) -> None:
    assert wanted in joined("the gov-", "ernment has its government", "and third-party costs", first, second)


def test_a_document_that_divides_no_words_keeps_its_hyphens() -> None:
    lines = [
        "the council of the whole harbour met and asked for",
        "information about the cost of the walls and of the",
        "foundations below them, which the oldest and the best",
        "engineers of the town had been asked to measure for a",
        "considerable time before they could begin to say what",
        "maintenance would cost the town in every one of the",
        "following years, in which they had to be mended by the",
        "inhabitants of the quarter at their own cost and with",
        "neighbours who lived on the other side of the river and",
    ]
    assert "body-building nutrients" in joined(*lines, f"with a body and body{HYPHEN}", "building nutrients")
    divided = ("a vita-", "min and the proc-", "ess of a vitamin for the re-", "port")
    assert "the process of a vitamin for the report" in joined(*lines, *divided)


def test_hyphens_that_only_divide_are_another_character() -> None:
    lines = ("a well-known tri\N{HYPHEN}", "angle that is so-", "named by all")
    assert joined(*lines) == "a well-known triangle that is so-named by all"


def test_words_go_on_over_the_page_and_not_in_its_notes() -> None:
    fixed, edits = repaired(hyphens, [[at(f"a pre{HYPHEN}", 10)], [at("diction", 700, page=2)]])
    assert [[line.text for line in page] for page in fixed] == [["a prediction"], []]
    assert edits[0].before == "pre-\ndiction"
    lines = [at("and faster than the usual standard-", 70, size=9.5), at("1 See the book of the mill.", 39, size=7.5)]
    assert hyphens([lines], []) == [lines]


def lay_out(text: str) -> str:
    return compose(repair_pages([lines_of_text(text, 1)], [])).text


def test_wrapped_lines_become_paragraphs() -> None:
    source = "The first paragraph is wrapped and goes on over three\nlines of sixty characters until it comes to\n"
    source += "its end.\n\nThe second follows a blank line and holds a word hyphen-\nated at the end.\n"
    source += "  The third is only indented, as books have it.\n"
    first, second, *_ = lay_out(source).split("\n\n")
    assert first.endswith("wrapped and goes on over three lines of sixty characters until it comes to its end.")
    assert "a word hyphenated at the end." in second


def test_lists_and_tables_keep_their_lines() -> None:
    source = "We ask three things of those who read this text to its end:\n- that they like it;\n"
    source += "- that they tell others about it, which takes a little longer\n  to say than one line holds;\n"
    source += "- that they return.\n\nYear     Rain      Flood\n2019     812 mm    none\n2020     1,002 mm  two\n"
    listing, table = lay_out(source).split("\n\n")
    assert listing.split("\n")[2].startswith("- that they tell others")
    assert listing.split("\n")[2].endswith("to say than one line holds;")
    assert table.split("\n") == ["Year  Rain  Flood", "2019  812 mm  none", "2020  1,002 mm two"]


LONG, LONGER = "One sentence of many words. " * 9, "Another sentence of words. " * 12


def test_unwrapped_lines() -> None:
    paragraphs = [LONG.strip(), LONGER.strip(), LONG.strip()]
    assert lay_out(f"{LONG}\n{LONGER}\n{LONG}").split("\n\n") == paragraphs


def test_headings() -> None:
    source = "INTRODUCTION\n\nBody text that is quite plain.\n\n2.1 Scope of the Work\n\n"
    source += "More of it here.\n\nFindings and Advice\n\nEnd."
    result = compose([lines_of_text(source, 1)])
    found = [result.text[b.start : b.end] for b in result.blocks if b.kind == "heading"]
    assert found == ["INTRODUCTION", "2.1 Scope of the Work", "Findings and Advice"]
