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


FOUNDED = "The harbour of Falcaster was founded by fishermen who needed\nshelter from the wind."


@pytest.mark.parametrize(
    "parts",
    [
        # (kind, text) of all that stands in a paragraph, each on a line of its own.
        [("prose", FOUNDED), ("prose", "Wool was sold\non the market.")],
        [("prose", "The Harbour"), ("prose", FOUNDED), ("prose", "It was closed.")],
        [("prose", "Buy milk"), ("item", "- Call Ann"), ("prose", "Pay the rent")],
        *(
            [("prose", "The causes:"), ("item", f"{mark} the storm, which\n  came at night"), ("item", f"{mark} war.")]
            for mark in ("-", "*", "+", "•", "1.", "2)", "(3)", "a.", "#.")
        ),
        *(
            [("prose", FOUNDED), (kind, line), ("prose", "It was closed again.")]
            for kind, lines in {
                "table": ["| a | b |", "+----+----+", "name | height | depth", "==== ====", "----", "Harbours ====="],
                "code": [".. note:: The harbour is closed.", ":author: Ann Hill", "<div>", "[1]: https://example.org"],
                "prose": ["The ratio is 3:4 here."],
            }.items()
            for line in lines
        ),
        [("code", line) for line in ("```sh", "Make the harbour. Make the town.", "- x", "```")],
    ],
)
def test_sentences_items_tables_and_code_are_told_apart(parts: list[tuple[str, str]]) -> None:
    assert found("\n".join(line for _, line in parts)) == parts


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
