"""EAGLE heads: the same logits as an independent computation without cache, hooks or shared code."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from specextend_cli.engine.attention import ForwardContext
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.config import Retrieval, TreeShape
from specextend_cli.engine.drafters import EagleDrafter
from specextend_cli.engine.forward import ForwardInput, HeadOutput
from specextend_cli.engine.head import EagleHead, HeadConfig
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.target import Target
from specextend_cli.engine.tree import root
from specextend_cli.errors import ModelError
from tests.engine.tiny_heads import VARIANTS, tiny_head
from tests.engine.tiny_models import by_generate, prompt, tiny
from tests.helpers.decoding import NEW, POLICIES, run, small


class Plain:
    """A head recomputed from its tensors by name: complex RoPE, full masks, everything anew at every step."""

    def __init__(self, head: EagleHead) -> None:
        self.w = {name: tensor.double() for name, tensor in head.state_dict().items()}
        self.c = head.config

    def norm(self, x: Tensor, name: str) -> Tensor:
        return x / (x.pow(2).mean(-1, keepdim=True) + self.c.eps).sqrt() * self.w[f"{name}.weight"]

    def linear(self, x: Tensor, name: str) -> Tensor:
        bias = self.w.get(f"{name}.bias")
        return x @ self.w[f"{name}.weight"].T + (0 if bias is None else bias)

    def turn(self, x: Tensor) -> Tensor:
        """[n, heads, d]: dimension j and j + d/2 are one complex number."""
        half = self.c.head_dim // 2
        angle = self.c.rope["rope_theta"] ** (-torch.arange(half).double() / half) / self.c.rope.get("factor", 1.0)
        turned = torch.complex(x[..., :half], x[..., half:]) * torch.polar(
            torch.ones(len(x), 1, half).double(), torch.arange(len(x)).double()[:, None, None] * angle
        )
        return torch.cat((turned.real, turned.imag), -1)

    def attention(self, x: Tensor, name: str) -> Tensor:
        c, n = self.c, len(x)
        q = self.linear(x, f"{name}.q_proj").reshape(n, c.heads, c.head_dim)
        k = self.linear(x, f"{name}.k_proj").reshape(n, c.kv_heads, c.head_dim)
        if c.qk_norm:
            q, k = self.norm(q, f"{name}.q_norm"), self.norm(k, f"{name}.k_norm")
        q, k = self.turn(q), self.turn(k)
        v = self.linear(x, f"{name}.v_proj").reshape(n, c.kv_heads, c.head_dim)
        k, v = (t.repeat_interleave(c.heads // c.kv_heads, 1) for t in (k, v))
        scores = torch.einsum("ihd,jhd->hij", q, k) / c.head_dim**0.5
        scores = scores.masked_fill(torch.ones(n, n).triu(1).bool(), -torch.inf).softmax(-1)
        return self.linear(torch.einsum("hij,jhd->ihd", scores, v).reshape(n, -1), f"{name}.o_proj")

    def fused(self, features: Tensor) -> Tensor:
        c = self.c
        if c.generation == 1:
            return features
        if c.fc_norm:
            parts = features.split(c.target_hidden, -1)
            features = torch.cat([self.norm(part, f"fc_norm.{i}") for i, part in enumerate(parts)], -1)
        if c.norm_before_fc:
            features = self.norm(features, "input_norm")
        return self.linear(features, "fc")

    def run(self, tokens: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
        """Logits and next states at every row."""
        c = self.c
        embedded = self.w["embedding.weight"][tokens]
        x = self.linear(torch.cat((embedded, states), -1), "fc") if c.generation == 1 else states
        for i in range(c.layers):
            name = f"layers.{i}"
            residual = x
            if c.generation == 3 and i == 0:
                x = self.norm(x, f"{name}.hidden_norm")
                residual = x if c.norm_before_residual else residual
                x = torch.cat((self.norm(embedded, f"{name}.input_layernorm"), x), -1)
            elif i > 0:
                x = self.norm(x, f"{name}.input_layernorm")
            x = residual + self.attention(x, f"{name}.self_attn")
            y = self.norm(x, f"{name}.post_attention_layernorm")
            gate, up = (self.linear(y, f"{name}.mlp.{part}_proj") for part in ("gate", "up"))
            x = x + self.linear(nn.functional.silu(gate) * up, f"{name}.mlp.down_proj")
        normed = self.norm(x, "norm") if c.generation == 3 else x
        return self.linear(normed, "lm_head"), normed if c.feeds_normed else x


def follows(head: EagleHead, plain: Plain) -> None:
    """Every logit of a prompt and of a chain of five drafts, each fed with the head's own state."""
    tokens = torch.tensor(prompt(30))
    features = torch.randn(29, len(head.config.feature_layers) * head.config.target_hidden)
    lm = LanguageModel(tiny())
    cache = head.new_cache(64)

    cache.reserve(29)
    out = head(tokens[1:], head.fuse(features), torch.arange(29), cache, ForwardContext(lm.backend))
    cache.commit()
    read, states = tokens[1:], plain.fused(features.double())
    logits, own = plain.run(read, states)
    assert torch.allclose(out.logits.double(), logits, atol=1e-4)
    for depth in range(5):
        drafted = head.vocabulary[out.logits[-1:].argmax(-1)]
        cache.reserve(1)
        out = head(drafted, out.states[-1:], torch.tensor([29 + depth]), cache, ForwardContext(lm.backend))
        cache.commit()
        read, states = torch.cat((read, drafted)), torch.cat((states, own[-1:]))
        logits, own = plain.run(read, states)
        assert torch.allclose(out.logits[-1].double(), logits[-1], atol=1e-4)


@pytest.mark.parametrize("name", VARIANTS)
@torch.inference_mode()
def test_logits_and_states_equal_a_plain_computation_along_a_chain(name: str) -> None:
    follows(tiny_head(name), Plain(tiny_head(name)))


@pytest.mark.parametrize("name", ["eagle1", "eagle3", "eagle3.1", "eagle3-qk-norm"])
@torch.inference_mode()
def test_the_drafter_joins_each_state_with_the_token_after_it(name: str) -> None:
    """The drafter's own chain, after prefill in pieces and after a step, equals the independent computation's."""
    lm = LanguageModel(tiny())
    target, head = Target(lm), tiny_head(name)
    drafter, plain = EagleDrafter(head, target, Retrieval(policy="full")), Plain(head)
    tokens = prompt(90)
    target.begin(128)
    drafter.begin(128)
    features = []
    for at in (0, 40, 80):
        piece = tokens[at : min(at + 40, 88)]
        out = target.prefill(torch.tensor(piece), features=drafter.feature_layers)
        drafter.observe(piece, out.features)
        features.append(out.features)
    drafter.observe(tokens[88:89], None)

    def expected_chain(known: list[int]) -> list[int]:
        read = torch.tensor(known[1:])
        states = plain.fused(torch.cat(features).double())
        assert len(read) == len(states)
        chain = []
        for _ in range(4):
            logits, own = plain.run(read, states)
            chain.append(int(head.vocabulary[logits[-1].argmax()]))
            read, states = torch.cat((read, torch.tensor(chain[-1:]))), torch.cat((states, own[-1:]))
        return chain

    shape = TreeShape(nodes=5, depth=4, width=1, threshold=0.0)
    assert drafter.propose(shape).tokens[1:] == expected_chain(tokens[:89])
    # One more committed token: its predecessor's state is now the target's.
    out = target.verify(root(tokens[88]), features=drafter.feature_layers)
    target.keep([0])
    drafter.observe(tokens[89:90], out.features[:1])
    features.append(out.features[:1])
    assert drafter.propose(shape).tokens[1:] == expected_chain(tokens[:90])


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("window", [None, 200])
def test_a_head_attends_to_no_more_than_its_sliding_window(policy: str, window: int | None) -> None:
    """Whatever its working set is asked to be; the prompt is read so, too, where what a layer reads depends on it."""
    head = tiny_head("eagle3-2-layers", sliding_window=128)
    seen: list[int] = []

    def count(cache: KVCache, rows: int, mask: Tensor | None) -> None:
        seen.append(cache.length + (rows if mask is None else int(mask.sum(-1).max())))

    stock_run, stock_remember = head.run_model, head.remember

    def run_model(inputs: ForwardInput) -> HeadOutput:
        count(inputs.cache, len(inputs.tokens), inputs.context.tree_mask)
        return stock_run(inputs)

    def remember(tokens: Tensor, states: Tensor, positions: Tensor, cache: KVCache, context: ForwardContext) -> None:
        count(cache, len(tokens), context.tree_mask)
        stock_remember(tokens, states, positions, cache, context)

    head.run_model, head.remember = run_model, remember  # type: ignore[method-assign]
    target, retrieval = Target(LanguageModel(tiny())), small(policy, top_k=64, every=50)
    drafter = EagleDrafter(head, target, retrieval, window=window)
    assert run(target, drafter, prompt(420), retrieval, new=2 * NEW)[0] == by_generate(2 * NEW, 420)
    assert 96 < max(seen) <= 128


@torch.inference_mode()
def test_a_windowed_head_with_full_attention_sees_the_newest_tokens() -> None:
    """Its chain is that of the independent computation over the end of the sequence alone."""
    target, head = Target(LanguageModel(tiny())), tiny_head("eagle3", sliding_window=128)
    drafter, plain = EagleDrafter(head, target, Retrieval(policy="full")), Plain(head)
    tokens = prompt(300)
    target.begin(320)
    drafter.begin(320)
    features = target.prefill(torch.tensor(tokens[:299]), features=drafter.feature_layers)[1]
    drafter.observe(tokens[:299], features)
    drafter.observe(tokens[299:], None)
    chain = drafter.propose(TreeShape(nodes=5, depth=4, width=1, threshold=0.0)).tokens[1:]
    rows = drafter.working.visible
    assert 96 < len(rows) <= 128
    assert rows.tolist() == list(range(299 - len(rows), 299))
    read, states = torch.tensor(tokens[1:])[rows], plain.fused(features.double())[rows]
    for token in chain:
        logits, own = plain.run(read, states)
        assert token == int(head.vocabulary[logits[-1].argmax()])
        read, states = torch.cat((read, torch.tensor([token]))), torch.cat((states, own[-1:]))


def test_a_head_of_another_target_is_refused() -> None:
    target = Target(LanguageModel(tiny()))

    def variant(**changes: object) -> EagleHead:
        return EagleHead(HeadConfig(**{**vars(VARIANTS["eagle3"]), **changes}))

    for head in (variant(target_hidden=32), variant(feature_layers=(1, 2, 9)), variant(vocabulary=50)):
        with pytest.raises(ModelError, match=r"the head"):
            EagleDrafter(head, target, Retrieval())
    beyond = tiny_head()
    beyond.draft_to_target += 90
    with pytest.raises(ModelError, match="goes beyond"):
        EagleDrafter(beyond, target, Retrieval())
    with pytest.raises(ValueError, match="EAGLE-1"):
        HeadConfig(**{**vars(VARIANTS["eagle1"]), "feature_layers": (1, 2, 3)})
