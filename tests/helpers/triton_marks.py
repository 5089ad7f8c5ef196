"""Where tests of Triton's kernels run: in its interpreter, on a GPU, or not."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from importlib import metadata
from typing import Any, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., Any])


def _installed() -> str:
    try:
        return metadata.version("triton")  # to import it takes most of a second
    except metadata.PackageNotFoundError:
        return "0.0"


INTERPRETING = os.environ.get("TRITON_INTERPRET") == "1"
TRITON = tuple(int(part) for part in re.findall(r"\d+", _installed())[:2])
INTERPRETER = "test_triton.py::test_in_the_interpreter"
INTERPRETED = f"runs in a process of its own: {INTERPRETER}"
_in_the_interpreter = pytest.mark.skipif(not INTERPRETING, reason=INTERPRETED)
on_gpu = [pytest.mark.gpu, pytest.mark.skipif(TRITON < (3, 2) or INTERPRETING, reason="needs triton on a GPU")]
devices = pytest.mark.parametrize(
    "device", [pytest.param("cpu", marks=[pytest.mark.full, _in_the_interpreter]), pytest.param("cuda", marks=on_gpu)]
)


def interpreted(test: Test) -> Test:
    """Mark a test that runs in the interpreter only, where a kernel takes seconds."""
    return pytest.mark.full(_in_the_interpreter(test))
