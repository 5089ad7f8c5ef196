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


def test_fenced_code_is_code() -> None:
    code = ["```sh", "Make the harbour. Make the town.", "- x", "```"]
    lines = ["Run this.", *code, "The harbour is made."]
    assert found("\n".join(lines)) == [("code" if line in code else "prose", line) for line in lines]


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
    assert prose == ["It was founded.", "Wool was sold."]


PIECES = "The harbour¦ was closed¦. ¦\n¦\n\n¦# A¦- b¦| c | d¦```¦=====¦水。¦  ¦1. ¦é"


@given(
    st.lists(st.sampled_from(PIECES.split("¦")), max_size=40).map("".join), st.sampled_from(["a.md", "a.txt", "a.rst"])
)
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
