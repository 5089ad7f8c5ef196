"""Fitting the sentence ranker to made pairs: its files are what the ranker loads."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from specextend_cli.summarize.ranking.features import columns
from specextend_cli.summarize.ranking.ranker import Trees

from tests.summarize.tiny_preset import text


def run(module, monkeypatch, *arguments) -> None:
    monkeypatch.setattr(sys, "argv", ["program", *map(str, arguments)])
    module.main()


@pytest.fixture
def pairs(tmp_path):
    """Ten documents of two sources."""
    path = tmp_path / "pairs.jsonl"
    made = (
        {"source": ("books", "talks")[n % 2], "text": text(60, start=60 * n), "summary": text(3, start=60 * n + 5)}
        for n in range(10)
    )
    path.write_text("".join(json.dumps(pair) + "\n" for pair in made))
    return path


def test_trees_are_fitted_and_measured(program, monkeypatch, pairs, tmp_path, capsys):
    pytest.importorskip("lightgbm")
    fit = program("sentence-ranker/fit")
    monkeypatch.setattr(fit, "DIVISIONS", 1)
    monkeypatch.setattr(fit, "ROUNDS", 20)
    run(fit, monkeypatch, pairs, "-o", tmp_path / "ranker")
    trees = Trees.load(tmp_path / "ranker" / "trees.npz")
    assert 0 < trees.features <= len(columns())
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(",")[0] for line in lines[1:]] == ["books", "talks", "trees over lexrank", "trees over lead"]
    example = fit.example_of(fit.read_pairs(pairs, 1)[0])
    # The trees find what the summary shares: those sentences score above the others.
    assert np.corrcoef(trees.predict(example.values), example.labels)[0, 1] > 0
