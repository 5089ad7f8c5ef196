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
from specextend_cli.engine.drafters import Drafter, EagleDrafter, LMDrafter
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.target import Target
from tests.engine.tiny_heads import tiny_head
from tests.engine.tiny_models import COMMON, MULTIPLIERS, make, tiny
from tests.helpers.decoding import small
from tests.helpers.grid import but_for, grid
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
FEWEST = 35
"""Of transformers' layers."""

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


def of_a_layer(launches: Launches, name: str, nodes: int) -> tuple[Counter[str], set[str]]:
    """What another layer adds to a tree's forward, and what was refused."""
    found = []
    for layers in (2, 3):
        model = make(MODELS[name](**{**COMMON, "num_hidden_layers": layers}))
        refused = prepared(launches, Target(LanguageModel(model, backend="triton")))
        found.append(launches.bodies[TREE_BUCKETS.index(nodes) - len(TREE_BUCKETS)])
    return added(found[1], found[0]), refused


@grid(name=MODELS, nodes=[1, 8])
def test_fused_layers(launches: Launches, name: str, nodes: int) -> None:
    found, refused = of_a_layer(launches, name, nodes)
    assert not refused
    assert found.total() <= MOST, found
    assert sum(found[kind] for kind in ("aten.mm.default", "aten.addmm.default", "aten.linear.default")) == 4, found
    assert found["attend_placed"] == found["rope_and_store"] == found["gated"] == 1
    assert found["add_norm"] == 2


@pytest.mark.parametrize("name", but_for(list(MODELS)[:1], MODELS))
def test_transformers_layers(launches: Launches, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The count can fail: it sees all that they launch."""
    only_stock_layers(monkeypatch)
    found, refused = of_a_layer(launches, name, 8)
    assert refused == {"the model keeps transformers' layers"}
    assert found.total() >= FEWEST, found


@pytest.mark.parametrize("name", ["eagle1", "eagle3"])
def test_fused_heads(launches: Launches, name: str) -> None:
    target, found = Target(LanguageModel(tiny(), backend="triton")), []
    for layers in (1, 2):
        drafter = EagleDrafter(tiny_head(name, layers=layers), target, small("full"))
        assert not prepared(launches, target, drafter)
        level = added(*launches.bodies[-2:])
        step = launches.bodies[2 * len(TREE_BUCKETS) - 1 - TREE_BUCKETS[::-1].index(4)]
        # The next level is chosen by two operations, of which one launches two kernels; its states are moved.
        assert added(level, step) == {"best": 1, "advance": 1, "aten.index_select.out": 1}
        found.append(step)
    assert added(*found[::-1]).total() <= MOST


def test_levels_of_a_language_model(launches: Launches) -> None:
    target = Target(LanguageModel(tiny(), backend="triton"))
    drafter = LMDrafter(target.lm, target, small("full"))
    assert not prepared(launches, target, drafter)
    level = added(*launches.bodies[-2:])
    assert added(level, launches.bodies[TREE_BUCKETS.index(4)]) == {"best": 1, "advance": 1}


STEPS = {"plain": 1, "eight nodes": 8, "sixty nodes": 64}
"""Rows of the graph."""
FUSED, BESIDE, LEVEL = 9, 3, 16
"""The table in docs/performance.md: operations of a fused layer, of none, and of a level of an EAGLE-3 head's tree."""


def of_a_step(launches: Launches, nodes: int) -> tuple[int, int]:
    """Of a Llama's step by its rows: the operations of another layer, and those of none."""
    found = []
    for layers in (2, 3):
        model = make(transformers.LlamaConfig(**{**COMMON, "num_hidden_layers": layers}))
        prepared(launches, Target(LanguageModel(model, backend="triton")))
        found.append(launches.bodies[TREE_BUCKETS.index(nodes) - len(TREE_BUCKETS)].total())
    return found[1] - found[0], found[0] - 2 * (found[1] - found[0])


@pytest.mark.parametrize("step", but_for(("sixty nodes",), STEPS))
def test_operations_of_a_step(launches: Launches, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before: transformers' layers, whose number depends on its version."""
    assert of_a_step(launches, STEPS[step]) == (FUSED, BESIDE)
    only_stock_layers(monkeypatch)
    layer, beside = of_a_step(launches, STEPS[step])
    assert layer >= FEWEST
    assert beside > BESIDE


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
