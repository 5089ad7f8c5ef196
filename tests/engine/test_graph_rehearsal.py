"""Every family and every head as CUDA graphs, rehearsed: no host reads, no numbers or addresses that change."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
import torch
from torch import Tensor

from specextend_cli.engine.batch import BatchRequest, decode_batch
from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.cuda import draft_graphs, graphs, ops
from specextend_cli.engine.cuda.fused import FusedBody
from specextend_cli.engine.cuda.graph_check import use_checked_graphs
from specextend_cli.engine.cuda.stock import StockBody
from specextend_cli.engine.drafters import Drafter, EagleDrafter, NgramDrafter
from specextend_cli.engine.events import Accepted
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
from tests.engine.tiny_heads import VARIANTS, tiny_head
from tests.engine.tiny_models import ARCHITECTURES, FAMILIES, RECURRENT, by_generate, generate, prompt, tiny
from tests.helpers.decoding import DRAFTERS, run, small
from tests.helpers.graph_identity import check_identity, use_few_graphs
from tests.helpers.grid import but_for
from tests.helpers.rehearsed_capture import CaptureError, Rehearsal
from tests.helpers.repeated_capture import only_stock_layers
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
STOCK = sorted({*ARCHITECTURES, *FAMILIES} - FUSED)
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
    rehearsal.replays, lengths, tokens = 0, (30, 9, 18), [list[int](), list[int](), list[int]()]
    texts = [prompt(60, seed=n)[:n] for n in lengths]
    requests = [BatchRequest(text, Stop(6 + number)) for number, text in enumerate(texts)]
    for number, event in decode_batch(lm, requests, slots=3):
        tokens[number].extend(event.tokens if isinstance(event, Accepted) else ())
    assert tokens == [generate(tiny(name), text, 6 + number) for number, text in enumerate(texts)]
    assert rehearsal.replays == 7
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


OURS = ("add_norm", "rope_and_store", "store", "gated", "attend_at", "first_keys", "best", "advance")
KERNELS = [(ops, name) for name in (*OURS, "convolution_inputs", "recur")]


@interpreted
@pytest.mark.parametrize(("drafter", "name"), [("eagle3", "llama"), ("self", "ministral"), ("random", "qwen3.5")])
def test_with_the_kernels_themselves(drafter: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drafts of ministral's count the positions of a window's keys, between which there are gaps."""
    use_few_graphs(monkeypatch)
    rehearsal = Rehearsal()
    for module, kernel in KERNELS:
        monkeypatch.setattr(module, kernel, rehearsal.opaque(getattr(module, kernel)))
    positions = "absolute" if name == "ministral" else "compact"
    check_identity("cpu", drafter, rehearsal, new=4, length=40, name=name, positions=positions)
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
    x, numbers = torch.ones(3), count()
    _, replay = Rehearsal()(lambda: x + next(numbers), x.device)
    with pytest.raises(CaptureError, match="was captured as"):
        replay()


def test_an_input_that_moves_is_refused() -> None:
    inputs = [torch.ones(3)]
    out, replay = Rehearsal()(lambda: inputs[0] + 1, torch.device("cpu"))
    inputs[0].fill_(4.0)
    replay()
    assert out.tolist() == [5.0] * 3
    inputs[0] = torch.ones(3)
    with pytest.raises(CaptureError, match="address"):
        replay()
