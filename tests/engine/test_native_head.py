"""Heads that run natively: the stock head's logits, states and keys, and plain decoding's tokens."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor

from specextend_cli.engine.attention.split_kv import split_kv
from specextend_cli.engine.check import NotOursError
from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.drafters import EagleDrafter
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.native_runner import NativeRunner, use_natively
from specextend_cli.engine.packed import round_to_four_bit
from specextend_cli.engine.step import Step
from specextend_cli.engine.target import Target
from tests.engine.tiny_heads import VARIANTS, tiny_head
from tests.engine.tiny_models import by_generate, prompt, tiny
from tests.helpers.decoding import NEW, POLICIES, run, small

LONG = prompt(200)
SHAPE = TreeShape(nodes=12, depth=4, width=3, threshold=0.0)

pytestmark = pytest.mark.parametrize("kernels", ["ours", "avx2"], indirect=True, scope="module")


def four_bit(name: str = "eagle3-2-layers") -> EagleHead:
    """A tiny head of four bits a weight, in float32."""
    head = tiny_head(name, head_dim=32)
    round_to_four_bit(head)
    return head


@pytest.mark.parametrize("name", VARIANTS)
def test_native_forwards_equal_the_head_s_own(name: str, kernels: str) -> None:
    """A chain behind nothing, a row, a chain, and three rows of a tree: logits, states and keys are the stock head's.

    Then a chain whose states are the target's, with a mask and without; with norms before `fc`, the head fuses them.
    """
    torch.manual_seed(0)
    head = four_bit(name)
    use_natively(head, exact=True)
    config = head.config
    cached = torch.randn(2, config.layers, 1, config.kv_heads, 37, config.head_dim)
    features = torch.randn(3, len(config.feature_layers) * config.target_hidden)
    states, tokens = torch.randn(9, config.hidden), torch.randint(0, config.embedding, (9,))
    tree = torch.cat((torch.rand(3, 6) < 0.5, torch.eye(3, dtype=torch.bool)), 1)

    def chain(n: int) -> Tensor:
        return torch.ones(n, n, dtype=torch.bool).tril()

    @torch.inference_mode()
    def found() -> list[Tensor]:
        cache, out = head.new_cache(60), list[Tensor]()
        first = head.run(Step(tokens[:3], torch.arange(3), cache, backend=split_kv, states=states[:3]))
        assert first.state is not None
        out += [first.logits, first.state, cache.rows(0, 3)[0].clone()]
        cache.rollback()
        cache.append([cached])

        def forward(rows: Tensor, mask: Tensor | None, **given: Any) -> None:
            positions = torch.arange(40, 40 + len(rows))
            found = head.run(Step(rows, positions, cache, tree_mask=mask, backend=split_kv, **given))
            assert found.state is not None
            out.extend((found.logits, found.state, cache.rows(cache.start, cache.end)[0].clone()))

        forward(tokens[:1], None, states=states[:1])
        cache.rollback()  # a chain begins where rows are committed
        forward(tokens[1:6], chain(5), states=states[1:6], logits_to_keep=1)
        cache.buffers[0][..., cache.end, :] = 0.5
        cache.reserve(1)
        forward(tokens[6:], tree, states=states[6:])
        for mask in (None, chain(3)):
            cache.rollback()
            forward(tokens[:3], mask, features=features)
        return out

    assert isinstance(head.runner, NativeRunner)
    assert (head.runner.decoder.fused is None) == (config.generation == 1 or config.fc_norm or config.norm_before_fc)
    ours = found()
    assert all(map(torch.equal, ours[-6:-3], ours[-3:]))
    head.runner = head.stock
    for mine, stock in zip(ours, found(), strict=True):
        torch.testing.assert_close(mine, stock, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_native_head_is_lossless(policy: str, kernels: str) -> None:
    """Its own modules are not called."""
    target, head, retrieval = Target(LanguageModel(tiny())), four_bit(), small(policy)
    use_natively(head, exact=True)
    head.run_modules = Mock(side_effect=AssertionError)  # type: ignore[method-assign]
    drafter = EagleDrafter(head, target, retrieval)
    assert run(target, drafter, LONG, retrieval, shape=SHAPE)[0] == by_generate(NEW, 200)


def test_what_cannot_run_natively_is_refused(kernels: str) -> None:
    with pytest.raises(NotOursError, match="heads"):
        use_natively(tiny_head("eagle3"))
    other = four_bit()
    other.layers[0].mlp.act_fn = torch.nn.GELU()
    with pytest.raises(NotOursError, match="SiLU"):
        use_natively(other)
    assert other.runner is other.stock
