"""Every family and every head as CUDA graphs, rehearsed: no host reads, no numbers or addresses that change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from specextend_cli.engine.attention.softmax import SoftmaxOptions
from specextend_cli.engine.attention.triton_tree import attend, pack
from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.cuda import graphs
from specextend_cli.engine.cuda.graph_check import use_checked_graphs
from specextend_cli.engine.cuda.graphs import use_graphs
from specextend_cli.engine.drafters import EagleDrafter
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.target import Target
from tests.engine.test_graphs import check_identity
from tests.engine.test_triton import interpreted
from tests.engine.tiny_heads import VARIANTS, tiny_head
from tests.engine.tiny_models import ARCHITECTURES, by_generate, prompt, tiny
from tests.helpers.decoding import DRAFTERS, run, small
from tests.helpers.grid import but_for
from tests.helpers.rehearsed_capture import CaptureError, Rehearsal

NEW, LENGTH = 16, 150
SHAPE = TreeShape(nodes=12, depth=3, width=3, threshold=0.0)


@pytest.fixture
def kernels_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of Triton's: the whole memory under a mask, which the device makes of the length."""

    def attend(
        q: Tensor, k: Tensor, v: Tensor, scale: float, *, words: Any, tree: int, length: Tensor, softmax: SoftmaxOptions
    ) -> Tensor:
        at = torch.arange(k.shape[2], device=q.device)
        slot = at - (length - tree)
        own = torch.ones(1, 1, dtype=torch.bool, device=q.device) if words is None else words
        seen = (slot < 0) | ((slot < tree) & own[:, slot.clamp(0, tree - 1)])
        keys, values = (torch.where((at < length)[:, None], rows, torch.zeros_like(rows)) for rows in (k, v))
        if softmax.is_plain:
            return torch.nn.functional.scaled_dot_product_attention(
                q, keys, values, attn_mask=seen, scale=scale, enable_gqa=True
            )
        keys, values = (rows.repeat_interleave(q.shape[1] // k.shape[1], 1) for rows in (keys, values))
        return softmax.weights(q @ keys.mT * scale, seen) @ values

    monkeypatch.setattr(graphs, "attend", attend)
    monkeypatch.setattr(graphs, "pack", Tensor.clone)


@pytest.mark.parametrize("drafter", but_for(("self",), ["none", "self"]))
@pytest.mark.parametrize("name", but_for(("phi3",), ARCHITECTURES))
def test_every_family(name: str, drafter: str, kernels_of_torch: None) -> None:
    lm, rehearsal = LanguageModel(tiny(name), backend="triton"), Rehearsal()
    use_graphs(lm, capture=rehearsal)
    target, retrieval = Target(lm), small("retrieval", positions="absolute")
    found = run(target, DRAFTERS[drafter](target, retrieval), prompt(LENGTH), retrieval, new=NEW, shape=SHAPE)[0]
    assert found == by_generate(NEW, LENGTH, name)
    assert rehearsal.replays > rehearsal.captures > 0


@pytest.mark.parametrize("name", but_for(("eagle3.1",), VARIANTS))
def test_every_head(name: str, kernels_of_torch: None) -> None:
    lm, head, of_target, of_head = LanguageModel(tiny(), backend="triton"), tiny_head(name), Rehearsal(), Rehearsal()
    use_graphs(lm, capture=of_target)
    head.forward_backend = graphs.GraphedHead(head.run_model, of_head)
    target, retrieval = Target(lm), small("retrieval")
    found = run(target, EagleDrafter(head, target, retrieval), prompt(LENGTH), retrieval, new=NEW, shape=SHAPE)[0]
    assert found == by_generate(NEW, LENGTH)
    for rehearsal in (of_target, of_head):
        assert rehearsal.replays > rehearsal.captures > 0


@pytest.mark.parametrize("name", but_for(("qwen3",), ARCHITECTURES))
def test_the_check_at_load_lets_every_family_pass(name: str, kernels_of_torch: None) -> None:
    lm, heads, rehearsal = LanguageModel(tiny(name), backend="triton"), [tiny_head()], Rehearsal()
    assert not use_checked_graphs(lm, heads, capture=rehearsal)
    assert lm.forward_backend is not None
    assert heads[0].forward_backend is not None
    assert rehearsal.captures == 2 + 3  # a token and a tree; of the head, two levels of a tree
    assert rehearsal.replays == 2 * rehearsal.captures


@interpreted
@pytest.mark.parametrize("drafter", ["none", "eagle3"])
def test_with_the_kernels_themselves(drafter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rehearsal = Rehearsal()
    monkeypatch.setattr(graphs, "attend", rehearsal.opaque(attend))
    monkeypatch.setattr(graphs, "pack", rehearsal.opaque(pack))
    check_identity("cpu", drafter, rehearsal, new=5, length=70)
    assert rehearsal.replays > rehearsal.captures > 0


class Changing:
    """Something outside a body that a graph would not see change."""

    def __init__(self) -> None:
        self.number, self.kept = 0, [torch.ones(3)]

    def counted(self, x: Tensor) -> Tensor:
        self.number += 1
        return x + self.number

    def moved(self, x: Tensor) -> Tensor:
        self.kept.append(torch.ones(3))
        return x + self.kept[-2]

    def branched(self, x: Tensor) -> Tensor:
        self.number += 1
        return x.exp() if self.number < 3 else x.exp().log()


READING: dict[str, Callable[[Tensor], Any]] = {
    "item": lambda x: x * x[0].item(),
    "a condition": lambda x: x if x[0] > 0 else -x,
    "tolist": lambda x: x + len(x.tolist()),
    "numpy": lambda x: x * float(x.numpy()[0]),
    "cpu": lambda x: x.cpu(),
    "to": lambda x: x.to("cpu"),
    "nonzero": lambda x: x.nonzero().float(),
    "where": lambda x: torch.where(x)[0].float(),
    "a Boolean index": lambda x: x[x > 0],
    "putting by a Boolean index": lambda x: x.clone().index_put_((x > 0,), x),
    "torch.tensor": lambda x: x + torch.tensor([1.0, 2.0, 3.0]),
    "unique": lambda x: x.unique(),
    "repeat_interleave": lambda x: x.repeat_interleave(x.long()),
}


@pytest.mark.parametrize("how", READING)
def test_host_reads_are_refused(how: str) -> None:
    x = torch.ones(3)
    with pytest.raises(CaptureError, match="the host"):
        Rehearsal()(lambda: READING[how](x), x.device)


@pytest.mark.parametrize(("how", "why"), [("counted", "was captured as"), ("branched", "operations were captured")])
def test_what_changes_between_replays_is_refused(how: str, why: str) -> None:
    x, changing = torch.ones(3), Changing()
    _, replay = Rehearsal()(lambda: getattr(changing, how)(x), x.device)
    with pytest.raises(CaptureError, match=why):
        replay()


def test_memory_that_outlives_a_capture_is_refused() -> None:
    x, changing = torch.ones(3), Changing()
    with pytest.raises(CaptureError, match="1 tensors outlive"):
        Rehearsal()(lambda: changing.moved(x), x.device)


def test_an_input_that_moves_is_refused() -> None:
    inputs = [torch.ones(3)]
    out, replay = Rehearsal()(lambda: inputs[0] + 1, torch.device("cpu"))
    inputs[0].fill_(4.0)
    replay()
    assert out.tolist() == [5.0] * 3
    inputs[0] = torch.ones(3)
    with pytest.raises(CaptureError, match="address"):
        replay()
