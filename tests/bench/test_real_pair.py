"""Every experiment on the embedded pair, at a small size. Minutes: run with -m slow."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from specextend_cli.bench import experiments
from specextend_cli.engine.native import CannotCompileError, Library
from specextend_cli.engine.native.compiler import compiler
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


@pytest.mark.parametrize("name", experiments.NAMES)
def test_experiments_run_on_the_embedded_pair(name: str) -> None:
    found = json.loads(bench("--experiment", name, "--len", "512,2k", "--docs", "1", "--tokens", "16", "--json"))
    assert found[0]["name"] == name
    assert all(table["rows"] for table in found[0]["tables"])


def test_every_method_equals_plain_decoding_in_float32() -> None:
    methods = (
        "plain,standard,streaming,specextend,ngram,self,blend,naive,+flash,+hta,+streaming,+retrieval,magicdec,triforce,"
        "rapid,transformers,transformers-prompt-lookup"
    )
    found = json.loads(
        bench("--methods", methods, "--len", "1k", "--docs", "1", "--tokens", "24", "--dtype", "float32", "--json")
    )
    assert len({tuple(record["tokens"]) for record in found["records"]}) == 1


def test_our_methods_in_bfloat16_where_our_kernels_are(tmp_path: Path) -> None:
    """Their attention and products round a tree's nodes as they round plain decoding."""
    try:
        Library.within(tmp_path)
        compiler()
    except CannotCompileError as error:
        pytest.skip(str(error))
    methods = "plain,standard,streaming,specextend,ngram,self,blend,magicdec,triforce,rapid"
    found = json.loads(bench("--methods", methods, "--len", "1k", "--docs", "2", "--tokens", "64", "--json"))
    for document in {record["document"] for record in found["records"]}:
        texts = {tuple(record["tokens"]) for record in found["records"] if record["document"] == document}
        assert len(texts) == 1
