"""The script that compares commits: it decodes the same twice, and sees what differs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.scripts import gold
from tests.scripts.gold_models import save_models

TOKENS = tuple(range(40)) * 2


def case(draft: gold.Draft) -> gold.Case:
    return gold.Case("granite", "layers", "float32", "80", draft, "sampled", TOKENS)


def test_a_case_is_decoded_the_same_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gold, "make_library", lambda: ())
    monkeypatch.setattr(gold, "NEW_TOKENS", 8)
    assert save_models(tmp_path / "granite", "granite") == save_models(tmp_path / "again", "granite")
    cases = [case(draft) for draft in gold.FAMILIES["granite"] if draft.kind in ("ngram", "lm")]
    first, second = gold.run(cases, tmp_path), gold.run(cases[::-1], tmp_path)
    assert first == second[::-1]
    assert all(is_plain for *_, is_plain in first)
    assert {name: len(record["tokens"]) for (_, record, _) in first for name in record}["tokens"] == 8


def written(file: Path, only: str = "*", **records: dict[str, list[int]]) -> Path:
    versions: dict[str, Any] = {"only": only, "torch": "2"}
    lines = [versions, *({"case": name, **record} for name, record in records.items())]
    file.write_text("\n".join(map(json.dumps, lines)))
    return file


@pytest.mark.parametrize(
    ("now", "only", "said"),
    [
        ({"a": [1, 2], "b": [3]}, "*", "2 cases, 0 differ\n"),
        ({"a": [1, 4, 5], "b": [3]}, "*", "a: tokens[1] 2 before, 4 now\n2 cases, 1 differ\n"),
        ({"a": [1, 2, 2], "b": [3]}, "*", "a: tokens[2] None before, 2 now\n2 cases, 1 differ\n"),
        ({"a": [1, 2]}, "*", "b: missing\n2 cases, 1 differ\n"),
        ({"a": [1, 2]}, "a", "1 cases, 0 differ\n"),
    ],
)
def test_what_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], now: dict[str, list[int]], only: str, said: str
) -> None:
    old = written(tmp_path / "old", a={"tokens": [1, 2]}, b={"tokens": [3]})
    new = written(tmp_path / "new", only, **{name: {"tokens": tokens} for name, tokens in now.items()})
    assert gold.compare(old, new) == ("1 differ" in said)
    assert capsys.readouterr().out == said
