"""`train-ranker` says what it lacks before it reads anything."""

from __future__ import annotations

import sys

import pytest

from specextend_cli.cli import train_ranker


@pytest.fixture
def pairs(tmp_path):
    """A file of pairs, which is not looked at."""
    path = tmp_path / "pairs.jsonl"
    path.write_text("")
    return path


def test_a_file_that_is_not_there_is_2(cli, tmp_path):
    done = cli("train-ranker", "--pairs", tmp_path / "absent.jsonl")
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize(
    ("absent", "why"),
    [(["lightgbm"], "lightgbm is"), (["lightgbm", "rouge_score"], "lightgbm and rouge-score are")],
)
def test_libraries_that_are_missing_are_named_with_their_extra(cli, pairs, monkeypatch, absent, why):
    monkeypatch.setattr(train_ranker, "find_spec", lambda name: None if name in absent else sys)
    done = cli("train-ranker", "--pairs", pairs)
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == (
        f"error: the sentence ranker cannot be fitted\nwhy:   {why} not installed\n"
        "try:   pip install 'specextend-cli[train]'\n"
    )
