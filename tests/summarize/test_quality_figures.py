"""The arithmetic of tests/scripts/summary_quality.py."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from tests.scripts.summary_quality import Row, apart, chosen, differences, lead, report, rows, table

SOURCE = (
    "Spain joined NATO in 1982. It joined the European Union in 1986. Elections were held in Madrid. "
    "Nothing else was said. The Socialists won again in 2008, with Zapatero."
)
RECORD = {"length": "1K", "text": SOURCE, "summary": "Spain joined NATO in 1982."}


def row(method: str, text: str, document: str = "a", seconds: float = 1.0) -> Row:
    return Row(document, method, "tiny", text, seconds, {})


@pytest.mark.parametrize(("words", "sentences"), [(1, 1), (5, 1), (12, 2), (16, 2), (500, 5)])
def test_the_beginning_in_whole_sentences(words: int, sentences: int) -> None:
    taken = lead(SOURCE, words)
    assert SOURCE.startswith(taken)
    assert taken.count(".") == sentences


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("So Spain joined NATO in 1982.", 0.0),
        ("So Spain joined NATO in 2008.", 1.0),
        ("In 1982 Spain joined. In 2008 Spain left.", 0.5),
        ("Spain is old. It joined in 1986.", None),
        ("", None),
    ],
)
def test_facts_that_no_place_has_together(text: str, share: float | None) -> None:
    assert apart(text, SOURCE) == share


def test_the_first_documents_are_left_for_tuning() -> None:
    documents = {f"{length}-{n}": {"length": length} for length in ("1K", "2K") for n in range(4)}
    assert chosen(documents, ["2K", "1K"], 1, 2) == ["2K-1", "2K-2", "1K-1", "1K-2"]


def test_a_torn_row_is_written_again(tmp_path) -> None:
    path = tmp_path / "rows.jsonl"
    assert rows(path) == []
    whole = row("naive", "Text\N{LINE SEPARATOR}of it.")
    path.write_text(json.dumps(asdict(whole)) + "\n" + '{"document": "b", "met')
    assert rows(path) == [whole]


def test_quality_tables_have_means_and_differences() -> None:
    known = [
        row("specextend", "Spain joined NATO in 1982.", seconds=3.0),
        row("naive", "Spain joined NATO in 2011. Spain joined NATO in 2011."),
        row("specextend", "Spain joined NATO in 1982.", "b", seconds=5.0),
    ]
    lines = list(report(known, {"a": RECORD, "b": RECORD}, ["specextend", "lead", "naive"], "tiny"))
    heads, ours, beginning, naive = (lines[at].strip("| ").split(" | ") for at in (0, 2, 3, 4))
    assert heads[:3] == ["method", "documents", "ROUGE-1"]
    assert ours[:3] == ["specextend", "2", "1.000 (1.000 to 1.000)"]
    assert (ours[-2], ours[-1]) == ("5", "4")
    assert beginning[:3] == ["lead", *ours[1:3]]
    assert (naive[0], naive[1], naive[heads.index("not in source")]) == ("naive", "1", "20.000")
    assert naive[heads.index("repeated 4-grams")] == "0.286"
    assert any(line.startswith("| naive |") and " -20.000 " in line for line in lines[6:])


def test_only_what_is_there_is_compared() -> None:
    ours, theirs = {"rouge": 0.5, "words": 5.0}, {"rouge": 0.25, "words": 9.0}
    measured = {"ours": {"a": ours, "b": ours}, "theirs": {"b": theirs, "c": theirs}, "none": {"c": theirs}}
    assert list(differences(measured, "ours"))[2:] == ["| theirs | 0.250 |"]
    assert list(table({"ours": [{"rouge": None, "words": 3.0}]}))[2] == "| ours | 1 |  | 3 |"
