"""CUDA graphs of every family and head, rehearsed: no host reads, no numbers or addresses that change, few launches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import wraps
from itertools import count
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from specextend_cli.engine.batch import BatchRequest
from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.cuda import draft_graphs, graphs, ops
from specextend_cli.engine.cuda.fused import FusedBody
from specextend_cli.engine.cuda.graph_check import use_checked_graphs
from specextend_cli.engine.cuda.graphs import TREE_BUCKETS
from specextend_cli.engine.cuda.stock import StockBody
from specextend_cli.engine.drafters import Drafter, EagleDrafter, NgramDrafter
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
from tests.engine.tiny_heads import VARIANTS, tiny_head
from tests.engine.tiny_models import CONFIGS, RECURRENT, by_generate, generate, make, prompt, tiny
from tests.helpers.decoding import DRAFTERS, decode_together, run, small
from tests.helpers.graph_identity import check_identity, use_few_graphs
from tests.helpers.grid import but_for, grid
from tests.helpers.rehearsed_capture import CaptureError, Rehearsal
from tests.helpers.repeated_capture import Repeated, only_stock_layers
from tests.helpers.torch_kernels import replace_kernels
from tests.helpers.triton_marks import interpreted

NEW, LENGTH = 10, 100
SHAPE = TreeShape(nodes=12, depth=3, width=3, threshold=0.0)
FUSED = {
    *("llama", "llama-mha", "llama3-rope", "yarn", "linear-rope"),
    *("qwen2", "qwen3", "mistral", "smollm3", "granite"),
    *("qwen2-window", "mistral-window", "ministral"),
}
"""Families of which the fused forward takes the place of transformers' layers."""
STOCK = sorted({*CONFIGS} - FUSED)
"""Those that run by graphs of transformers' layers."""
QUICK = [("llama", "fused"), ("lfm2", "stock"), ("gpt-oss", "stock")]


def rehearsed(rehearsal: Rehearsal, monkeypatch: pytest.MonkeyPatch, layers: str) -> None:
    """Let kernels be single operations, and models be captured with the `layers`; for some sizes only.

    Every operation of a capture is compared in Python. All sizes are captured in `test_graphs`.
    """
    replace_kernels(monkeypatch, rehearsal.opaque)
    monkeypatch.setattr(graphs, "TREE_BUCKETS", (12, 1))
    monkeypatch.setattr(draft_graphs, "PENDING_BUCKETS", (16, 1))
    if layers == "stock":
        only_stock_layers(monkeypatch)


def written(target: Target, drafter: Drafter, **changes: str) -> list[int]:
    return run(target, drafter, prompt(LENGTH), small("retrieval", **changes), new=NEW, shape=SHAPE)[0]


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        pytest.param(name, layers, marks=() if (name, layers) in QUICK else pytest.mark.full)
        for name in sorted((*FUSED, *STOCK))
        for layers in (("fused", "stock") if name in FUSED else ("stock",))
    ],
)
def test_every_family(name: str, layers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone, in a batch, and as its own draft, which is one graph for each level; with recurrent layers, none."""
    rehearsal = Rehearsal()
    rehearsed(rehearsal, monkeypatch, layers if name in FUSED else "as they are")
    lm = LanguageModel(tiny(name), backend="triton")
    target = Target(lm)
    made = DRAFTERS["ngram" if name in RECURRENT else "self"](target, small("retrieval", positions="absolute"))
    refused = use_checked_graphs(target, made, SHAPE, batch=3, capture=rehearsal)
    expected = {"the model keeps transformers' layers"} if layers == "stock" else set()
    assert set(refused) == expected
    backend: Any = lm.runner
    assert type(backend.body) is (StockBody if layers == "stock" else FusedBody)
    assert (backend.drafts is None) == (name in RECURRENT)
    captures = rehearsal.captures
    for drafter in (NgramDrafter(), made):
        rehearsal.replays = 0
        assert written(target, drafter, positions="absolute") == by_generate(NEW, LENGTH, name)
        assert rehearsal.replays >= 4
    rehearsal.replays, texts = 0, [prompt(60, seed=length)[:length] for length in (30, 9, 18)]
    requests = [BatchRequest(text, Stop(6 + number)) for number, text in enumerate(texts)]
    expected_texts = [generate(tiny(name), text, 6 + number) for number, text in enumerate(texts)]
    assert decode_together(lm, requests, 3) == expected_texts
    assert rehearsal.replays >= 7
    assert rehearsal.captures == captures


@pytest.mark.parametrize("layers", but_for(("fused",), ["fused", "stock"]))
@pytest.mark.parametrize("name", but_for(("eagle3.1",), VARIANTS))
def test_every_head(name: str, layers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole drafts, and trees that are grown level by level."""
    rehearsal = Rehearsal()
    rehearsed(rehearsal, monkeypatch, layers)
    target, head = Target(LanguageModel(tiny(), backend="triton")), tiny_head(name)
    made = EagleDrafter(head, target, small("retrieval"))
    refused = use_checked_graphs(target, made, SHAPE, capture=rehearsal)
    kept = {f"{name} keeps transformers' layers" for name in ("the model", "the draft head")}
    assert set(refused) == (kept if layers == "stock" else set()), refused
    backend: Any = head.runner
    assert type(backend.body) is (StockBody if layers == "stock" else FusedBody)
    captures = rehearsal.captures
    for drafts in (backend.drafts, None):
        assert drafts is None or backend.drafts is not None
        backend.drafts, rehearsal.replays = drafts, 0
        assert written(target, made) == by_generate(NEW, LENGTH)
        assert rehearsal.replays > 20
    assert rehearsal.captures == captures


OURS = ("add_norm", "rope_and_store", "store", "gated", "attend", "first_keys", "best", "advance")
KERNELS = [(ops, name) for name in (*OURS, "convolution_inputs", "recur")]


@interpreted
@pytest.mark.parametrize(("drafter", "name"), [("eagle3", "llama"), ("self", "ministral"), ("random", "qwen3.5")])
def test_with_the_kernels_themselves(drafter: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use_few_graphs(monkeypatch)
    rehearsal = Rehearsal()
    for module, kernel in KERNELS:
        monkeypatch.setattr(module, kernel, rehearsal.opaque(getattr(module, kernel)))
    check_identity("cpu", drafter, rehearsal, new=4, length=40, name=name, positions="compact")
    assert rehearsal.replays > rehearsal.captures > 0


READING: dict[str, Callable[[Tensor], Any]] = {
    "item": lambda x: x * x[0].item(),
    "tolist": lambda x: x + len(x.tolist()),
    "to": lambda x: x.to("cpu"),
    "nonzero": lambda x: x.nonzero().float(),
    "a Boolean index": lambda x: x[x > 0],
    "putting by a Boolean index": lambda x: x.clone().index_put_((x > 0,), x),
    "torch.tensor": lambda x: x + torch.tensor([1.0, 2.0, 3.0]),
    "repeat_interleave": lambda x: x.repeat_interleave(x.long()),
}


@pytest.mark.parametrize("how", READING)
def test_host_reads_are_refused(how: str) -> None:
    x = torch.ones(3)
    with pytest.raises(CaptureError, match="the host"):
        Rehearsal()(lambda: READING[how](x), x.device)


def test_what_changes_between_replays_is_refused() -> None:
    """A number, or where an input lies."""
    inputs, numbers = [torch.ones(3)], count()
    _, replay = Rehearsal()(lambda: inputs[0] + next(numbers), inputs[0].device)
    with pytest.raises(CaptureError, match="was captured as"):
        replay()
    out, replay = Rehearsal()(lambda: inputs[0] + 1, inputs[0].device)
    inputs[0].fill_(4.0)
    replay()
    assert out.tolist() == [5.0] * 3
    inputs[0] = torch.ones(3)
    with pytest.raises(CaptureError, match="address"):
        replay()


MOST = 12
"""Launches of a fused layer: 4 products of matrices, and what stands between them."""
OF_LLAMA = 9
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


@grid(name=["llama", "qwen2", "qwen3", "mistral-window", "granite"], nodes=[1, 8])
def test_fused_layers(launches: Launches, name: str, nodes: int) -> None:
    """What another layer adds to a tree's forward."""
    bodies = []
    for layers in (2, 3):
        config = CONFIGS[name]()
        config.num_hidden_layers = layers
        assert not prepared(launches, Target(LanguageModel(make(config), backend="triton")))
        bodies.append(launches.bodies[TREE_BUCKETS.index(nodes) - len(TREE_BUCKETS)])
    found = added(bodies[1], bodies[0])
    assert found.total() <= (OF_LLAMA if name == "llama" else MOST), found
    assert sum(found[kind] for kind in ("aten.mm.default", "aten.addmm.default", "aten.linear.default")) == 4, found
    assert found["attend"] == found["rope_and_store"] == found["gated"] == 1
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
