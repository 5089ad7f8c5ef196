"""`show`: the last run of this directory, any other, the passages behind its sentences; and forgetting."""

from __future__ import annotations

import json

import pytest

from tests.summarize.scribe import Scribe, document, run, summarizer
from tests.summarize.tiny_preset import text

EVIL = "The harbour\x1b[2J was founded [red]by fishermen[/red]. It cost 4,711 crowns. Perhaps it never rained."


@pytest.fixture
def made(presets, tmp_path, monkeypatch):
    """One run in this directory, whose document and summary mean harm."""
    monkeypatch.chdir(tmp_path)
    source = document("The harbour\x1b[2J was founded [red]by fishermen[/red] once. " + text(6), "a\x1b[2J.txt")
    return run(summarizer(presets["one"], Scribe(lambda prompt, most: EVIL), cache=True), source)[0]


def test_nothing_is_listed_before_the_first_run(cli):
    done = cli("show", "--list")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "no run is recorded yet\n")
    assert json.loads(cli("show", "--list", "--json").stdout) == []


def test_the_last_run_of_this_directory_is_shown(cli, made, tmp_path, monkeypatch):
    """It says of which file and when, whatever other processes have summarized meanwhile."""
    here = cli("show").stdout
    assert here.startswith(f"run {made.run} · a.txt · 1 page · summary of 14 words · one · ")
    assert "1  The harbour was founded [red]by fishermen[/red]. [p. 1]\n" in here
    assert "2  It cost 4,711 [?] crowns." in here
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert cli("show").returncode == 3
    (tmp_path / "elsewhere" / "b.txt").write_text(text(20))
    assert cli("summarize", "b.txt", "--mode", "extractive", "-q").returncode == 0
    assert " · b.txt · " in cli("show").stdout
    assert cli("show", made.run).stdout == here
    monkeypatch.chdir(tmp_path)
    assert cli("show").stdout == here
    for done in (cli("show"), cli("show", "-s", 1), cli("show", "--list"), cli("show", "--json")):
        assert "\x1b" not in done.stdout


def test_runs_are_listed_and_forgotten(cli, made, tmp_path):
    for name in ("b.txt", "c.txt"):
        (tmp_path / name).write_text(text(20))
        assert cli("summarize", name, "--mode", "extractive", "-q").returncode == 0
    header, *rows = (line.split("\t") for line in cli("show", "--list").stdout.splitlines())
    name, preset = header.index("document"), header.index("preset")
    assert [(row[name], row[preset]) for row in rows] == [
        ("c.txt", "no model"),
        ("b.txt", "no model"),
        ("a.txt", "one"),
    ]
    assert [one["method"] for one in json.loads(cli("show", "--list", "--json").stdout)][:2] == ["extractive"] * 2
    gone = cli("show", "--forget", made.run)
    assert (gone.returncode, gone.stdout, gone.stderr) == (0, "", "1 run removed\n")
    assert cli("show", made.run).returncode == 3
    assert cli("show", "--forget", "all").stderr == "2 runs removed\n"
    assert cli("show").returncode == 3


def test_the_passage_behind_a_sentence(cli, made):
    shown = cli("show", "--sentence", 1).stdout
    assert "page 1 · " in shown
    assert "The harbour was founded [red]by fishermen[/red] once." in shown
    assert "not in the source: 4,711" in cli("show", "-s", 2).stdout
    record = json.loads(cli("show", made.run, "-s", 1, "--json").stdout)
    assert record["citations"][0]["page"] == 1
    assert record["passages"][0].startswith("The harbour")
    whole = json.loads(cli("show", "--json").stdout)
    assert (whole["sentences"][0]["text"], whole["text"]) == (record["text"], made.text)
    done = cli("show", "--sentence", 9)
    assert done.returncode == 2
    assert f"error: run {made.run} has no sentence 9\n" in done.stderr
