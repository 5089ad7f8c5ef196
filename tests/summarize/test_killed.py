"""Killed at any moment, a run goes on where it was: the same summary, and no note twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.summarize.tiny_preset import text


@pytest.mark.full
@pytest.mark.parametrize(("kills", "sentences"), [(2, 40), (10, 100)])
def test_killed_at_random_moments(presets, tmp_path, kills, sentences):
    source = tmp_path / "a.txt"
    source.write_text(text(sentences))
    done = subprocess.run(
        [sys.executable, "-m", "tests.summarize.killed", str(presets["one"]), str(source), "11", str(kills)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout.splitlines()[-1])
    *_, summary = record["whole"]
    assert record["last"][-1] == summary
    children = [*record["killed"], record["last"]]
    assert sum(not child or child[-1] != summary for child in record["killed"]) >= kills / 2  # killed before the end
    written = [tuple(note[:2]) for child in children for note in child if isinstance(note, list) and not note[2]]
    assert len(written) == len(set(written)) > kills
    noted = {tuple(note[:2]) for note in record["whole"] if isinstance(note, list)}
    assert {tuple(note[:2]) for note in record["last"] if isinstance(note, list)} == noted
