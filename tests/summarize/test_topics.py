"""An outline has the document's own headings, and none of what only looks like one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specextend_cli.documents.document import Block, Document, Extraction, Page
from specextend_cli.documents.read import read_bytes
from specextend_cli.summarize.events import Text
from specextend_cli.summarize.ranking.candidates import candidates
from specextend_cli.summarize.ranking.features import features
from specextend_cli.summarize.ranking.selection import Selector
from specextend_cli.summarize.ranking.topics import title, topics
from specextend_cli.summarize.summarizer import Summarizer
from specextend_cli.summarize.text.words import count_words
from specextend_cli.ui.results import WRITERS
from tests.helpers.flat_options import flat_options

LONG = " ".join(
    f"{one}{two}" for one in ("sea", "sun", "ice") for two in ("bed", "dog", "man", "top", "way", "ed", "ice", "ly")
)
BODY = "The council of Falcaster sold wool and salt on the market in spring."


def made(*parts: str) -> Document:
    """A document of headings, which begin with "# ", and paragraphs."""
    text, blocks = "", []
    for part in parts:
        body = part.removeprefix("# ")
        text += "\n\n" if text else ""
        blocks.append(Block("heading" if part != body else "paragraph", len(text), len(text) + len(body)))
        text += body
    return Document("a.txt", "text", text, (Page(1, 0, len(text)),), tuple(blocks), Extraction(1))


def above(*parts: str) -> list[str]:
    """The topic of each paragraph."""
    document = made(*parts)
    found = candidates(document)
    known = topics(document.text, found)
    return [
        known.headings[topic] if topic >= 0 else ""
        for topic, one in zip(known.above, found, strict=True)
        if one.kind == "prose"
    ]


def test_each_sentence_belongs_to_the_heading_above() -> None:
    assert above(BODY, "# The harbour", BODY, BODY, "# The bridge", BODY) == [
        "",
        "The harbour",
        "The harbour",
        "The bridge",
    ]


@pytest.mark.parametrize(
    ("heading", "printed"),
    [
        ("3.2 Forecasting", "Forecasting"),
        ("4. Why Warnings Fail", "Why Warnings Fail"),
        ("IV. Results:", "Results"),
        ("A. Statutory Defenses.", "Statutory Defenses"),
        ("**Usage**", "Usage"),
        ("Bibliography Bibliography", "Bibliography"),
        ("Appendix I: Scope, and Appendix I: Scope, and Method", "Appendix I: Scope, and Method"),
        ("Results in Brief ........ 4", "Results in Brief"),
        ("7 Days of Rain", "7 Days of Rain"),
        ("Costs\nof the harbour", "Costs of the harbour"),
        ("第一章 港口的历史", "第一章 港口的历史"),
        (LONG, " ".join(LONG.split()[:20]) + "…"),
    ],
)
def test_headings_are_printed_without_numbers_marks_and_doubles(heading: str, printed: str) -> None:
    assert above(f"# {heading}", BODY) == [printed]


@pytest.mark.parametrize(
    "furniture",
    [
        "• sold,",
        "12",
        "and so on;",
        " ".join(LONG + tail for tail in ("x", "y")),
        "***",
        "Section Key Terms",
        "Strategy",
    ],
)
def test_what_is_no_heading_leaves_the_topic_as_it_is(furniture: str) -> None:
    assert above("# The harbour", BODY, f"# {furniture}", BODY) == ["The harbour"] * 2


@pytest.mark.parametrize("line", ["February 28, 2007", "GAO-07-283", "Port Ellery, DC 20548", "http://a.example/b"])
def test_a_line_of_a_cover_is_no_topic_and_ends_one(line: str) -> None:
    assert above("# Contents", BODY, f"# {line}", BODY) == ["Contents", ""]


def test_captions_and_the_labels_of_their_figures_are_no_topics() -> None:
    parts = ["# The harbour", BODY, "# Figure 3: Ships by year", "# Thousands of ships", BODY, "# The bridge", BODY]
    assert above(*parts) == ["The harbour", "The harbour", "The bridge"]


def test_many_headings_in_a_row_are_labels_but_for_a_cover() -> None:
    row = ["# Asia", "# Africa", "# Europe", "# Oceania"]
    assert above(*row, BODY, "# The harbour", BODY, *row, BODY) == ["Oceania", "The harbour", "The harbour"]


def test_headings_that_many_sections_share_say_too_little() -> None:
    parts = [part for name in ("Sand", "Shale", "Coal", "Peat") for part in (f"# {name}", BODY, "# Costs", BODY)]
    assert above(*parts) == [name for name in ("Sand", "Shale", "Coal", "Peat") for _ in range(2)]
    numbered = [part for n in "1234" for part in (f"# {n}. Section {n}", BODY, "# Costs", BODY)]
    assert above(*numbered)[:2] == ["Section 1", "Costs"]
    assert set(above(*(["# Costs", BODY, "# Gains", BODY] * 4))) == {"Costs", "Gains"}


def test_a_running_head_begins_no_topic() -> None:
    parts = ["# Appendix I: Method", BODY, "# Interviews", BODY, "# Appendix I: Method", BODY]
    assert above(*parts) == ["Appendix I: Method", "Interviews", "Interviews"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text("ab1 .:•Fig\n。港-*I", max_size=40), max_size=12))
def test_no_heading_is_too_odd(lines: list[str]) -> None:
    parts = [part for line in lines for part in (f"# {line}x", BODY)] or [BODY]
    document = made(*parts)
    found = candidates(document)
    known = topics(document.text, found)
    assert len(known.above) == len(found)
    assert known.above.max(initial=-1) < len(known.headings)
    assert all(heading and "\n" not in heading for heading in known.headings)
    assert all(heading == heading.strip("*_ ").rstrip(":.¶ ") for heading in known.headings)
    assert title("*1. Method*") == title("1. *Method*") == "Method"


THINGS = ["harbour", "bridge", "tower", "school", "market", "chapel"]
THINGS += ["prison", "quarry", "garden", "brewery", "orchard", "theatre"]
DEEDS = ["built", "painted", "closed", "rented", "burned", "enlarged"]
MARKDOWN = "\n\n".join(
    f"## {n}. The {thing}\n\n"
    + " ".join(
        f"The {thing} of the island was {deed} by the council in {1800 + 7 * n} and after {k + 3} years."
        for k, deed in enumerate(DEEDS)
    )
    for n, thing in enumerate(THINGS, 1)
)


def outline(length: int, source: str = MARKDOWN, **options):
    document = read_bytes("a.md", source.encode())
    with Summarizer(
        flat_options(mode="extractive", style="outline", length=length, cache=False, **options)
    ) as summarizer:
        events = list(summarizer.run(document))
    return events[-1].summary, events


def test_an_outline_has_the_documents_headings_and_sentences_under_them() -> None:
    summary, events = outline(150)
    heads = [line for line in summary.text.split("\n") if not line.startswith("   - ")]
    assert len(heads) > 2
    for number, line in enumerate(heads, 1):
        assert line in {f"{number}. The {thing}" for thing in THINGS}
    name = ""
    for line in summary.text.split("\n"):
        name = line.partition(". The ")[2] or name
        assert f"The {name}" in line or line.endswith(f"The {name}")
    assert "".join(event.delta for event in events if isinstance(event, Text)) == summary.text


def test_what_stands_below_no_heading_has_none_of_its_own_below_it() -> None:
    before = [f"The council of Falcaster bought {n} houses and {n + 1} boats in {1850 + n}." for n in range(3)]
    summary, _ = outline(60, "\n\n".join([*before, MARKDOWN]), focus="houses boats council")
    lines = summary.text.split("\n")
    assert [line.partition(". ")[2] for line in lines if line.partition(". ")[2] in before]
    assert not any(line.removeprefix("   - ") in before for line in lines)


def test_headings_are_no_sentences_and_have_no_citations() -> None:
    summary, events = outline(150)
    assert len(summary.sentences) == summary.text.count("   - ")
    for one in summary.sentences:
        assert summary.text[one.start : one.end] == one.text
        (citation,) = one.citations
        assert one.text.removeprefix("- ") in MARKDOWN[citation.start : citation.end]
    pieces: list[str] = []
    writer = WRITERS["text"](pieces.append, True)
    for event in events:
        writer.add(event)
    for line in "".join(pieces).rstrip("\n").split("\n"):
        assert line.endswith("]") == line.startswith("   - ")


@pytest.mark.parametrize("length", [60, 100, 200, 500])
def test_headings_count_as_words(length: int) -> None:
    summary, _ = outline(length)
    assert abs(count_words(summary.text) - length) <= 0.15 * length
    assert "1. The " in summary.text


def test_short_outlines_and_other_styles_have_no_headings() -> None:
    assert all(line.count(" ") > 5 for line in outline(30)[0].text.split("\n"))
    document = read_bytes("a.md", MARKDOWN.encode())
    for style in ("paragraph", "bullets", "tldr", "abstract"):
        with Summarizer(flat_options(mode="extractive", style=style, length=100, cache=False)) as summarizer:
            summary = summarizer.summarize(document)
        assert all(len(line.split()) > 5 for line in summary.text.split("\n") if line)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from((60, 100, 200, 500)), st.integers(0, 99))
def test_any_number_of_words_is_met_with_headings(words: int, seed: int) -> None:
    order = np.random.default_rng(seed)
    parts = []
    for n in range(40):
        parts.append(f"# {' '.join(order.choice(THINGS, order.integers(1, 25)))}".title())
        parts += [
            f"The {' '.join(order.choice(THINGS, order.integers(6, 40)))} number {n} fell."
            for _ in range(order.integers(1, 5))
        ]
    document = made(*parts)
    found = candidates(document)
    known = topics(document.text, found)
    selector = Selector(document.text, found, features(document.text, found)[1])
    scores = order.normal(0, 1, len(found)).astype(np.float32)
    chosen = selector.select(scores, words, mark=1, topics=known, exact=True)
    used = {int(known.above[one.sentence]) for one in chosen} - {-1}
    total = sum(count_words(one.text) + 1 for one in chosen) + sum(count_words(known.headings[i]) + 1 for i in used)
    assert abs(total - words) <= 0.15 * words
