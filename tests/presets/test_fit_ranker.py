"""Fitting the sentence ranker to made pairs: the weights find what the summaries share."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from specextend_cli.errors import InputError
from specextend_cli.summarize.ranking.score import WEIGHTS
from tests.summarize.tiny_preset import text


@pytest.fixture
def pairs(tmp_path):
    """Twelve documents of two sources, whose summaries are their sixth to eighth sentences."""
    made = (
        {"source": ("books", "talks")[n % 2], "text": text(60, start=60 * n), "summary": text(3, start=60 * n + 5)}
        for n in range(12)
    )
    (path := tmp_path / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in made))
    return path


def test_weights_are_fitted_printed_and_measured(program, monkeypatch, pairs, capsys):
    monkeypatch.setattr(sys, "argv", ["fit", str(pairs)])
    program("sentence-ranker/fit").main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0].strip(' "') for line in lines[:-3]] == ["fitted to 12 documents", *WEIGHTS]
    assert [line.partition(",")[0] for line in lines[-3:]] == ["books", "talks", "ours over the beginning"]


def test_weights_come_from_what_is_not_left_out(program, pairs):
    fit = program("sentence-ranker/fit")
    examples = [fit.example_of(pair) for pair in fit.read_pairs(pairs, 3)]
    weights, one = fit.Fit(examples), examples[0]
    assert np.corrcoef(one.values @ weights.weights(), one.labels)[0, 1] > 0
    books = fit.Fit([one for one in examples if one.pair.source == "books"])
    assert np.allclose(weights.weights({"talks"}), books.weights())


def test_files_without_pairs_are_errors(program, tmp_path):
    (tmp_path / "pairs.jsonl").write_text('{"text": "only"}')
    with pytest.raises(InputError, match="holds no pairs"):
        program("sentence-ranker/fit").read_pairs(tmp_path / "pairs.jsonl", 5)
