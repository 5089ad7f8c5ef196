"""How sentences and headings are worded, on labelled lines, for which each line of `wording.toml` is needed.

What is printed of them, and how long they are.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import regex

from specextend_cli.documents.read import read_bytes
from specextend_cli.summarize.ranking import wording as module
from specextend_cli.summarize.ranking.candidates import candidates
from specextend_cli.summarize.ranking.readable import asks, beside_the_text, is_whole, printed
from specextend_cli.summarize.ranking.wording import wording
from specextend_cli.summarize.words import table
from tests.summarize.examples import COUNCIL
from tests.summarize.scribe import document

ROWS = [
    tuple(row.split("\t")) for row in Path(__file__).with_name("wording.tsv").read_text(encoding="utf-8").splitlines()
]
"""Language, label, line, and what is printed of it. A summary may have lines labelled "-" as they stand."""
LANGUAGES = list(dict.fromkeys(row[0] for row in ROWS))
LINES = [
    (language, name, line)
    for language, rules in table("ranking/wording").items()
    for name, value in rules.items()
    for line in value.strip().split("\n")
]


def labels(line: str, language: str) -> set[str]:
    """What a line is, of the labels that the table has for sentences."""
    own, shown = wording(language), printed(line, language)
    if own.idle.search(shown):
        return {"idle"}
    found = {name for name in ("advises", "concludes", "method") if getattr(own, name).search(shown)}
    found |= {"leans"} if own.leans.match(shown) else set()
    found |= {"refers"} if not found and own.refers.search(shown) else set()
    found |= set() if is_whole(shown, language) or found else {"broken"}
    return found or {"-"}


def is_labelled(language: str, label: str, line: str, *shown: str) -> bool:
    own = wording(language)
    if label == "printed":
        return printed(line, language) == shown[0]
    if label in ("own_summary", "beside", "heading"):
        summary = regex.fullmatch(own.own_summary, line, regex.IGNORECASE) is not None
        return (summary, own.beside.fullmatch(line) is not None) == (label == "own_summary", label == "beside")
    whole = is_whole(printed(line, language), language)
    return labels(line, language) == {label} and not (whole and label == "idle")


@pytest.mark.parametrize("language", LANGUAGES)
def test_lines_are_what_they_are_labelled(language: str) -> None:
    assert [(row, labels(row[2], language)) for row in ROWS if row[0] == language and not is_labelled(*row)] == []


@pytest.mark.parametrize(("language", "name", "line"), LINES)
def test_each_rule_is_needed(monkeypatch: pytest.MonkeyPatch, language: str, name: str, line: str) -> None:
    rules = table("ranking/wording")
    left = "\n".join(other for other in rules[language][name].strip().split("\n") if other != line) or "(?!)"
    monkeypatch.setattr(module, "table", lambda _: {**rules, language: {**rules[language], name: left}})
    wording.cache_clear()
    try:
        assert not all(is_labelled(*row) for row in ROWS if row[0] == language)
    finally:
        wording.cache_clear()


@pytest.mark.parametrize("line", ["Τι έδειξε ο έλεγχος του Συνεδρίου;", "Who was it?", "“Who was it?”", "هل تكفي؟"])
def test_questions_ask(line: str) -> None:
    assert asks(line)
    assert not asks(f"{line} So.")


def test_marks_of_lists_are_left_out_of_them_and_not_of_other_lines() -> None:
    assert printed("- The harbour\n  was closed.", "en") == "The harbour was closed."
    assert printed("B. Harbours are closed.", "en") == "Harbours are closed."
    assert printed("B. Bertin Harbour is closed.", "en", listed=False) == "B. Bertin Harbour is closed."


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
        ("{0}\n\nRéférences bibliographiques\n\n{1}", "fr", True),  # without a mark, known by its words
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
    assert (beside[lines.index(book)], beside[lines.index(COUNCIL[0])]) == (out, False)
