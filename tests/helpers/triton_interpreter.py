"""What Triton's interpreter lacks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


def multiply_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let it multiply numbers in bfloat16: widened before, as a GPU adds up their products in float32."""
    import triton.language as tl
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    multiply = InterpreterBuilder.create_dot

    def widened(matrix: Any) -> Any:
        if matrix.dtype.scalar.name != "bf16":
            return matrix
        return TensorHandle((matrix.data.astype(np.uint32) << 16).view(np.float32), tl.float32)

    def create_dot(self: Any, a: Any, b: Any, *more: Any) -> Any:
        return multiply(self, widened(a), widened(b), *more)

    monkeypatch.setattr(InterpreterBuilder, "create_dot", create_dot)
