"""`train-draft` on a tiny preset: the head on disk, the streams, a kill -9 in the middle, what it refuses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from specextend_cli.errors import Exit
from tests.cli.shell import REAL, environment
from tests.summarize import tiny_preset


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "reports"
    folder.mkdir()
    text = "".join(tiny_preset.SENTENCES) * 12
    (folder / "reports.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for _ in range(6)))
    return folder


def arguments(presets: dict[str, Path], corpus: Path, output: Path, minutes: float = 0.15) -> list[str]:
    return [
        *("train-draft", "--model", str(presets["one"]), "--corpus", str(corpus), "--output", str(output)),
        *("--minutes", str(minutes), "--lengths", "48,96", "--vocabulary", "200", "--unroll", "3"),
    ]


@pytest.mark.full
def test_a_head_is_trained_and_its_directory_printed(cli, presets, corpus, tmp_path):
    done = cli(*arguments(presets, corpus, tmp_path / "head"), "--licences", "public domain")
    assert done.returncode == Exit.OK
    assert done.stdout == f"{tmp_path / 'head'}\n"
    assert "accepted length" in done.stderr
    assert "vocabulary: 200 tokens" in done.stderr
    assert {file.name for file in (tmp_path / "head").iterdir()} == {
        *("README.md", "config.json", "model.safetensors", "training")
    }
    assert "public domain" in (tmp_path / "head" / "README.md").read_text()


@pytest.mark.full
def test_a_run_killed_with_9_goes_on(presets, corpus, tmp_path):
    """Killed after the first checkpoint; the second run starts from its step and finishes."""
    command = [*REAL, *arguments(presets, corpus, tmp_path / "head", minutes=0.4)]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(real=True))
    checkpoint = tmp_path / "head" / "training" / "checkpoint.pt"
    limit = time.monotonic() + 120
    while not checkpoint.exists() and run.poll() is None and time.monotonic() < limit:
        time.sleep(0.05)
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()
    assert checkpoint.exists()
    again = subprocess.run(
        command, capture_output=True, text=True, timeout=180, env=environment(real=True), check=False
    )
    assert again.returncode == Exit.OK, again.stderr
    assert "going on from step" in again.stderr


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (["--corpus", "/nowhere"], Exit.USAGE, "there is no corpus at /nowhere"),
        (["--lengths", "many"], Exit.USAGE, "is no length"),
        (["--lengths", "64k"], Exit.INPUT, "0 of 6 documents"),
        (["--output", __file__], Exit.USAGE, "is a file"),
    ],
)
def test_what_cannot_be_done_is_said(cli, presets, corpus, tmp_path, change, code, words):
    done = cli(*arguments(presets, corpus, tmp_path / "head"), *change)
    assert done.returncode == code
    assert words in done.stderr
    assert done.stdout == ""
