"""Drafters by name."""

from __future__ import annotations

import subprocess
import sys

from specextend_cli.engine.registry import DRAFTERS


def test_the_registry_is_imported_without_torch() -> None:
    code = "import sys; from specextend_cli.engine.registry import DRAFTERS; print('torch' in sys.modules, *DRAFTERS)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert out == ["False", *DRAFTERS]
