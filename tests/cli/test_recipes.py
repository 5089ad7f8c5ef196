"""docs/recipes.md, run: every block of it, in a directory as they assume one, with the invented summarizer."""

from __future__ import annotations

import csv
import json
import os
import shlex
import shutil
import subprocess

import pytest

from tests.cli.shell import FAKE, LIMIT, environment
from tests.documents.made_pdfs import report_bytes
from tests.summarize.examples import blocks
from tests.ui.fake_stream import SUMMARY

RECIPES = blocks("recipes.md", "bash")
FIRST = SUMMARY.splitlines()[0]
SBATCH = """#!/bin/bash
export SLURM_ARRAY_TASK_COUNT=$(sed -n 's/^#SBATCH --array=1-//p' "$1")
for SLURM_ARRAY_TASK_ID in $(seq "$SLURM_ARRAY_TASK_COUNT"); do export SLURM_ARRAY_TASK_ID; bash "$1" || exit; done
"""


@pytest.fixture
def here(tmp_path):
    """Files as the recipes assume them, and `specextend` and `sbatch` on the path."""
    for folder in ("bin", "papers", "mail"):
        (tmp_path / folder).mkdir()
    command = tmp_path / "bin" / "specextend"
    command.write_text(f"#!/bin/sh\nexec {shlex.join(FAKE)} '{{}}' \"$@\"\n")
    sbatch = tmp_path / "bin" / "sbatch"
    sbatch.write_text(SBATCH)
    for file in (command, sbatch):
        file.chmod(0o755)
    (tmp_path / "report.pdf").write_bytes(report_bytes(2))
    (tmp_path / "last-night").touch()
    os.utime(tmp_path / "last-night", (0, 0))
    for name in ("a", "b"):
        (tmp_path / "papers" / f"{name}.txt").write_text("Rain fell in March.\n")
        (tmp_path / "mail" / f"{name}.eml").write_text("From: a@example.org\nSubject: Rain\n\nIt rains.\n")
    (tmp_path / "papers" / "broken.txt").write_bytes(b"%PDF-1.7 nothing")
    (tmp_path / "notes.md").write_text("# Meeting\n\nWe met.\n")
    return tmp_path


def follow(number, here):
    """Run one recipe as a script that stops at the first error."""
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", RECIPES[number - 1]],
        cwd=here,
        env=environment(PATH=f"{here / 'bin'}:{os.environ['PATH']}", PYTHONWARNINGS=""),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=True,
    )


def written(here, folder):
    return sorted(path.name for path in (here / folder).iterdir())


def test_every_recipe_is_tested():
    tests = [name for name in globals() if name.startswith("test_recipe_")]
    assert sorted(int(name.split("_")[2]) for name in tests) == list(range(1, len(RECIPES) + 1))
    assert len(RECIPES) >= 10


def test_recipe_1_files(here):
    follow(1, here)
    assert (here / "summary.txt").read_text() == SUMMARY + "\n"
    assert f"{len(SUMMARY.split())} words" in (here / "figures.txt").read_text()


def test_recipe_2_pipes(here):
    assert int(follow(2, here).stdout) == len(SUMMARY.split()) == len((here / "summary.txt").read_text().split())


def test_recipe_3_folder(here):
    assert follow(3, here).stdout == "2\n"
    assert written(here, "summaries") == ["a.md", "b.md"]


def test_recipe_4_new(here):
    (here / "papers" / "broken.txt").unlink()
    os.utime(here / "papers" / "a.txt", (0, 0))
    follow(4, here)
    assert written(here, "summaries") == ["b.txt"]
    assert (here / "last-night").stat().st_mtime > 0


@pytest.mark.full
def test_recipe_5_gate(here):
    follow(5, here)
    assert (here / "gate.txt").read_text() == "papers/broken.txt: cannot be read, or has no text\n"
    assert (here / "papers" / "a.txt.summary.md").is_file()


def test_recipe_6_table(here):
    follow(6, here)
    rows = list(csv.reader((here / "table.csv").read_text().splitlines(keepends=True)))
    assert [row[0] for row in rows] == ["document", "a.txt", "b.txt"]
    assert rows[1][4] == SUMMARY


@pytest.mark.full
def test_recipe_7_array(here):
    follow(7, here)
    assert written(here, "summaries") == ["a.txt", "b.txt"]


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_recipe_8_make(here):
    follow(8, here)
    assert "*Source: report.pdf" in (here / "report.summary.md").read_text()


def test_recipe_9_mail(here):
    follow(9, here)
    assert (here / "decisions.txt").read_text().count(FIRST) == 2


def test_recipe_10_template(here):
    follow(10, here)
    assert (here / "minutes.md").read_text() == SUMMARY + "\n"


def test_recipe_11_lines(here):
    follow(11, here)
    words = len(SUMMARY.split())
    assert (here / "words.txt").read_text().splitlines() == [f"{name}.txt {words} words" for name in ("a", "b")]


@pytest.mark.full
def test_recipe_12_night(here):
    (here / "papers" / "broken.txt").unlink()
    follow(12, here)
    assert [plan["document"] for plan in json.loads((here / "plan.json").read_text())] == ["a.txt", "b.txt"]
    assert written(here, "summaries") == ["a.txt", "b.txt"]
