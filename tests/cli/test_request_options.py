"""`--length`, `--style`, `--focus`, `--lang` and `--template`, from the command line to the JSON."""

from __future__ import annotations

import json

import pytest

from tests.summarize.examples import stand_in
from tests.summarize.tiny_preset import text


@pytest.fixture
def source(presets, tmp_path):
    """A document, for a default pair that can be asked everything."""
    stand_in(presets)
    path = tmp_path / "a.txt"
    path.write_text(text(30))
    return path


def test_options_of_a_summary_reach_the_request(cli, source, tmp_path):
    mine = tmp_path / "mine.txt"
    mine.write_text("{document} In {words} words, in {language}: {style} {focus}")
    wishes = ("--length", "short", "--style", "bullets", "--focus", "Who?", "--lang", "French", "-t", mine)
    wishes += ("--mode", "abstractive")
    done = cli("summarize", source, "--json", "-q", *wishes)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["request"] == {
        "length": "short",
        "style": "bullets",
        "focus": "Who?",
        "language": "French",
        "template": mine.read_text(),
        "mode": "abstractive",
    }
    assert all(line.startswith("- ") for line in record["text"].splitlines())
    assert json.loads(cli("summarize", source, "--json", "-q", "--length", 20).stdout)["request"]["length"] == 20


def test_notes_are_found_again_where_a_wish_does_not_concern_them(cli, source):
    def reused(*wishes):
        done = cli("summarize", source, "-f", "jsonl", "-q", *wishes)
        events = [json.loads(line) for line in done.stdout.splitlines()]
        return [event["reused"] for event in events if event["event"] == "chunksummarized"]

    assert reused() == [False] * 4
    assert reused("--style", "outline", "--length", 9, "--lang", "French") == [True] * 4
    assert reused("--focus", "Who?") == [False] * 4
    assert reused("--focus", "Who?", "--style", "tldr") == [True] * 4


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        (("--length", "huge"), "--length huge is not a length"),
        (("--length", "0"), "--length 0: no such length"),
        (("--length", "99999"), "more than this preset can write"),
        (("--style", "haiku"), "'haiku' is not one of"),
        (("--focus", ""), "--focus is empty"),
        (("-t", "absent"), "cannot read the template absent"),
        (("-t", "/"), "cannot read the template /"),
        (("-t", "latin1"), "the template latin1 is not text"),
        (("-t", "large"), "--template is too long"),
        (("-t", "nowhere"), "{document} must occur exactly once, not 0 times"),
        (("-t", "misspelt"), "unknown placeholder {documnet}"),
    ],
)
def test_impossible_requests_are_refused(cli, source, monkeypatch, wishes, said):
    monkeypatch.chdir(source.parent)
    for name, data in {
        "latin1": b"{document} caf\xe9",
        "large": b"{document}" + b"x" * (1 << 18),
        "nowhere": b"Summarize.",
        "misspelt": b"{documnet}",
    }.items():
        (source.parent / name).write_bytes(data)
    done = cli("summarize", source, *wishes)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())


def test_a_request_is_refused_before_a_model_is_looked_for(cli, source, home):
    (home / "config" / "specextend" / "config.toml").unlink()
    (source.parent / "mine").write_text("Summarize.")
    done = cli("summarize", source, "-t", source.parent / "mine")
    assert "model:" not in done.stderr
    assert "try:   correct the file of --template: {document} once" in done.stderr
