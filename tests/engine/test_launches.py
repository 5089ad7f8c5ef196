"""How many kernels a captured forward launches for each layer, and a draft for each level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest
import torch
import transformers
from torch.utils._python_dispatch import TorchDispatchMode

from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.cuda.graph_check import use_checked_graphs
from specextend_cli.engine.cuda.graphs import TREE_BUCKETS
from specextend_cli.engine.drafters import Drafter, EagleDrafter
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.target import Target
from tests.engine.tiny_heads import tiny_head
from tests.engine.tiny_models import COMMON, MULTIPLIERS, make, tiny
from tests.helpers.decoding import small
from tests.helpers.grid import grid
from tests.helpers.repeated_capture import Repeated, only_stock_layers
from tests.helpers.torch_kernels import replace_kernels

SHAPE = TreeShape(nodes=12, depth=3, width=3, threshold=0.0)
MODELS: dict[str, Callable[..., Any]] = {
    "llama": transformers.LlamaConfig,
    "qwen2": transformers.Qwen2Config,
    "qwen3": transformers.Qwen3Config,
    "mistral": lambda **sizes: transformers.MistralConfig(**sizes, sliding_window=16),
    "granite": lambda **sizes: transformers.GraniteConfig(**sizes, **MULTIPLIERS),
}
MOST = 12
"""Launches of a fused layer: 4 products of matrices, and what stands between them."""
FUSED = 9
"""The table in docs/performance.md: of a Llama's."""

_aten = torch.ops.aten
_LAUNCHES_NOTHING = {_aten.empty, _aten.empty_like, _aten.new_empty, _aten.empty_strided, _aten._unsafe_view}


class Launches(TorchDispatchMode):
    """A `Capture` that counts, for each captured function, what launches a kernel; ours count as one each."""

    def __init__(self) -> None:
        super().__init__()
        self.capture = Repeated()
        self.found: Counter[str] = Counter()
        self.bodies: list[Counter[str]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not (func.is_view or func.overloadpacket in _LAUNCHES_NOTHING):
            self.found[str(func)] += 1
        return func(*args, **kwargs or {})

    def __call__(self, body: Callable[[], Any], device: torch.device) -> tuple[Any, Callable[[], None]]:
        self.found = Counter()
        with self:
            body()
        self.bodies.append(self.found.copy())  # our kernels go on counting
        return self.capture(body, device)

    def of_kernel(self, kernel: Callable[..., Any]) -> Callable[..., Any]:
        """The kernel as one launch: it hides what it does from modes."""

        @wraps(kernel)
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.found[kernel.__name__] += 1
            return kernel(*args, **kwargs)

        return counted


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> Launches:
    counting = Launches()
    replace_kernels(monkeypatch, counting.of_kernel)
    return counting


def prepared(launches: Launches, target: Target, drafter: Drafter | None = None) -> set[str]:
    launches.bodies.clear()
    return set(use_checked_graphs(target, drafter, None if drafter is None else SHAPE, capture=launches))


def added(larger: Counter[str], smaller: Counter[str]) -> Counter[str]:
    """What one has more; nothing is fewer."""
    assert not smaller - larger
    return larger - smaller


@grid(name=MODELS, nodes=[1, 8])
def test_fused_layers(launches: Launches, name: str, nodes: int) -> None:
    """What another layer adds to a tree's forward."""
    bodies = []
    for layers in (2, 3):
        model = make(MODELS[name](**{**COMMON, "num_hidden_layers": layers}))
        assert not prepared(launches, Target(LanguageModel(model, backend="triton")))
        bodies.append(launches.bodies[TREE_BUCKETS.index(nodes) - len(TREE_BUCKETS)])
    found = added(bodies[1], bodies[0])
    assert found.total() <= (FUSED if name == "llama" else MOST), found
    assert sum(found[kind] for kind in ("aten.mm.default", "aten.addmm.default", "aten.linear.default")) == 4, found
    assert found["attend_at"] == found["rope_and_store"] == found["gated"] == 1
    assert found["add_norm"] == 2


LEVEL = 16
"""The table in docs/performance.md: operations of a level of an EAGLE-3 head's tree."""


def test_operations_of_a_level(launches: Launches, monkeypatch: pytest.MonkeyPatch) -> None:
    target, totals = Target(LanguageModel(tiny(), backend="triton")), []
    for prepare in (lambda: None, lambda: only_stock_layers(monkeypatch)):
        prepare()
        prepared(launches, target, EagleDrafter(tiny_head("eagle3"), target, small("full")))
        *_, two, one, none = launches.bodies  # levels after the first, which is the root's children
        assert added(two, one) == added(one, none)
        totals.append(added(one, none).total())
    assert totals[0] == LEVEL
    assert totals[1] > 2 * LEVEL
