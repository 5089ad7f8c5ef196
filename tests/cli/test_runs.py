"""`runs list|show|rm` and `show`."""

from __future__ import annotations

import io
import json
import sqlite3
from dataclasses import replace

import pytest
from rich.console import Console

from specextend_cli.engine.meter import Meter
from specextend_cli.models.store import cache_root
from specextend_cli.summarize.result_store import RunStore
from specextend_cli.summarize.word_count import count_words
from specextend_cli.ui.runs import run_table
from specextend_cli.ui.tables import plan_table
from tests.summarize.scribe import Scribe, document, run, summarizer
from tests.summarize.tiny_preset import text

EVIL = "The harbour\x1b[2J was founded [red]by fishermen[/red]. It cost 4,711 crowns. Perhaps it never rained."


@pytest.fixture
def made(presets):
    """One run whose document and summary mean harm."""
    source = document("The harbour\x1b[2J was founded [red]by fishermen[/red] once. " + text(6), "a\x1b[2J.txt")
    return run(summarizer(presets["one"], Scribe(lambda prompt, most: EVIL), cache=True), source)[0]


def test_nothing_is_listed_before_the_first_run(cli, presets):
    done = cli("runs", "list")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "no run is recorded yet\n")
    assert json.loads(cli("runs", "list", "--json").stdout) == []


def test_runs_are_listed_shown_and_removed(cli, made):
    listed = cli("runs", "list")
    assert listed.returncode == 0
    assert made.run in listed.stdout
    shown = cli("show", made.run)
    assert "1  The harbour was founded [red]by fishermen[/red]. [p. 1]" in shown.stdout
    assert "2  It cost 4,711 [?] crowns." in shown.stdout
    for said in (listed, shown, cli("runs", "show", "last"), cli("show", "last", "-s", "1")):
        assert "\x1b" not in said.stdout
        assert said.returncode == 0
    assert cli("runs", "show", "last").stdout == shown.stdout
    gone = cli("runs", "rm", made.run)
    assert (gone.returncode, gone.stderr) == (0, "1 run removed\n")
    assert cli("show", made.run).returncode == 3


def printed(table, width):
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(table)
    return console.file.getvalue().splitlines()


def test_on_a_terminal_a_run_and_a_plan_have_a_line_each(made):
    store = RunStore(cache_root() / "texts.sqlite")
    run = replace(store.get(made.run), document="doj-report-vol-2.pdf", text="洪水预警系统由雨量计组成。" * 9)
    plan = replace(made.plan, document=run.document, tokens=159_753)
    for width in (80, 120):
        for table in (run_table([run], width=width), plan_table([plan], [49.0], 644 << 20, width=width)):
            names, _, line = printed(table, width)
            assert run.document in line
            assert ("begins" in names or "largest" in names) == (width == 120)
    assert f" {count_words(run.text)} " in printed(run_table([run], width=80), 80)[2]


def test_runs_without_a_model_name_no_preset(cli, presets, made, tmp_path):
    path = tmp_path / "harbour.txt"
    path.write_text(text(60))
    assert cli("summarize", path, "--mode", "extractive", "-q").returncode == 0
    short = tmp_path / "short.txt"
    short.write_text("The harbour was founded by fishermen once.")
    said = cli("summarize", short, "-m", presets["one"])
    assert "short.txt is printed as it is: it has 7 words, and its summary may have " in said.stderr
    store = RunStore(cache_root() / "texts.sqlite")
    store.add(replace(made, method="guided", document="read.txt"), document(text(6)), "cpu")
    with sqlite3.connect(store.path) as table:  # as earlier versions recorded one
        old = json.loads(table.execute("select record from runs where record like '%harbour.txt%'").fetchone()[0])
        del old["method"]
        table.execute("insert into runs values ('000000', 0.0, ?)", (json.dumps({**old, "document": "old.txt"}),))
    header, *rows = (line.split("\t") for line in cli("runs", "list").stdout.splitlines())
    name, preset = header.index("document"), header.index("preset")
    assert {row[name]: row[preset] for row in rows} == {
        "harbour.txt": "no model",
        "short.txt": "no model",
        "old.txt": "no model",
        "read.txt": "one",
        "a.txt": "one",
    }
    assert " · no model · " in cli("show", "000000").stdout
    methods = {run["document"]: run["method"] for run in json.loads(cli("runs", "list", "--json").stdout)}
    assert methods["harbour.txt"] == "extractive"
    assert methods["short.txt"] == "verbatim"
    assert methods["old.txt"] is None


def test_the_passage_behind_a_sentence(cli, made):
    said = cli("show", "last", "--sentence", 1).stdout
    assert "page 1 · words" in said
    assert "The harbour was founded [red]by fishermen[/red] once." in said
    assert "not in the source: 4,711" in cli("show", "last", "--sentence", 2).stdout
    record = json.loads(cli("show", "last", "--sentence", 1, "--json").stdout)
    assert record["citations"][0]["page"] == 1
    assert record["citations"][0]["passage"].startswith("The harbour")
    whole = json.loads(cli("show", "last", "--json").stdout)
    assert whole["sentences"][0] == record
    assert whole["text"] == made.text


def test_a_plan_says_how_long_the_last_runs_took(cli, presets, made, tmp_path):
    path = tmp_path / "harbour.txt"
    path.write_text(text(6))
    asked = ("plan", path, "-m", presets["one"])
    store = RunStore(cache_root() / "texts.sqlite")
    store.clear()
    planned = json.loads(cli(*asked, "--json").stdout)
    assert planned["seconds"] is None
    assert planned["memory"] > 0
    tokens = made.coverage.tokens
    meter = Meter(prompt_tokens=tokens, prefill_seconds=2.0 * tokens, tokens=10, verify_seconds=30.0)
    store.add(replace(made, meter=meter), document(text(6)), "cpu")
    expected = sum(2 * level["read"] + 3 * level["written"] for level in planned["work"])
    assert json.loads(cli(*asked, "--json").stdout)["seconds"] == pytest.approx(expected)
    assert "about " in cli(*asked).stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("show", "zzz"), 3, "there is no run zzz"),
        (("show", "last", "--sentence", "9"), 2, "has no sentence 9"),
        (("show", "last", "--sentence", "0"), 2, "--sentence"),
        (("runs", "rm"), 2, "name the runs"),
        (("runs", "rm", "last", "--all"), 2, "name the runs"),
        (("runs", "rm", "zzz"), 3, "there is no run zzz"),
        (("show",), 2, "RUN"),
    ],
)
def test_runs_and_sentences_that_are_not_there_are_said(cli, made, arguments, code, said):
    done = cli(*arguments)
    assert done.returncode == code
    assert said in done.stderr
    assert done.stdout == ""


def test_marks_are_asked_for(cli, presets, tmp_path):
    """The real pipeline, tiny models: the same words with marks and without, and the same marks in a file."""
    source = tmp_path / "harbour.md"
    source.write_text("# One\n\n" + text(4) + "\n\n# Two\n\n" + text(4, start=20))
    command = ("summarize", source, "-q", "-m", presets["one"])
    plain, marked = cli(*command), cli(*command, "--cite", "--flag-unsupported")
    assert plain.returncode == marked.returncode == 0
    assert "[s. " in marked.stdout
    unmarked = marked.stdout.replace(" [?]", "")
    for pages in ("1", "2", "1-2"):
        unmarked = unmarked.replace(f" [s. {pages}]", "")
    assert unmarked == plain.stdout
    out = tmp_path / "out.md"
    assert cli(*command, "--cite", "--flag-unsupported", "-o", out).returncode == 0
    assert out.read_text().startswith(marked.stdout.rstrip("\n"))
    record = json.loads(cli(*command, "--json").stdout)
    assert record["text"] == plain.stdout.strip()
    keys = {"page", "start", "end", "score", "lexical", "attention", "label", "ocr"}
    assert keys == set(record["sentences"][0]["citations"][0])
    assert record["unsupported"] == [one for sentence in record["sentences"] for one in sentence["unsupported"]]
    assert cli("show", record["run"]).returncode == 0


def test_page_labels_are_shown_beside_their_numbers(cli, presets):
    source = document("The harbour was founded by fishermen once. " + text(6))
    source = replace(source, pages=tuple(replace(page, label=f"A-{page.number}") for page in source.pages))
    said = "The harbour was founded by fishermen."
    run(summarizer(presets["one"], Scribe(lambda prompt, most: said), cache=True), source)
    assert f"1  {said} [p. A-1 (1)]" in cli("show", "last").stdout
    assert "page A-1 (1) · words" in cli("show", "last", "--sentence", 1).stdout
    record = json.loads(cli("show", "last", "--json").stdout)["sentences"][0]["citations"][0]
    assert (record["page"], record["label"]) == (1, "A-1")
