"""Training runs where nothing is installed but torch, transformers, safetensors and numpy."""

from __future__ import annotations

import subprocess
import sys

BLOCKED = """
import sys
for name in ("pydantic", "pypdf", "pypdfium2", "platformdirs", "typer", "tiktoken", "psutil", "jinja2"):
    sys.modules[name] = None
import specextend_cli.train.distill, specextend_cli.engine.decode, specextend_cli.engine.drafters
"""


def test_training_and_engine_import_without_the_rest() -> None:
    done = subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
