"""tests/scripts/quality.py: equal words, differences by hand, and the program on a toy set."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.scripts import quality
from tests.summarize.tiny_preset import text

REFERENCE = "A bridge joined the island to the coast after the war. The customs house burned down in 1898."


def toy(path: Path) -> Path:
    lines = [{"id": f"toy-{n}", "text": text(24, n), "summary": REFERENCE, "source": "ab"[n % 2]} for n in range(4)]
    path.write_text("\n".join(map(json.dumps, [*lines, {"id": "none", "text": "Without a reference."}])))
    return path


@pytest.mark.parametrize("method", [quality.lexrank, quality.lead])
def test_a_baseline_quotes_in_document_order_and_lexrank_has_exactly_as_many_words(tmp_path: Path, method) -> None:
    (item, *_) = quality.load([toy(tmp_path / "toy.jsonl")], None, "document")
    assert item.words == len(item.document.text.split()) // 3
    summary = method(item)
    places = [item.document.text.index(" ".join(line.split()[:5])) for line in summary.split("\n")]
    assert places == sorted(places)
    assert len(summary.split()) == (item.words if method is quality.lexrank else len(item.document.text.split()))


def test_intervals_of_differences_over_sources() -> None:
    ours = [float(n) for n in range(9)]
    same = quality.difference(ours, ours, ["talks"] * 9)
    assert (same.value, same.low, same.high) == (0, 0, 0)
    less = quality.difference([one - 1 - n / 9 for n, one in enumerate(ours)], ours, ["talks"] * 9)
    assert less.low <= less.value <= less.high < 0
    # A source with few documents weighs as much as one with many: over documents it were 0.6.
    found = quality.difference([1.0] * 8 + [-1.0] * 2, [0.0] * 10, ["papers"] * 8 + ["talks"] * 2)
    assert (found.value, found.low, found.high) == (0, 0, 0)


def test_the_program_compares_ours_with_baselines_by_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["quality", str(toy(tmp_path / "toy.jsonl")), "--docs", "1"])
    quality.main()
    out, err = capsys.readouterr()
    assert [line.partition(":")[0] for line in err.splitlines()] == ["[1/2] toy-0", "[2/2] toy-1"]
    rows = ("| a | 1 | extractive |", "| b | 1 | lexrank |", "| all | 2 | lead |", "| extractive | lead |")
    assert all(row in out for row in rows)
    words = [line.split("|")[4] for line in out.splitlines() if line.startswith("| a |")]
    assert words == words[:1] * 3
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--json", "--methods", "lead"])
    quality.main()
    found = json.loads(capsys.readouterr().out)
    assert (found["documents"], [of["words"] for of in found["scores"]["lead"]]) == (["toy-0", "toy-1"], [30, 30])
