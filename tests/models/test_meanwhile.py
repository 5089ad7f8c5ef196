"""What is imported meanwhile is there when it is asked for, and is no longer imported when nobody asks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HEAD = """
import sys, threading
sys.path.insert(0, sys.argv[1])
from specextend_cli.models.meanwhile import importing, wait
"""
WAITS = """
with importing("slow"):
    wait()
    print("slow" in sys.modules)
    import slow
    print(slow.whole)
with importing("slow.part0"):
    print(threading.active_count())
"""
LEAVES = """
with importing("slow"):
    while "slow.part0" not in sys.modules:
        pass
print("slow" in sys.modules, "slow.part19" in sys.modules, threading.active_count())
import json.tool  # which is not slow
"""
BROKEN = """
with importing("broken"):
    wait()
    try:
        import broken
    except ZeroDivisionError:
        print("said")
with importing("nowhere"):
    pass
"""


def run(program: str, modules: Path) -> str:
    package = modules / "slow"
    package.mkdir()
    (package / "__init__.py").write_text("".join(f"import slow.part{i}\n" for i in range(20)) + "whole = True\n")
    for i in range(20):
        (package / f"part{i}.py").write_text("import time\ntime.sleep(0.1)\n")
    (modules / "broken.py").write_text("1 / 0\n")
    command = [sys.executable, "-c", HEAD + program, str(modules)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_whoever_needs_it_waits_for_the_whole(tmp_path: Path) -> None:
    """What is there needs no thread."""
    assert run(WAITS, tmp_path) == "True\nTrue\n1\n"


def test_at_the_end_it_is_called_off(tmp_path: Path) -> None:
    assert run(LEAVES, tmp_path) == "False False 1\n"


def test_what_goes_wrong_is_said_to_whoever_imports_it(tmp_path: Path) -> None:
    assert run(BROKEN, tmp_path) == "said\n"
