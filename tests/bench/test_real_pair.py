"""Every experiment on the embedded pair, at a small size. Minutes: run with -m slow."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from specextend_cli.bench import experiments
from tests.cli.shell import environment

pytestmark = [pytest.mark.slow, pytest.mark.pair]
LIMIT = 3600


def bench(*arguments: str) -> str:
    command = [sys.executable, "-c", "from specextend_cli.cli.main import main; main()", "bench", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment(real=True), timeout=LIMIT, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", experiments.EXPERIMENTS)
def test_experiments_run_on_the_embedded_pair(name: str) -> None:
    found = json.loads(bench("--experiment", name, "--len", "512,2k", "--docs", "1", "--tokens", "16", "--json"))
    (experiment,) = found["experiments"]
    assert experiment["name"] == name
    assert all(table["rows"] for table in experiment["tables"])


OURS = "plain,standard,streaming,specextend,ngram,self,blend,magicdec,triforce"
MORE = ",naive,+flash,+hta,+streaming,+retrieval,transformers,transformers-prompt-lookup"


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize(("dtype", "methods"), [("float32", OURS + MORE), ("bfloat16", OURS)])
def test_every_method_equals_plain_decoding(dtype: str, methods: str) -> None:
    """In bfloat16 where our kernels are: they round a tree's nodes as they round plain decoding."""
    found = json.loads(
        bench("--methods", methods, "--len", "1k", "--docs", "1", "--tokens", "32", "--dtype", dtype, "--json")
    )
    assert len({tuple(record["tokens"]) for record in found["records"]}) == 1
    assert found["wrong"] == []
