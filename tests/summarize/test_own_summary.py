"""A document's own summary: found by its heading, its label or its place, and quoted before all else."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from specextend_cli.documents.read import read_bytes
from specextend_cli.summarize.events import OwnPart, Summary
from specextend_cli.summarize.ranking.candidates import candidates
from specextend_cli.summarize.ranking.own_summary import own_summary
from specextend_cli.summarize.ranking.score import score
from specextend_cli.summarize.ranking.select import Selector
from specextend_cli.summarize.words import count_words
from specextend_cli.ui.progress import format_done, format_own
from specextend_cli.ui.results import summary_record
from tests.summarize.examples import COUNCIL
from tests.summarize.scribe import quote
from tests.summarize.test_wording import ROWS

SUMMARY = COUNCIL[60:63]
TOLD = " ".join(SUMMARY)
CHAPTERS = [" ".join(COUNCIL[at : at + 12]) for at in (0, 12, 24, 36)]
BODY = "\n\n".join(f"## The prices of part {number}\n\n{chapter}" for number, chapter in enumerate(CHAPTERS))
# Its words come again in the chapters; those of the introduction do not.
OPENING = " ".join(
    f"{one.split(' was ')[0]} was closed by the council in {1800 + n}." for n, one in enumerate(COUNCIL[:7])
)
_DOES = "remembers forgives visits believes envies follows praises answers"
INTRODUCTION = " ".join(f"Nobody {does} the captain's remarkable cousin Theodora." for does in _DOES.split())


def own(source: str, language: str = "en", name: str = "a.md") -> tuple[str, str] | None:
    """What the document's own summary is called, and its sentences."""
    document = read_bytes(name, source.encode())
    found = candidates(document)
    bags = score(document.text, document.title, found)[1]
    usable = Selector(document.text, found, bags).usable
    sizes = np.array([count_words(document.text[one.start : one.end]) for one in found]) * usable
    if (given := own_summary(document.text, found, bags, sizes, language)) is None:
        return None
    chosen = [document.text[one.start : one.end] for one, ok in zip(found, given.sentences, strict=True) if ok]
    return given.name, " ".join(chosen)


@pytest.mark.parametrize(("language", "heading"), [(row[0], row[2]) for row in ROWS if row[1] == "own_summary"])
def test_every_language_has_its_headings(language: str, heading: str) -> None:
    name, sentences = own(f"{BODY}\n\n## {heading}\n\n{TOLD}\n\n## Prices\n\n{CHAPTERS[0]}", language) or ("", "")
    assert sentences == TOLD
    assert heading.lower().endswith(name) or name == "summary"


@pytest.mark.parametrize(
    ("source", "called", "own_words"),
    [
        ("## 1. Executive Summary\n\n{0}\n\n{2}", "executive summary", "{0}"),
        ("## II. Abstract\n\n{0}\n\n{2}", "abstract", "{0}"),
        ("## 2.1 EXECUTIVE SUMMARY:\n\n{0}\n\n{2}", "executive summary", "{0}"),
        ("## What the Council Found\n\n{2}\n\n## What GAO Found\n\n{0}", "summary", "{0}"),
        ("<h2>Overview</h2><p>{0}</p><h2>Prices</h2><p>{3}</p>", "overview", "{0}"),
        ("Summary\n=====\n\n{0}\n\nPrices\n=====\n\n{3}", "summary", "{0}"),
        ("Summary\n=====\n\nAdvice\n=====\n\n{0}\n\nPrices\n=====\n\n{3}", "summary", "{0}"),
        ("Summary\n-------\n\n{0}\n\n# Prices\n\n{3}", "summary", "{0}"),
        ("TL;DR: {0}\n\n{2}", "tl;dr", "TL;DR: {0}"),
        ("Abstract. {0}\n\n{2}", "abstract", "{0}"),
        ("Intro\n\n**Abstract** — {0}\n\n{2}", "abstract", "**Abstract** — {0}"),
        ("**Abstract:** {0}\n\n{2}", "abstract", "**Abstract:** {0}"),
        # What stands below lower headings belongs to it, and so do the summaries of all chapters.
        ("## Summary\n\n{0}\n\n### Findings\n\n{1}\n\n{2}", "summary", "{0} {1}"),
        ("## Summary\n\n### Findings\n\n{0}\n\n### Advice\n\n{1}\n\n{2}", "summary", "{0} {1}"),
        ("# One\n\n## Summary\n\n{0}\n\n{2}\n\n# Two\n\n## Summary\n\n{1}\n\n{2}", "summary", "{0} {1}"),
        ("## Abstract\n\n{0}\n\n## Summary\n\n{1}\n\n{2}", "abstract", "{0}"),
    ],
)
def test_headings_and_labels_have_many_forms(source: str, called: str, own_words: str) -> None:
    parts = (TOLD, " ".join(COUNCIL[64:67]), BODY, " ".join(CHAPTERS))
    name = "a.html" if "<h2>" in source else "a.rst" if "=====" in source else "a.md"
    assert own(source.format(*parts), name=name) == (called, own_words.format(*parts))


@pytest.mark.parametrize(
    "source",
    [
        f"Contents\n\n- Executive Summary ..... 3\n- Prices ..... 5\n\n{BODY}",
        f"## Contents\n\n## Executive Summary\n\n## Prices\n\n| a | b |\n\n{BODY}",
        f"{BODY}\n\n## Summary\n\nAll rights reserved, © 2019 by the council. Write to harbour@example.org for copies.",
        f"## Summary\n\n{SUMMARY[0]}\n\n{BODY}",  # too little
        f"## Summary\n\n{' '.join(CHAPTERS)}\n\n## Prices\n\n{TOLD}",  # more than half
        f"## Summary of Material Facts\n\n{TOLD}\n\n{BODY}",
        f"Summary words are words. {TOLD}\n\n{BODY}",
        "| Summary |",  # nothing can be quoted
    ],
)
def test_what_only_seems_to_be_one_is_none(source: str) -> None:
    assert own(source) is None


@pytest.mark.parametrize(
    ("source", "is_one"),
    [
        (f"{OPENING}\n\n{BODY}", True),
        (f"# The council\n\n{OPENING}\n\n{BODY}", True),
        (f"{INTRODUCTION}\n\n{BODY}", False),
        (f"{OPENING} {INTRODUCTION}\n\n{BODY}", False),
        (f"{SUMMARY[0]}\n\n{BODY}", False),  # too short
        (f"{OPENING} {CHAPTERS[1]}\n\n{BODY}", False),  # a quarter of the document
        (f"{OPENING}\n\n## Prices\n\n{CHAPTERS[0]}\n\n## Costs\n\n{' '.join(CHAPTERS[1:])}", False),  # three sections
    ],
)
def test_an_opening_is_one_where_its_words_come_again(source: str, is_one: bool) -> None:
    given = own(source)
    assert (given is not None) == is_one
    assert given is None or given == ("opening", OPENING)


LAST = f"{BODY}\n\n## Executive Summary\n\n{TOLD}\n\n## Costs\n\n{CHAPTERS[0]}"


def summarize(source: str, **asked: Any) -> Summary:
    return quote(read_bytes("a.md", source.encode()), **asked)[0]


def test_it_comes_first_and_other_places_follow() -> None:
    short, whole, long = (summarize(LAST, length=length) for length in (32, 48, 96))
    assert {one.text for one in short.sentences} < set(SUMMARY)
    assert [one.text for one in whole.sentences] == list(SUMMARY)
    assert set(SUMMARY) < {one.text for one in long.sentences}
    starts = [one.citations[0].start for one in long.sentences]
    assert starts == sorted(starts)
    assert [one.own and one.own.others for one in (short, whole, long)] == [0, 0, 3]


def test_where_it_is_from_is_said() -> None:
    summary = summarize(f"## Summary\n\n{SUMMARY[0]}\n\n### Advice\n\n{SUMMARY[1]} {SUMMARY[2]}\n\n{BODY}", length=64)
    assert summary.own == OwnPart("summary", (1, 2), 1)
    assert json.loads(json.dumps(summary_record(summary)))["own_summary"]["name"] == "summary"
    assert "from its summary, sections 1-2, and 1 other place" in format_done(summary)
    assert summary_record(summarize(BODY))["own_summary"] is None


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (OwnPart("executive summary", (3, 4), 3), "executive summary, pages 3-4, and 3 other places"),
        (OwnPart("abstract", (1, 1), 1), "abstract, page 1, and 1 other place"),
        (OwnPart("abs\x1b[1mtract", (1, 1), 0), "abstract, page 1"),
    ],
)
def test_the_words_of_it(own: OwnPart, said: str) -> None:
    assert format_own(own, "page") == f"from its {said}"


@pytest.mark.parametrize(("focus", "expected"), [("theatre painted", (COUNCIL[23],)), ("enlarged", SUMMARY[:1])])
def test_a_focus_overrides_it(focus: str, expected: tuple[str, ...]) -> None:
    summary = summarize(LAST, length=16 * len(expected), focus=focus)
    assert (tuple(one.text for one in summary.sentences), summary.own) == (expected, None)
