"""What the command line imports with transformers, by the modules that are there afterwards."""

from __future__ import annotations

import subprocess
import sys

import pytest

from specextend_cli.cli import main as command
from specextend_cli.models import lean

IMPORTS = """
import sys
from specextend_cli.models import lean
from transformers.utils import import_utils
asked = import_utils.is_torch_distributed_available
lean.own_process = True
lean.import_transformers()
import specextend_cli.engine.decode, specextend_cli.engine.batch, specextend_cli.engine.drafters
from transformers import AutoModelForCausalLM, LlamaForCausalLM
assert import_utils.is_torch_distributed_available is asked
print(*sorted({"scipy", "torch.distributed.checkpoint"} & set(sys.modules)))
"""


def test_what_one_process_never_calls_is_not_imported() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "\n"), done.stderr


@pytest.mark.parametrize("entry", ["main", "run"])
def test_only_the_console_script_says_that_the_process_is_its_own(monkeypatch: pytest.MonkeyPatch, entry: str) -> None:
    monkeypatch.setattr(lean, "own_process", False)
    monkeypatch.setattr(sys, "argv", ["specextend", "--version"])
    if entry == "main":
        with pytest.raises(SystemExit):
            command.main()
    else:
        command.run(["--version"])
    assert lean.own_process == (entry == "main")
