"""docs/recipes.md, run: every block of it, in a directory as they assume one, with the invented summarizer."""

from __future__ import annotations

import os
import shlex
import subprocess

import pytest

from tests.cli.shell import FAKE, LIMIT, environment
from tests.documents.made_pdfs import report_bytes
from tests.helpers.grid import but_for
from tests.summarize.examples import blocks
from tests.ui.fake_stream import SUMMARY

RECIPES = blocks("recipes.md", "bash")
MADE = [
    {"summary.txt": SUMMARY, "figures.txt": f"{len(SUMMARY.split())} words"},
    {"summary.txt": SUMMARY},
    {"summaries/a.md": SUMMARY, "summaries/b.md": SUMMARY, "again.txt": "exists already"},
    {"summaries/b.txt": SUMMARY},
    {"gate.txt": "papers/broken.txt: cannot be read, or has no text\n", "papers/a.txt.summary.md": SUMMARY},
    {"table.csv": "\na.txt,"},
    {"summaries/a.txt": SUMMARY, "summaries/b.txt": SUMMARY},
    {"report.summary.md": "*Source: report.pdf"},
    {"decisions.txt": "==> b.eml <=="},
    {"minutes.md": SUMMARY},
    {"plan.json": '"document": "b.txt"', "summaries/b.txt": SUMMARY},
]
"""The files that each recipe makes, with a part of their text."""
WITHOUT_BROKEN = (4, 11)
SBATCH = """
export SLURM_ARRAY_TASK_COUNT=$(sed -n 's/^#SBATCH --array=1-//p' "$1")
for SLURM_ARRAY_TASK_ID in $(seq "$SLURM_ARRAY_TASK_COUNT"); do export SLURM_ARRAY_TASK_ID; bash "$1" || exit; done
"""


@pytest.fixture
def here(tmp_path):
    """Files as the recipes assume them, and `specextend` and `sbatch` on the path."""
    for folder in ("bin", "papers", "mail"):
        (tmp_path / folder).mkdir()
    for name, body in (("specextend", f"exec {shlex.join(FAKE)} '{{}}' \"$@\""), ("sbatch", SBATCH)):
        (tmp_path / "bin" / name).write_text(f"#!/bin/bash\n{body}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "report.pdf").write_bytes(report_bytes(2))
    (tmp_path / "last-night").touch()
    for name in ("a", "b"):
        (tmp_path / "papers" / f"{name}.txt").write_text("Rain fell in March.\n")
        (tmp_path / "mail" / f"{name}.eml").write_text("From: a@example.org\nSubject: Rain\n\nIt rains.\n")
    for name in ("last-night", "papers/a.txt"):
        os.utime(tmp_path / name, (0, 0))
    (tmp_path / "papers" / "broken.txt").write_bytes(b"%PDF-1.7 nothing")
    (tmp_path / "notes.md").write_text("# Meeting\n\nWe met.\n")
    return tmp_path


def test_what_every_recipe_makes_is_known():
    assert len(MADE) == len(RECIPES)


@pytest.mark.parametrize("number", but_for((1, 3, 6), range(1, len(RECIPES) + 1)))
def test_a_recipe_works_as_it_stands(number, here):
    """As a script that stops at the first error."""
    if number in WITHOUT_BROKEN:
        (here / "papers" / "broken.txt").unlink()
    env = environment(PATH=f"{here / 'bin'}:{os.environ['PATH']}", PYTHONWARNINGS="")
    script = ["bash", "-euo", "pipefail", "-c", RECIPES[number - 1]]
    done = subprocess.run(script, cwd=here, env=env, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stderr
    for name, part in MADE[number - 1].items():
        assert part in (here / name).read_text()
    assert number != 4 or not (here / "summaries" / "a.txt").exists()
