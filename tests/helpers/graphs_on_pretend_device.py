"""CUDA graphs on the pretend device, wherever the program captures them itself."""

from __future__ import annotations

from functools import partial

import pytest

from specextend_cli.engine.cuda import fused, graph_check
from tests.helpers.pretend_device import Pretend
from tests.helpers.repeated_capture import Repeated
from tests.helpers.torch_kernels import replace_attention, replace_kernels


def by_graphs(monkeypatch: pytest.MonkeyPatch) -> Repeated:
    """Let models that are loaded onto the device replay what this captures, with fused layers."""
    capture = Repeated()
    replace_attention(monkeypatch)
    replace_kernels(monkeypatch)
    monkeypatch.setattr(fused, "Tensor", Pretend)  # whose weights are plain here
    monkeypatch.setattr(graph_check, "use_checked_graphs", partial(graph_check.use_checked_graphs, capture=capture))
    monkeypatch.delenv("SPECEXTEND_GRAPHS", raising=False)
    return capture
