"""Annotations in a summary: written with their sentence, never into what was written before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specextend_cli.engine.meter import Meter
from specextend_cli.summarize.events import Citation, Coverage, Plan, Sentence, Summarized, Summary, Text
from specextend_cli.summarize.facts import Unsupported
from specextend_cli.ui.results import TextWriter, format_citations, format_unsupported

PLAN = Plan("a", 9, 100, (100,), 1)
SAID = "Port Ellery cost 1,001 euro."
CITATIONS = (Citation(7, 0, 9, 0.9), Citation(3, 20, 29, 0.5))
MISSING = (Unsupported("Port Ellery", "name", 0, 11), Unsupported("1,001", "number", 17, 22))
ONE = Sentence("", SAID, CITATIONS, MISSING)
TWO = Sentence("\n\n", "It \x1b[2Jed.")
SUMMARY = Summarized(Summary("a", ONE.text, PLAN, Coverage(9, (), (), 100), (), Meter(), 1.0, "p", "none", (ONE, TWO)))


def written(cite: bool, unit: str) -> list[str]:
    pieces: list[str] = []
    writer = TextWriter(pieces.append, cite)
    plan = Plan("a", 9, 100, (100,), 1, unit)
    for event in (plan, Text("not a result"), ONE, TWO, SUMMARY):
        writer.add(event)
    return pieces


@pytest.mark.parametrize(
    ("cite", "unit", "expected"),
    [
        (False, "page", "Port Ellery cost 1,001 euro.\n\nIt ed.\n"),
        (True, "page", "Port Ellery [?] cost 1,001 [?] euro. [p. 3, 7]\n\nIt ed. [no source found]\n"),
        (True, "section", "Port Ellery [?] cost 1,001 [?] euro. [s. 3, 7]\n\nIt ed. [no source found]\n"),
    ],
)
def test_marks_stand_behind_what_they_mark(cite: bool, unit: str, expected: str) -> None:
    pieces = written(cite, unit)
    assert "".join(pieces) == expected
    assert len(pieces) == 3  # each sentence as soon as it is known


def test_citations_say_which_pages_were_ocr() -> None:
    citations = (*CITATIONS, Citation(9, 40, 49, 0.5, ocr=True))
    assert format_citations(replace(ONE, citations=citations), "page") == "[p. 3, 7; p. 9 by OCR]"
    assert format_citations(replace(ONE, citations=citations[2:]), "page") == "[p. 9 by OCR]"
    assert format_citations(TWO, "page") == "[no source found]"


def test_what_is_not_in_the_source_is_one_line() -> None:
    assert format_unsupported(()) == ""
    assert format_unsupported(ONE.unsupported * 2) == "not in the source: Port Ellery, 1,001"
    many = [Unsupported(str(n), "number", n, n + 1) for n in range(11)]
    assert format_unsupported(many).endswith("6, 7 and 3 more")


def test_a_page_goes_by_its_label() -> None:
    labelled = (Citation(15, 0, 9, 0.9), Citation(6, 20, 29, 0.5, "iv"))
    assert format_citations(replace(ONE, citations=labelled), "page") == "[p. iv (6), 15]"
