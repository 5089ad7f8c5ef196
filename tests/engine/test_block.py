"""Block heads: the formulas of DFlash and DSpark, written out here; trees against an enumeration of all paths."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from specextend_cli.engine.attention_backends import backend_for
from specextend_cli.engine.block_head import BlockHead
from specextend_cli.engine.config import Retrieval, TreeShape
from specextend_cli.engine.drafters import BlockDrafter
from specextend_cli.engine.drafters.block import block_tree
from specextend_cli.engine.forward import HeadOutput
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.target import Target
from specextend_cli.engine.tree import DraftTree, root
from specextend_cli.errors import ModelError
from tests.engine.tiny_blocks import VARIANTS, tiny_block
from tests.engine.tiny_models import by_generate, prompt, tiny
from tests.helpers.decoding import NEW, POLICIES, prefill_in_pieces, run, small

CHAIN = TreeShape(nodes=6, depth=5, width=1, threshold=0.0)
Path = tuple[int, ...]


class Plain:
    """A head recomputed from its tensors by name, in double precision, the context anew at every step.

    A layer projects the fused states to keys and values as they are, and the block's rows after its norm. Queries and
    keys are normed by head and turned by their positions; a row sees the context (the newest `window` positions, where
    the layer has a window) and its whole block, or of the block, if the layer is causal, the rows up to itself.
    """

    def __init__(self, head: BlockHead) -> None:
        self.w = {name: tensor.double() for name, tensor in head.state_dict().items()}
        self.c = head.config

    def norm(self, x: Tensor, name: str) -> Tensor:
        return x / (x.pow(2).mean(-1, keepdim=True) + self.c.eps).sqrt() * self.w[f"{name}.weight"]

    def linear(self, x: Tensor, name: str) -> Tensor:
        bias = self.w.get(f"{name}.bias")
        return x @ self.w[f"{name}.weight"].T + (0 if bias is None else bias)

    def turn(self, x: Tensor, positions: Tensor) -> Tensor:
        """[n, heads, d]: dimension j and j + d/2 are one complex number."""
        half = self.c.head_dim // 2
        angle = self.c.rope["rope_theta"] ** (-torch.arange(half).double() / half)
        turned = torch.complex(x[..., :half], x[..., half:]) * torch.polar(
            torch.ones(len(x), 1, half).double(), positions.double()[:, None, None] * angle
        )
        return torch.cat((turned.real, turned.imag), -1)

    def sees(self, layer: int, known: int) -> Tensor:
        """[block, known + block] bool."""
        rows, window = self.c.block, self.c.windows[layer]
        mask = torch.zeros(rows, known + rows, dtype=torch.bool)
        for row, key in product(range(rows), range(known + rows)):
            inside = key <= known + row or not self.c.is_causal[layer]
            # Without causality, windows are counted from the block's first row.
            newest = known + (row if self.c.is_causal[layer] else 0)
            mask[row, key] = inside and (window is None or key > newest - window - (not self.c.is_causal[layer]))
        return mask

    def attention(self, x: Tensor, context: Tensor, layer: int) -> Tensor:
        c, name, known = self.c, f"layers.{layer}.self_attn", len(context)
        at = torch.arange(known + len(x))
        q = self.linear(x, f"{name}.q_proj").reshape(len(x), c.heads, -1)
        q = self.turn(self.norm(q, f"{name}.q_norm"), at[known:])
        both = torch.cat((context, x))
        k, v = (self.linear(both, f"{name}.{part}_proj").reshape(len(both), c.kv_heads, -1) for part in "kv")
        k = self.turn(self.norm(k, f"{name}.k_norm"), at)
        k, v = (t.repeat_interleave(c.heads // c.kv_heads, 1) for t in (k, v))
        scores = torch.einsum("ihd,jhd->hij", q, k) / c.head_dim**0.5
        scores = scores.masked_fill(~self.sees(layer, known), -torch.inf).softmax(-1)
        return self.linear(torch.einsum("hij,jhd->ihd", scores, v).reshape(len(x), -1), f"{name}.o_proj")

    def run(self, features: Tensor, last: int) -> tuple[Tensor, Tensor]:
        """Logits before a Markov head, and final states, of the rows that predict."""
        c = self.c
        context = self.norm(self.linear(features.double(), "fc"), "hidden_norm")
        x = self.w["embedding.weight"][[last] + [c.mask_token] * (c.block - 1)]
        for layer in range(c.layers):
            name = f"layers.{layer}"
            x = x + self.attention(self.norm(x, f"{name}.input_layernorm"), context, layer)
            y = self.norm(x, f"{name}.post_attention_layernorm")
            gate, up = (self.linear(y, f"{name}.mlp.{part}_proj") for part in ("gate", "up"))
            x = x + self.linear(nn.functional.silu(gate) * up, f"{name}.mlp.down_proj")
        states = self.norm(x, "norm")[not c.predicts_next :]
        return self.linear(states, "lm_head"), states

    def shares(self, logits: Tensor, states: Tensor, path: Path) -> Tensor:
        """The probabilities [draft vocabulary] of the token after `path`, which begins with the last token."""
        c, state = self.c, torch.zeros(self.c.markov_rank).double()
        out, embedded = logits[0], torch.empty(0)
        for depth, before in enumerate(path):
            out = logits[depth]
            if c.markov is not None:
                embedded = factor = self.w["markov_head.markov_w1.weight"][before]
                if c.markov == "gated":
                    joint = torch.cat((states[depth], embedded))
                    factor = self.linear(joint, "markov_head.gate_proj").sigmoid() * embedded
                elif c.markov == "rnn":
                    joint = self.linear(torch.cat((state, embedded, states[depth])), "markov_head.joint_proj")
                    gate, candidate, tail = joint.chunk(3)
                    state = gate.sigmoid() * state + (1 - gate.sigmoid()) * candidate.tanh()
                    factor = tail.tanh()
                out = out + self.linear(factor, "markov_head.markov_w2")
        shares = out.softmax(-1)
        if c.confidence:
            joint = torch.cat((states[len(path) - 1], embedded)) if c.confidence_reads_token else states[len(path) - 1]
            shares = shares * self.linear(joint, "confidence_head.proj").sigmoid()
        return shares


def block(head: BlockHead, features: Tensor, last: int, pieces: tuple[int, ...] = ()) -> HeadOutput:
    """What the head proposes; of the context, `pieces` are remembered ahead."""
    backend, rows = backend_for(features.device, "reference"), head.config.block
    cache, context = head.new_cache(len(features) + rows), head.fuse(features)
    at = 0
    for size in pieces:
        cache.reserve(size)
        head.remember(context[at : at + size], torch.arange(at, at + size), cache)
        cache.commit()
        at += size
    cache.reserve(len(features) - at + rows)
    positions = torch.arange(at, len(features) + rows)
    return head(torch.tensor([last]), context[at:], positions, cache, backend, depth=head.config.depth)


@pytest.mark.parametrize("name", VARIANTS)
@torch.inference_mode()
def test_logits_and_states_are_those_of_the_formulas(name: str) -> None:
    head = tiny_block(name)
    features = torch.randn(43, 3 * 64)
    logits, states = Plain(head).run(features, 7)
    for pieces in ((), (43,), (30, 9)):
        out = block(head, features, 7, pieces)
        assert torch.allclose(out.logits.double(), logits, atol=1e-4)
        assert torch.allclose(out.states.double(), states, atol=1e-4)


def paths(tree: DraftTree) -> dict[Path, float]:
    """The scores of a tree's nodes by their tokens, the root's first."""
    found: list[Path] = [(tree.tokens[0],)]
    for token, parent in zip(tree.tokens[1:], tree.parents[1:], strict=True):
        found.append((*found[parent], token))
    return dict(zip(found, tree.scores, strict=True))


@pytest.mark.parametrize(
    "name", ["dflash", "dflash-causal", "dspark", "dspark-gated", "dspark-rnn", "dspark-confidence-alone"]
)
@torch.inference_mode()
def test_a_tree_has_the_best_paths_and_their_probabilities(name: str) -> None:
    """Of all paths where each token is among the best three after its parent; with a Markov head, the nodes that a
    beam as wide as all of these finds."""
    head, depth, width = tiny_block(name), 3, 3
    plain, known = Plain(head), head.vocabulary.tolist()
    logits, states = plain.run(torch.randn(21, 3 * 64), 7)
    best: dict[Path, float] = {(7,): 1.0}
    level = dict(best)
    for _ in range(depth):
        children: dict[Path, float] = {}
        for path, score in level.items():
            top = plain.shares(logits, states, path).topk(width)
            for share, row in zip(top.values.tolist(), top.indices.tolist(), strict=True):
                children[(*path, known[row])] = score * share
        best |= children
        level = dict(sorted(children.items(), key=lambda item: -item[1])[: width if head.markov_head else None])
    nodes = 12
    expected = dict(sorted(best.items(), key=lambda item: -item[1])[:nodes])
    out = HeadOutput(logits[:depth].float(), states[:depth].float())
    tree = block_tree(head, 7, torch.tensor([7]), out, TreeShape(nodes=nodes, depth=depth, width=width))
    found = paths(tree)
    assert found.keys() == expected.keys()
    for path, score in found.items():
        assert abs(score - expected[path]) < 1e-5
    assert tree.cost == ([0] + [1] * (nodes - 1), 1)
    floor = sorted(expected.values())[4]
    cut = block_tree(
        head, 7, torch.tensor([7]), out, TreeShape(nodes=nodes, depth=depth, width=width, floor=floor - 1e-6)
    )
    assert len(cut) == nodes - 4


@pytest.mark.parametrize("name", ["dflash", "deepspec-dflash", "dspark"])
@torch.inference_mode()
def test_the_drafter_joins_the_block_with_the_states_before_its_token(name: str) -> None:
    """The drafter's own chain, after prefill in pieces and after a step, equals the independent computation's."""
    target, head = Target(LanguageModel(tiny())), tiny_block(name)
    drafter, plain = BlockDrafter(head, target, Retrieval(policy="full")), Plain(head)
    tokens = prompt(90)
    features = prefill_in_pieces(target, drafter, tokens)

    def expected_chain(known: list[int]) -> list[int]:
        states = torch.cat(features)  # type: ignore[arg-type]
        assert len(states) == len(known) - 1
        logits, final = plain.run(states, known[-1])
        chain = [known[-1]]
        for _ in range(min(5, head.config.depth)):
            row = int(plain.shares(logits, final, tuple(chain)).argmax())
            chain.append(int(head.vocabulary[row]))
        return chain[1:]

    assert drafter.propose(CHAIN).tokens[1:] == expected_chain(tokens[:89])
    for last in (89, 90):  # more committed tokens, one with a draft between, then two
        out = target.verify(root(tokens[last - 1]), features=drafter.feature_layers)
        target.keep([0])
        drafter.observe(prompt(91)[last : last + 1], out.features)
        features.append(out.features)
        assert drafter.propose(CHAIN).tokens[1:] == expected_chain(prompt(91)[: last + 1])
        tokens = prompt(91)


@torch.inference_mode()
def test_a_working_set_holds_the_keys_of_the_whole_context() -> None:
    """Keys do not depend on what was visible: a set of absolute positions hides the others, and no more."""
    head = tiny_block("dflash")
    target, retrieval = Target(LanguageModel(tiny())), small("retrieval", positions="absolute")
    tokens = prompt(200)
    target.begin(256)
    drafter = BlockDrafter(head, target, retrieval)
    drafter.begin(256)
    features = target.prefill(torch.tensor(tokens[:199]), features=drafter.feature_layers)[1]
    drafter.observe(tokens[:199], features)
    drafter.observe(tokens[199:], None)
    scores = torch.rand(199, generator=torch.Generator().manual_seed(0))
    drafter.retrieve(scores / scores.sum())
    seen = drafter.visible()
    assert len(seen) == retrieval.size + 2  # two states wait to be read
    drafted = drafter.propose(CHAIN)

    hidden = torch.ones(199, dtype=torch.bool).index_fill_(0, seen, False)

    class Hiding(Plain):
        def sees(self, layer: int, known: int) -> Tensor:
            mask = super().sees(layer, known)
            mask[:, :known] &= ~hidden
            return mask

    assert features is not None
    logits, _ = Hiding(head).run(features, tokens[199])
    assert drafted.tokens[1:] == head.vocabulary[logits.argmax(-1)].tolist()
    assert logits.argmax(-1).tolist() != Plain(head).run(features, tokens[199])[0].argmax(-1).tolist()  # it matters


@pytest.mark.parametrize("policy", POLICIES)
def test_a_head_with_windows_in_all_layers_keeps_no_more_than_these(policy: str) -> None:
    head = tiny_block("dflash", windows=(128, 96), is_causal=(True, True))
    target, retrieval = Target(LanguageModel(tiny())), small(policy, top_k=64, every=50)
    drafter, kept = BlockDrafter(head, target, retrieval), []
    propose = drafter.propose

    def noted(shape: TreeShape) -> DraftTree:
        tree = propose(shape)
        kept.append(drafter.working.cache.length)
        return tree

    drafter.propose = noted  # type: ignore[method-assign]
    assert run(target, drafter, prompt(420), retrieval, new=2 * NEW)[0] == by_generate(2 * NEW, 420)
    assert 90 < max(kept) <= 128


def test_one_forward_drafts_a_tree() -> None:
    head, calls = tiny_block("dspark"), []
    forward = head.forward

    def counted(*args: Any, **kwargs: Any) -> HeadOutput:
        calls.append(kwargs)
        return forward(*args, **kwargs)

    head.forward = counted  # type: ignore[method-assign]
    target, retrieval = Target(LanguageModel(tiny())), small("retrieval")
    _, meter = run(target, BlockDrafter(head, target, retrieval), prompt(), retrieval)
    assert len(calls) == sum(meter.accepted_lengths.values()) > 5


def test_values_that_are_no_numbers_end_drafting() -> None:
    for name in ("dflash", "dspark"):
        head = tiny_block(name)
        with torch.no_grad():
            head.norm.weight.fill_(torch.nan)
        target, retrieval = Target(LanguageModel(tiny())), small("retrieval")
        drafter = BlockDrafter(head, target, retrieval)
        assert run(target, drafter, prompt(), retrieval)[0] == by_generate(NEW)
        assert "not numbers" in (drafter.failure or "")


def test_a_head_of_another_target_is_refused() -> None:
    target = Target(LanguageModel(tiny()))
    for changes in ({"target_hidden": 32}, {"feature_layers": (1, 2, 9)}, {"vocabulary": 50, "mask_token": 1}):
        with pytest.raises(ModelError, match="the head"):
            BlockDrafter(tiny_block("dflash", **changes), target, Retrieval())
    with pytest.raises(ValueError, match="predicts nothing"):
        tiny_block("dflash", block=1)
