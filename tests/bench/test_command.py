"""`specextend bench` from outside: clean streams, exact exit codes, runs that are continued."""

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
from specextend_cli.bench.records import Run
from specextend_cli.bench.storage import from_json, to_json

from specextend_cli.bench import methods, runner
from specextend_cli.errors import UsageError
from tests.cli.shell import HIDE, SHOW, Terminal, environment

SMALL = ("--len", "256", "--docs", "2", "--tokens", "12", "--dtype", "float32")
FEW = ("--methods", "plain,ngram")


@pytest.fixture
def small(presets: dict[str, Path]) -> tuple[str, ...]:
    return ("bench", "-m", str(presets["one"]), *SMALL)


def kept(home: Path) -> list[Path]:
    return list((home / "cache" / "specextend" / "bench").glob("*"))


def test_help_needs_no_torch_and_list_names_every_method() -> None:
    code = (
        "import sys\nfrom specextend_cli.cli.main import run\n"
        "for option in ('--help', '--help-all', '--list'):\n    run(['bench', option])\n    print('=' * 9)\n"
        "print('loaded:', *sorted({'torch', 'transformers', 'numpy'} & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(real=True), check=False
    )
    assert (done.returncode, done.stderr) == (0, "loaded:\n")
    usual, every, listed, _ = done.stdout.split("=" * 9)
    assert [("--fresh" in shown) for shown in (usual, every, listed)] == [False, True, False]
    assert all(name in listed.replace("\n", "") for name in methods.METHODS)


def test_stdout_holds_the_result_and_nothing_else(cli, small, home: Path) -> None:
    done = cli(*small, *FEW)
    assert done.returncode == 0
    assert done.stdout.startswith("method\t")
    assert "ngram" in done.stdout
    assert "2 of 2" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr
    assert re.search(r"^\[4/4\] \w+ · 256 python-reference-\d+ · .* tokens/s, prefill", done.stderr, re.MULTILINE)
    assert kept(home) == []


def test_a_format_and_no_progress(cli, small) -> None:
    done = cli(*small, *FEW, "-q", "-f", "csv")
    assert (done.returncode, done.stderr) == (0, "")
    assert {row["method"] for row in csv.DictReader(io.StringIO(done.stdout))} == {"plain", "ngram"}


def test_the_last_line_is_json(cli, small) -> None:
    done = cli(*small, *FEW, "--json")
    assert done.stdout.count("\n") == 1
    benchmark = from_json(done.stdout)
    assert benchmark.preset == "one"
    assert benchmark.settings["tokens"] == 12
    assert benchmark.settings["dtype"] == "float32"
    assert benchmark.machine.threads >= 1
    assert {record.length for record in benchmark.records} == {256}


def test_a_file_and_a_report(cli, small, tmp_path: Path) -> None:
    done = cli(*small, *FEW, "-q", "-o", tmp_path / "out.csv", "--report", tmp_path / "report")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "out.csv").read_text().startswith("method,")
    assert "<svg" in (tmp_path / "report" / "index.html").read_text()
    assert from_json((tmp_path / "report" / "benchmark.json").read_text()).records


def test_a_data_set_with_references(cli, small, tmp_path: Path) -> None:
    from tests.summarize.tiny_preset import text

    lines = [{"id": "<b>\x1b[31m", "text": text(60), "summary": "Ships bring timber."}]
    (tmp_path / "set.jsonl").write_text("\n".join(map(json.dumps, lines)))
    done = cli(*small, *FEW, "--dataset", tmp_path / "set.jsonl", "-f", "json")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout + done.stderr
    assert "warning: 1 of 2 documents are long enough for 256 tokens" in done.stderr
    assert from_json(done.stdout).references == {"<b>\x1b[31m": "Ships bring timber."}


def test_files_as_documents(cli, small, tmp_path: Path) -> None:
    from tests.summarize.tiny_preset import text

    (tmp_path / "a.txt").write_text(text(60))
    done = cli(*small, *FEW, "--input", tmp_path / "a.txt", "--docs", 1, "--json", "-q")
    assert {record.document for record in from_json(done.stdout).records} == {"a.txt"}


def test_a_method_that_cannot_run_is_left_out_and_said(cli, small, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(models):
        raise UsageError("it is not here", why="who knows")

    monkeypatch.setitem(methods.METHODS, "llama.cpp", ("absent", absent))
    done = cli(*small, "--methods", "plain,llama.cpp", "--json")
    assert done.returncode == 0
    assert "warning: llama.cpp is left out: it is not here (who knows)" in done.stderr
    assert from_json(done.stdout).skipped == {"llama.cpp": "it is not here (who knows)"}


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("--len", "huge"), "--len"),
        (("--methods", "plain,magic"), "no method 'magic'"),
        (("--dataset", "nowhere.jsonl"), "no data set"),
        (("-f", "csv", "--json"), "contradict"),
        (("-o", "out.txt"), "does not say which format"),
        (("--draft", "none"), "--draft none"),
        (("--len", "16"), "no room"),
    ],
)
def test_usage_errors(cli, small, arguments: tuple[str, ...], what: str) -> None:
    done = cli(*small, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert what in done.stderr


def test_unreadable_inputs_exit_with_3(cli, small, tmp_path: Path) -> None:
    assert cli(*small, "--compare", tmp_path / "absent.json").returncode == 3
    assert cli(*small, "--input", tmp_path / "absent.pdf").returncode == 3
    assert cli(*small, "--len", "900k").returncode == 3
    (tmp_path / "old.json").write_text("{}")
    assert cli(*small, "--compare", tmp_path / "old.json").returncode == 2


# --------------------------------------------------------------------------------------------- what must not pass


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
    wrong = [record for record in from_json(done.stdout).records if record.divergence]
    assert {(record.method, record.divergence.index) for record in wrong} == {("ngram", 5)}
    assert all(record.divergence.gap > 0 for record in wrong)


def test_a_slow_down_fails_the_comparison(cli, small, tmp_path: Path) -> None:
    old = tmp_path / "old.json"
    assert cli(*small, *FEW, "-q", "-o", old).returncode == 0
    benchmark = from_json(old.read_text())
    # As if n-grams had been a thousand times faster, and then as slow as that; the gate may accept more or less anew.
    for factor, code in ((1e-3, 1), (1e3, 0)):
        records = tuple(
            replace(
                record, accepted=(), decode_seconds=record.decode_seconds * (factor if record.method == "ngram" else 1)
            )
            for record in benchmark.records
        )
        old.write_text(to_json(replace(benchmark, records=records)))
        done = cli(*small, *FEW, "-q", "--compare", old)
        assert done.returncode == code
        assert ("worse than it was" in done.stderr) == bool(code)
        assert "ngram" in done.stdout


# -------------------------------------------------------------------------------------------------- interruptions


def test_an_interrupted_run_is_continued(cli, small, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    honest = runner.measured

    def interrupted(*arguments):
        nonlocal calls
        calls += 1
        if calls == 5:  # two warm-ups and two runs before it
            raise KeyboardInterrupt
        return honest(*arguments)

    monkeypatch.setattr(runner, "measured", interrupted)
    done = cli(*small, *FEW)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.splitlines()[-1] == "2/4 runs saved; run again to continue"
    assert len(kept(home)) == 1
    monkeypatch.setattr(runner, "measured", honest)
    done = cli(*small, *FEW, "--seed", 1, "--json", "-q")  # another question
    assert (done.returncode, len(kept(home))) == (0, 1)
    done = cli(*small, *FEW, "--json")
    assert "continuing: 2 of 4 runs were measured before (--fresh starts anew)" in done.stderr
    assert len(from_json(done.stdout).records) == 4
    assert kept(home) == []


def test_fresh_measures_everything_again(cli, small, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*arguments):
        raise KeyboardInterrupt

    honest = runner.machine.peak
    done = cli(*small, *FEW, "--json", "-q")
    monkeypatch.setattr(runner.machine, "peak", lambda device: 7)
    monkeypatch.setattr("specextend_cli.bench.report.write_report", failing)
    # After the runs, before the result is safe.
    assert cli(*small, *FEW, "--report", home / "report").returncode == 130
    assert len(kept(home)) == 1
    monkeypatch.setattr(runner.machine, "peak", honest)
    done = cli(*small, *FEW, "--json", "-q", "--fresh")
    assert all(record.peak_bytes > 7 for record in from_json(done.stdout).records)


def test_ctrl_c_saves_the_runs_and_says_how_to_go_on(presets, home: Path) -> None:
    from tests.summarize.tiny_preset import text

    (home / "a.txt").write_text(text(60))
    arguments = ("bench", "-m", presets["one"], "--input", home / "a.txt", "--len", "256", "--docs", 1, *FEW)
    terminal = Terminal(*arguments, "--tokens", 100, "--repeats", 800, columns=200, real=True)
    terminal.until_match(rb"(?:[3-9]|\d\d+)/1600")
    terminal.press(b"\x03")
    terminal.until(b"run again to continue")
    assert terminal.wait() == 130
    assert terminal.output.rfind(SHOW) > terminal.output.rfind(HIDE) >= 0
    (last,) = [line for line in terminal.screen() if "saved" in line]
    saved = int(re.fullmatch(r"(\d+)/1600 runs saved; run again to continue", last)[1])
    (file,) = kept(home)
    assert saved <= len(file.read_text().splitlines()) <= saved + 1


def test_a_timeout_exits_with_124_and_keeps_what_was_measured(cli, small, home: Path) -> None:
    done = cli(*small, "--repeats", 5000, *FEW, "--timeout", 1.5, "-q")
    assert (done.returncode, done.stdout) == (124, "")
    assert "run again to continue" in done.stderr
