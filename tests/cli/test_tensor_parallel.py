"""Under torchrun, the first process summarizes and the others compute along: the same text, said once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.summarize import tiny_preset

pytestmark = pytest.mark.full
SCRIPT = "import sys; from specextend_cli.cli.main import main; sys.exit(main())"
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python")


def shared(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [*TORCHRUN, sys.executable, "-c", SCRIPT, *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, env=environment)


@pytest.fixture
def document(tmp_path: Path) -> Path:
    path = tmp_path / "document.txt"
    path.write_text(tiny_preset.text(30))
    return path


def test_the_same_summary_by_two_processes(presets, document, cli):
    asked = ("summarize", document, "-m", presets["one"], "--no-cache", "--json", "--mode", "abstractive")
    alone = cli(*asked, "--batch", 1)
    together = shared(*asked)
    assert alone.returncode == together.returncode == 0, together.stderr
    one, two = json.loads(alone.stdout), json.loads(together.stdout)
    assert two["text"] == one["text"] != ""
    assert two["chunk_summaries"] == one["chunk_summaries"] != []
    assert together.stderr.count("document.txt") <= alone.stderr.count("document.txt")


def test_commands_without_a_target_end_all_processes(document):
    done = shared("tokens", "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("usage: ") == 1


def test_what_goes_wrong_is_said_once(presets, document):
    done = shared("summarize", document, "-m", presets["one"], "--no-cache", "--draft", "self")
    assert done.returncode != 0
    assert done.stderr.count("cannot draft for itself") == 1
