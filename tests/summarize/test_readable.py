"""Which sentences can be read outside of their document, and what is printed of them; see `test_wording.py`, too."""

from __future__ import annotations

import pytest

from specextend_cli.documents.read import read_bytes
from specextend_cli.summarize.ranking.candidates import candidates
from specextend_cli.summarize.ranking.readable import beside_the_text, is_whole, printed
from tests.summarize.examples import COUNCIL
from tests.summarize.scribe import document


@pytest.mark.parametrize(
    ("sentence", "line"),
    [
        ("- The harbour\n  was closed.", "The harbour was closed."),
        ("12. The harbour was closed.", "The harbour was closed."),
        ("(a) The harbour was closed.", "The harbour was closed."),
        ("2.1 The keeper shall light the lamp.", "The keeper shall light the lamp."),
        ("2.1.3. “Lamp” means the lamp of the harbour.", "“Lamp” means the lamp of the harbour."),
        ("2.1 million lamps were lit at dusk.", "2.1 million lamps were lit at dusk."),
        ("1.5 metres of water stood there.", "1.5 metres of water stood there."),
        ("M. Bertin promised a lamp.", "M. Bertin promised a lamp."),
    ],
)
def test_marks_of_lists_and_clauses_are_left_out(sentence: str, line: str) -> None:
    assert printed(sentence, "en") == line


def test_an_initial_is_a_mark_in_a_list_only() -> None:
    assert [printed("B. Bertin Harbour is closed.", "en", listed=listed) for listed in (False, True)] == [
        "B. Bertin Harbour is closed.",
        "Bertin Harbour is closed.",
    ]


@pytest.mark.parametrize(
    ("words", "language", "whole"),
    [(0, "en", False), (5, "en", False), (6, "en", True), (60, "en", True), (61, "en", False), (5, "de", True)],
)
def test_a_sentence_has_six_to_sixty_words(words: int, language: str, whole: bool) -> None:
    assert is_whole(" ".join(["Harbours", *["endlessly"] * (words - 1)][:words]) + ".", language) == whole


@pytest.mark.parametrize(
    ("source", "language", "out"),
    [
        ("# Prices\n\n{0}\n\n# References\n\n{1}", "en", True),
        ("# Prices\n\n{0}\n\n# 7. REFERENCES:\n\n{1}\n\n## Prices\n\n{0}", "en", True),
        ("# Prices\n\n{1}\n\n# References\n\n{0}", "en", False),  # so much is no list of references
        ("# Prices\n\n{0}\n\n# References to prices\n\n{1}", "en", False),
        ("{0}\n\nRéférences bibliographiques\n\n{1}", "fr", True),  # headings without a mark are known by their words
        ("{0}\n\nRéférences bibliographiques du conseil\n\n{1}", "fr", False),
        ("{0}\n\nReferences\n\n{1}", "en", False),
    ],
)
def test_what_stands_below_references_is_beside_the_text(source: str, language: str, out: bool) -> None:
    book = "Harbours and their keepers are told of in the book of Hill."
    text = source.format(" ".join(COUNCIL[:9]), book)
    read = read_bytes("a.md", text.encode()) if text.startswith("#") else document(text)
    found = candidates(read)
    lines = [printed(read.text[one.start : one.end], language) for one in found]
    beside = beside_the_text(lines, found, language)
    assert beside[lines.index(book)] == out
    assert not beside[lines.index(COUNCIL[0])]
