"""`train-ranker`: what it lacks is said before anything is read; a tiny ranker from pairs to a guided summary."""

from __future__ import annotations

import json
import sys

import pytest

from specextend_cli.cli import train_ranker
from specextend_cli.summarize.ranking.features import columns
from specextend_cli.summarize.ranking.ranker import StateWeights, Trees
from tests.summarize.tiny_preset import text


@pytest.fixture
def pairs(tmp_path):
    """A file of pairs, which is not looked at."""
    path = tmp_path / "pairs.jsonl"
    path.write_text("")
    return path


def test_a_file_that_is_not_there_is_2(cli, tmp_path):
    done = cli("train-ranker", "--pairs", tmp_path / "absent.jsonl")
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize("weights", [("--weight", 1, "--weight", 2), ("--weight", 0), ("--weight", -1)])
def test_weights_that_fit_no_files_are_2(cli, pairs, weights):
    done = cli("train-ranker", "--pairs", pairs, *weights)
    assert (done.returncode, done.stdout) == (2, "")
    assert "one --weight for each --pairs" in done.stderr


@pytest.mark.parametrize(
    ("absent", "why"), [(["lightgbm"], "lightgbm is"), (["lightgbm", "rouge_score"], "lightgbm and rouge-score are")]
)
def test_libraries_that_are_missing_are_named_with_their_extra(cli, pairs, monkeypatch, absent, why):
    monkeypatch.setattr(train_ranker, "find_spec", lambda name: None if name in absent else sys)
    done = cli("train-ranker", "--pairs", pairs)
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == (
        f"error: the sentence ranker cannot be fitted\nwhy:   {why} not installed\n"
        "try:   pip install 'specextend-cli[train]'\n"
    )


def test_too_few_documents_are_3(cli, tmp_path):
    pytest.importorskip("lightgbm")
    path = tmp_path / "pairs.jsonl"
    path.write_text(json.dumps({"text": text(30), "summary": text(3)}) + "\n")
    for count, pairs in ((0, ""), (1, path.read_text())):
        path.write_text(pairs)
        done = cli("train-ranker", "--pairs", path, "--layer", 0, "-o", tmp_path / "ranker")
        assert (done.returncode, done.stdout) == (3, "")
        assert f"{count} documents are too few for five folds" in done.stderr
        assert not (tmp_path / "ranker").exists()


def test_a_ranker_that_is_there_is_not_overwritten(cli, pairs, tmp_path):
    pytest.importorskip("lightgbm")
    (tmp_path / "trees.npz").write_text("mine")
    done = cli("train-ranker", "--pairs", pairs, "--layer", 0, "-o", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "trees.npz exists already" in done.stderr
    assert (tmp_path / "trees.npz").read_text() == "mine"
    assert cli("train-ranker", "--pairs", pairs, "-o", pairs).returncode == 2


def test_a_ranker_is_fitted_that_a_preset_can_use(cli, presets, tmp_path):
    pytest.importorskip("lightgbm")
    pytest.importorskip("rouge_score")
    pytest.importorskip("sumy")
    path, test, output = tmp_path / "pairs.jsonl", tmp_path / "test.jsonl", tmp_path / "ranker"
    for file, sources in ((path, ("books", "talks")), (test, ("papers",))):
        pairs = (
            {
                "source": sources[at % len(sources)],
                "text": text(60, start=at * 60),
                "summary": text(3, start=at * 60 + 5),
            }
            for at in range(10)
        )
        file.write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    asked = ("--test", test, "--weight", 2, "-m", presets["one"], "--layer", 2, "--states-from", 3, "-o", output)
    done = cli("train-ranker", "--pairs", path, *asked)
    assert done.returncode == 0, done.stderr
    methods = ["lead", "lexrank", "extractive", "guided", "sumy lexrank", "sumy textrank", "oracle"]
    assert [line.partition("\t")[0] for line in done.stdout.splitlines()] == [
        *("source", "books", "talks", "method", *methods),
        *("source", "papers", "method", *methods),
    ]
    assert [line.partition(": ")[2] for line in done.stderr.splitlines()][:2] == [
        *("10 documents of 2 sources", "10 documents"),
    ]
    assert Trees.load(output / "trees.npz").features <= len(columns())
    weights = StateWeights.load(output / "states.npz")
    assert (weights.weights.shape, weights.layer) == ((64,), 2)

    guided = tmp_path / "guided.toml"
    preset = presets["one"].read_text().replace('path = "', f'path = "{presets["one"].parent}/')
    guided.write_text(f'mode = "guided"\n{preset}\n[ranker]\npath = "ranker"\nchunk = 128\n')
    source = tmp_path / "harbour.txt"
    source.write_text(text(60))
    done = cli("summarize", source, "-m", guided, "--length", 30, "--json")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert (record["mode"], record["statistics"]["tokens"]) == ("guided", 0)
    assert record["coverage"]["complete"]
    assert all(one["text"] in " ".join(source.read_text().split()) for one in record["sentences"])
    assert " words quoted in " in done.stderr
    done = cli("summarize", source, "-m", guided, "--length", 30, "--json", "--seed", 3, "--draft", "ngram")
    assert "warning: --seed, --draft: no effect, because guided mode generates no text" in done.stderr
    again = json.loads(done.stdout)
    assert again["text"] == record["text"]
    assert again["reused"] == len(again["plan"]["chunks"]) > 1
    (output / "trees.npz").write_bytes(b"")  # the ranker's own trees are used
    assert cli("summarize", source, "-m", guided).returncode == 4
