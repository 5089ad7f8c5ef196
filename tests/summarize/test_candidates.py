"""The sentences of a document: where each lies, and of what kind it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specextend_cli.documents.read import read_bytes
from specextend_cli.summarize.ranking.candidates import Candidate, candidates
from tests.summarize.scribe import document


def found(text: str) -> list[tuple[str, str]]:
    """(kind, text) of each candidate of a text in one block for each paragraph."""
    source = document(text)
    return [(one.kind, source.text[one.start : one.end]) for one in candidates(source)]


def read(text: str, name: str = "a.md") -> tuple[str, list[Candidate]]:
    source = read_bytes(name, text.encode())
    return source.text, candidates(source)


def test_wrapped_lines_are_one_sentence() -> None:
    text = (
        "The harbour of Falcaster was founded by fishermen who needed\nshelter from the wind. Wool and herring were"
        " sold\non the market of the town."
    )
    first, second = text.split(". ")
    assert found(text) == [("prose", f"{first}."), ("prose", second)]


def test_a_short_line_before_a_capital_ends_its_sentence() -> None:
    text = "The Harbour\nThe harbour of Falcaster was founded by fishermen who needed a shelter.\nIt was closed."
    assert [one for _, one in found(text)] == text.split("\n")
    assert [one for _, one in found("Buy milk\n- Call Ann\nPay the rent")] == ["Buy milk", "- Call Ann", "Pay the rent"]


@pytest.mark.parametrize("mark", ["-", "*", "+", "•", "1.", "2)", "(3)", "a.", "#."])
def test_list_items_are_told_apart(mark: str) -> None:
    text = f"These are the causes:\n{mark} the storm of the year, which\n  came at night\n{mark} the war."
    assert found(text) == [
        ("prose", "These are the causes:"),
        ("item", f"{mark} the storm of the year, which\n  came at night"),
        ("item", f"{mark} the war."),
    ]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("| a | b |", "table"),
        ("+----+----+", "table"),
        ("name | height | depth", "table"),
        ("====  ====  =====", "table"),
        ("--------", "table"),
        ("Harbours ========", "table"),
        (".. note:: The harbour is closed.", "code"),
        (":author: Ann Hill", "code"),
        ("<div>", "code"),
        ("[1]: https://example.org", "code"),
        ("The ratio is 3:4 here.", "prose"),
    ],
)
def test_the_kind_of_a_line(line: str, kind: str) -> None:
    assert (kind, line) in found(f"The harbour was founded by fishermen.\n{line}\nThe harbour was closed again.")


ASKED = ("How do I reach the harbour?", "Who owns the ferry?", "When is the market closed?")
ANSWER = "The harbour of Falcaster was founded by fishermen. It was closed."


def kinds(*paragraphs: str) -> list[str]:
    return [one.kind for one in read("\n\n".join(paragraphs), "a.txt")[1] if one.place == 0]


def test_questions_above_their_answers_are_headings() -> None:
    pairs = [part for asked in ASKED for part in (asked, ANSWER)]
    _, listed = read("\n\n".join(pairs), "a.txt")
    assert [one.heading for one in listed if one.kind == "heading"] == list(ASKED)
    assert {(one.section, one.heading) for one in listed} == set(enumerate(ASKED, 1))
    assert kinds(*pairs[:4]) == ["prose"] * 4  # two are no list of them
    assert kinds(*ASKED, ANSWER) == ["prose"] * 4  # only the last one is answered
    assert kinds(*(part.replace("?", ". Why?") for part in pairs)).count("heading") == 0  # more than a question
    assert kinds(*(f"{pairs[0][:-1]}: {part}" for part in pairs)) == ["prose"] * 6  # somebody says so
    assert kinds("Ann: Yes.", *pairs, "Bob: Well.", "Ann: No.", "Bob: So.").count("heading") == 0
    assert kinds(*(part.replace(ANSWER, "It is closed.") for part in pairs)) == ["prose"] * 6  # no answers to quote


@pytest.mark.parametrize(
    "form", ["{}\n{}", "**{}**\n{}", "Q: {}\n\nA: {}", "Question 3: {}\nAnswer: {}", "1. {}\n\n{}"]
)
def test_questions_are_headings_in_the_forms_that_lists_of_them_have(form: str) -> None:
    text, listed = read("\n\n".join(form.format(asked, ANSWER) for asked in ASKED), "a.txt")
    assert [one.heading.strip("*").removeprefix("1. ") for one in listed if one.kind == "heading"] == list(ASKED)
    answers = [(text[one.start : one.end], one.place) for one in listed if one.kind == "prose"]
    first, second = ANSWER.split(". ")
    assert answers == [(f"{first}.", 0), (second, 1)] * 3


def test_questions_in_one_paragraph_with_their_answers_are_headings() -> None:
    listing = "".join(f"<dt>{asked}</dt><dd>{ANSWER}</dd>" for asked in ASKED)
    text, listed = read(f"<html><body><h1>Town</h1><dl>{listing}</dl></body></html>", "a.html")
    assert [one.heading for one in listed if one.kind == "heading"] == ["Town", *ASKED]
    assert all(ANSWER.startswith(text[one.start : one.end]) for one in listed if one.kind == "prose" and one.place == 0)


def test_fenced_code_is_code() -> None:
    text = "Run this.\n```sh\nMake the harbour. Make the town.\n- x\n```\nThe harbour is made."
    assert found(text) == [
        ("prose", "Run this."),
        ("code", "```sh"),
        ("code", "Make the harbour. Make the town."),
        ("code", "- x"),
        ("code", "```"),
        ("prose", "The harbour is made."),
    ]


def test_headings_begin_sections_and_name_them() -> None:
    text, sentences = read("# The harbour\n\nIt was founded. It was closed.\n\n## Trade #\n\nWool was sold.\n")
    assert [(one.kind, one.section, one.heading, one.place) for one in sentences] == [
        ("heading", 1, "The harbour", 0),
        ("prose", 1, "The harbour", 0),
        ("prose", 1, "The harbour", 1),
        ("heading", 2, "Trade", 0),
        ("prose", 2, "Trade", 0),
    ]
    assert sentences[1].block == sentences[2].block != sentences[4].block
    assert text[sentences[2].start : sentences[2].end] == "It was closed."


def test_underlines_of_restructured_text_are_no_sentences() -> None:
    text, sentences = read("The Harbour\n===========\n\nIt was founded.\n\nTrade\n-----\n\nWool was sold.\n", "a.rst")
    prose = [text[one.start : one.end] for one in sentences if one.kind in ("prose", "item")]
    assert not any(set(one) & set("=-") for one in prose)
    assert "It was founded." in prose
    assert "Wool was sold." in prose


PIECES = (
    "The harbour",
    " was closed",
    ". ",
    "\n",
    "\n\n",
    "# A",
    "- b",
    "| c | d",
    "```",
    "=====",
    "水。",
    "  ",
    "1. ",
    "é",
)


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join), st.sampled_from(["a.md", "a.txt", "a.rst"]))
def test_positions_are_exact_and_nothing_is_left_out(source: str, name: str) -> None:
    if not source.strip():
        return
    text, sentences = read(source, name)
    end, left = 0, ""
    for one in sentences:
        assert end <= one.start < one.end
        assert text[one.start : one.end].strip() == text[one.start : one.end] or one.kind == "heading"
        left += text[end : one.start]
        end = one.end
    assert not (left + text[end:]).strip()
    assert [one.section for one in sentences] == sorted(one.section for one in sentences)
