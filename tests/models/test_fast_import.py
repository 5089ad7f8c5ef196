"""What the command line imports with transformers, by the modules that are there afterwards."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from specextend_cli.cli import main as command
from specextend_cli.models import fast_import
from tests.engine.tiny_models import tiny
from tests.helpers.published_heads import safeailab_3

IMPORTS = """
import sys
from specextend_cli.models import fast_import
from transformers.utils import import_utils
asked = import_utils.is_torch_distributed_available
fast_import.own_process = True
fast_import.import_transformers()
import specextend_cli.engine.decode, specextend_cli.engine.batch, specextend_cli.engine.drafters
from transformers import AutoModelForCausalLM, LlamaForCausalLM
assert import_utils.is_torch_distributed_available is asked
from pathlib import Path
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.models.heads import load_head
from specextend_cli.models.load import load_model
load_head(Path(sys.argv[2]), LanguageModel(load_model(Path(sys.argv[1]))))
print(*sorted({"scipy", "sympy", "torch._dynamo", "torch.distributed.checkpoint"} & set(sys.modules)))
"""


MODULE = """
import sys
import torch
from specextend_cli.models import fast_import
fast_import.own_process, fast_import._NEEDED = True, {"needy"}
fast_import.import_transformers()
import needy
import torch._dynamo
assert torch._dynamo is needy.compiler is not None
assert torch._dynamo.disable is not fast_import._as_is
assert torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2)).tolist() == [2, 2]
"""


def test_what_one_process_never_calls_is_not_imported(tmp_path: Path) -> None:
    """By importing transformers, or by loading a target and a head."""
    tiny().save_pretrained(tmp_path / "target")
    (tmp_path / "head").mkdir()
    safeailab_3(tmp_path / "head")
    command = [sys.executable, "-c", IMPORTS, str(tmp_path / "target"), str(tmp_path / "head")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "\n"), done.stderr


@pytest.mark.full
@pytest.mark.parametrize("needed", ["_dynamo.config", "_dynamo.utils"])
def test_torchs_compiler_is_whole_for_whoever_wants_it(needed: str, tmp_path: Path) -> None:
    (tmp_path / "needy.py").write_text(f"import torch.{needed}\ncompiler = torch._dynamo\ncompiler.config.verbose\n")
    done = subprocess.run([sys.executable, "-c", MODULE], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_only_the_console_script_says_that_the_process_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_import, "own_process", False)
    monkeypatch.setattr(sys, "argv", ["specextend", "--version"])
    command.run(["--version"])
    assert not fast_import.own_process
    with pytest.raises(SystemExit):
        command.main()
    assert fast_import.own_process
