"""The whole command in processes of its own: real models, tiny ones, on real pipes and terminals."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.shell import HIDE, SHOW, Terminal, command, environment
from tests.documents.made_pdfs import report_bytes
from tests.summarize.tiny_preset import text

LOADED = (
    "import sys\n"
    "from specextend_cli.cli.main import run\n"
    "code = run(sys.argv[1:])\n"
    "print('loaded:', *sorted({'torch', 'transformers'} & set(sys.modules)), file=sys.stderr)\n"
    "sys.exit(code)\n"
)


def test_planning_a_long_document_imports_no_torch(presets, tmp_path):
    path = tmp_path / "report.pdf"
    path.write_bytes(report_bytes(60))
    arguments = [sys.executable, "-c", LOADED, "plan", "--json", "-m", str(presets["one"]), str(path)]
    done = subprocess.run(arguments, capture_output=True, text=True, env=environment(real=True), check=False)
    assert (done.returncode, done.stderr) == (0, "loaded:\n")
    plan = json.loads(done.stdout)
    assert (plan["pages"], plan["tokens"]) == (60, sum(plan["chunks"]))
    assert plan["levels"] > 2


@pytest.mark.parametrize("arguments", ["presets list", "models list", "tokens", "chunks"])
def test_what_needs_no_model_imports_no_torch(presets, tmp_path, arguments):
    path = tmp_path / "a.txt"
    path.write_text(text(3))
    words = arguments.split()
    if words[0] in ("tokens", "chunks"):
        words += ["-m", str(presets["one"]), str(path)]
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *words], capture_output=True, text=True, env=environment(real=True), check=False
    )
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, "loaded:")


def test_a_redirected_summary_is_clean(presets, tmp_path):
    source, out = tmp_path / "harbour.txt", tmp_path / "out.txt"
    source.write_text(text(30))
    with out.open("wb") as stdout:
        arguments = ("summarize", source, "-m", presets["three"])
        terminal = Terminal(*arguments, columns=200, real=True, redirect={"stdout": stdout})
        assert terminal.wait() == 0
    summary = out.read_text()
    assert re.fullmatch(r"(?:[A-Za-z .,]+\n\n)?[A-Za-z .,]+\n", summary)
    assert terminal.output.rfind(SHOW) > terminal.output.rfind(HIDE) >= 0
    assert re.match(r"done · \d+ tokens written in ", terminal.screen()[-1])


@pytest.mark.full
def test_a_closed_pipe_is_141(presets, tmp_path):
    source = tmp_path / "harbour.txt"
    source.write_text(text(6))
    reader, writer = os.pipe()
    os.close(reader)
    arguments = command("summarize", "-q", source, "-m", presets["one"], real=True)
    done = subprocess.run(arguments, stdout=writer, stderr=subprocess.PIPE, env=environment(real=True), check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def kept_in(store: Path) -> int:
    """How many notes the store has, none where there is no store yet."""
    try:
        with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
            return connection.execute("select count(*) from texts").fetchone()[0]
    except sqlite3.OperationalError:  # no file, or no table yet
        return 0


def test_ctrl_c_while_decoding_saves_the_notes_and_restores_the_terminal(presets, home, tmp_path):
    source = tmp_path / "harbour.txt"
    source.write_text(text(6000))  # ^C comes long before the end, even where this process has to wait for a core
    terminal = Terminal("summarize", source, "-m", presets["one"], real=True)
    notes = home / "cache" / "specextend" / "texts.sqlite"
    while kept_in(notes) < 3:
        terminal.more()
    assert not terminal.echoes
    terminal.press(b"\x03")
    terminal.until(b"run again to continue")
    assert terminal.echoes
    assert terminal.wait() == 130
    assert terminal.output.rfind(SHOW) > terminal.output.rfind(HIDE) >= 0
    (last,) = terminal.screen()
    saved = int(re.fullmatch(r"(\d+)/\d+ chunks saved; run again to continue", last)[1])
    kept = kept_in(notes)
    assert 2 <= saved <= kept <= saved + 1  # ^C may come between keeping a note and counting it
