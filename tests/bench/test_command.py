"""`specextend bench` from outside: clean streams, exact exit codes, nothing overwritten, wrong tokens told."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from specextend_cli.bench import methods, plots, runner
from specextend_cli.bench.results import Run
from specextend_cli.errors import UsageError
from tests.cli.shell import HIDE, SHOW, Terminal, environment
from tests.summarize.tiny_preset import text

SMALL = ("--len", "256", "--docs", "2", "--tokens", "12", "--dtype", "float32")
FEW = ("--methods", "plain,ngram")


@pytest.fixture
def small(presets: dict[str, Path]) -> tuple[str, ...]:
    return ("bench", "-m", str(presets["one"]), *SMALL)


def test_help_needs_no_torch_and_list_names_every_method() -> None:
    code = (
        "import sys\nfrom specextend_cli.cli.main import run\n"
        "for option in ('--help', '--list'):\n    run(['bench', option])\n    print('=' * 9)\n"
        "print('loaded:', *sorted({'torch', 'transformers', 'numpy'} & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(real=True), check=False
    )
    assert (done.returncode, done.stderr) == (0, "loaded:\n")
    _, listed, _ = done.stdout.split("=" * 9)
    assert all(name in listed.replace("\n", "") for name in methods.METHODS)


def test_stdout_holds_the_result_and_nothing_else(cli, small) -> None:
    done = cli(*small, *FEW)
    assert done.returncode == 0
    assert done.stdout.startswith("methods  How do the methods compare?")
    assert re.search(r"^256\tngram\t", done.stdout, re.MULTILINE)
    assert "\x1b" not in done.stdout + done.stderr
    assert re.search(r"^\[4/4\] \w+ · 256 python-reference-\d+ · .* tok/s, prefill", done.stderr, re.MULTILINE)


def test_one_line_of_json_has_the_whole_result(cli, small) -> None:
    done = cli(*small, *FEW, "--json", "-q")
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (0, "", 1)
    found = json.loads(done.stdout)
    assert (found["preset"], found["settings"]["tokens"], found["settings"]["dtype"]) == ("one", 12, "float32")
    assert list(found["machine"]) == ["device", "processor", "software"]
    assert {(record["method"], record["length"]) for record in found["records"]} == {("plain", 256), ("ngram", 256)}
    assert [(row["method"], row["equal"], row["runs"]) for row in found["summary"]] == [
        ("plain", 2, 2),
        ("ngram", 2, 2),
    ]


def test_a_file_and_a_report(cli, small, tmp_path: Path) -> None:
    done = cli(*small, *FEW, "-q", "-o", tmp_path / "out.csv", "--report", tmp_path / "report")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text())))
    assert {row["method"] for row in rows} == {"plain", "ngram"}
    assert "<svg" in (tmp_path / "report" / "index.html").read_text()
    assert json.loads((tmp_path / "report" / "benchmark.json").read_text())["records"]


def test_files_and_data_sets_as_documents(cli, small, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(text(60))
    done = cli(*small, *FEW, "--input", tmp_path / "a.txt", "--docs", 1, "--json", "-q")
    assert {record["document"] for record in json.loads(done.stdout)["records"]} == {"a.txt"}
    (tmp_path / "set.jsonl").write_text(json.dumps({"id": "<b>\x1b[31m", "text": text(60)}))
    done = cli(*small, *FEW, "--dataset", tmp_path / "set.jsonl", "-f", "json")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout + done.stderr
    assert "warning: 1 of 2 documents are long enough for 256 tokens" in done.stderr
    assert {record["document"] for record in json.loads(done.stdout)["records"]} == {"<b>\x1b[31m"}


def test_a_method_that_cannot_run_is_left_out_and_said(cli, small, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(models):
        raise UsageError("it is not here", why="who knows")

    monkeypatch.setitem(methods.METHODS, "llama.cpp", ("absent", absent))
    done = cli(*small, "--methods", "plain,llama.cpp", "--json")
    assert done.returncode == 0
    assert "warning: llama.cpp is left out: it is not here (who knows)" in done.stderr
    assert json.loads(done.stdout)["skipped"] == {"llama.cpp": "it is not here (who knows)"}


@pytest.mark.parametrize(
    ("arguments", "code", "what"),
    [
        (("--len", "huge"), 2, "--len"),
        (("--len", "16"), 2, "no room"),
        (("--methods", "plain,magic"), 2, "no method 'magic'"),
        (("--experiment", "magic"), 2, "no experiment 'magic'"),
        (("--experiment", "needle", "--methods", "plain"), 2, "contradict"),
        (("--dataset", "nowhere.jsonl"), 2, "no data set"),
        (("-f", "csv", "--json"), 2, "contradict"),
        (("-o", "out.txt"), 2, "does not say which format"),
        (("--draft", "none"), 2, "--draft none"),
        (("--input", "absent.pdf"), 3, "absent.pdf"),
        (("--len", "900k"), 3, "no document is long enough"),
    ],
)
def test_what_cannot_be_measured(cli, small, tmp_path: Path, monkeypatch, arguments, code: int, what: str) -> None:
    monkeypatch.chdir(tmp_path)
    done = cli(*small, *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert what in done.stderr


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("--input", "old.json", "-o", "old.json"), "is read by this command"),
        (("--dataset", "old.json", "-o", "old.json"), "is read by this command"),
        (("-o", "old.json"), "exists already"),
        (("--report", "page"), "exists already"),
        (("-o", "old.json/new.csv"), "cannot write"),
    ],
)
def test_nothing_is_overwritten(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments, what: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "page").mkdir()
    for name in ("old.json", "page/index.html"):
        (tmp_path / name).write_text("{}")
    done = cli("bench", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert what in done.stderr
    assert (tmp_path / "old.json").read_text() == (tmp_path / "page" / "index.html").read_text() == "{}"


def test_without_matplotlib_report_is_refused_before_anything_is_measured(
    cli, small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plots, "find_spec", lambda name: None)
    done = cli(*small, "--report", tmp_path / "report")
    assert (done.returncode, done.stdout) == (2, "")
    assert "matplotlib is not installed" in done.stderr
    assert "pip install 'specextend-cli[bench]'" in done.stderr


def test_a_method_that_emits_wrong_tokens_fails_the_benchmark(cli, small, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = runner.measured

    def lying(target, drafter, *arguments):
        for event in honest(target, drafter, *arguments):
            if isinstance(event, Run) and drafter.name == "ngram":
                event = replace(event, tokens=(*event.tokens[:5], event.tokens[5] ^ 1, *event.tokens[6:]))
            yield event

    monkeypatch.setattr(runner, "measured", lying)
    done = cli(*small, *FEW, "--json")
    assert done.returncode == 1
    assert "error: ngram wrote other tokens than plain decoding" in done.stderr
    assert "differs from plain decoding from token 6 on" in done.stderr
    found = json.loads(done.stdout)
    assert found["wrong"] == ["ngram"]
    wrong = [record for record in found["records"] if record["divergence"]]
    assert {(record["method"], record["divergence"]["index"]) for record in wrong} == {("ngram", 5)}
    assert all(record["divergence"]["gap"] > 0 for record in wrong)


@pytest.mark.full
def test_ctrl_c_stops_and_leaves_the_terminal_as_it_was(presets, home: Path) -> None:
    (home / "a.txt").write_text(text(60))
    arguments = ("bench", "-m", presets["one"], "--input", home / "a.txt", "--len", "256", "--docs", 1, *FEW)
    terminal = Terminal(*arguments, "--tokens", 20, "--repeats", 800, columns=200, real=True)
    terminal.until(b"[2/1600]")
    terminal.press(b"\x03")
    terminal.until(b"nothing was saved")
    assert terminal.wait() == 130
    assert terminal.output.rfind(SHOW) > terminal.output.rfind(HIDE) >= 0
