"""Where tests of Triton's kernels run: in its interpreter, on a GPU, or not."""

from __future__ import annotations

import os
import re

import pytest

try:
    import triton
except ImportError:
    triton = None

INTERPRETING = os.environ.get("TRITON_INTERPRET") == "1"
TRITON = tuple(int(part) for part in re.findall(r"\d+", getattr(triton, "__version__", "0.0"))[:2])
interpreted = pytest.mark.skipif(not INTERPRETING, reason="runs in a process of its own: test_in_the_interpreter")
on_gpu = [pytest.mark.gpu, pytest.mark.skipif(TRITON < (3, 2) or INTERPRETING, reason="needs triton on a GPU")]
devices = pytest.mark.parametrize(
    "device", [pytest.param("cpu", marks=interpreted), pytest.param("cuda", marks=on_gpu)]
)
