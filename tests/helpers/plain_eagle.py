"""EAGLE heads recomputed without cache, hooks or shared code, and a check that a head gives the same logits."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.step import Step
from tests.engine.tiny_models import prompt, tiny


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
        """[n, heads, d]: dimension j and j + d/2 are one complex number. YaRN's angles are transformers'."""
        c, half = self.c, self.c.head_dim // 2
        angle, factor = c.rope["rope_theta"] ** (-torch.arange(half).double() / half) / c.rope.get("factor", 1.0), 1.0
        if c.rope["rope_type"] == "yarn":
            sizes = {"hidden_size": c.hidden, "num_attention_heads": c.heads, "head_dim": c.head_dim}
            config = LlamaConfig(**sizes, max_position_embeddings=c.max_position, rope_parameters=c.rope)
            angle, factor = ROPE_INIT_FUNCTIONS["yarn"](config, torch.device("cpu"))
        angles = torch.arange(len(x)).double()[:, None, None] * angle
        turned = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.full_like(angles, factor), angles)
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

    out = head.run(Step(tokens[1:], torch.arange(29), cache, backend=lm.backend, features=features))
    cache.commit()
    read, states = tokens[1:], plain.fused(features.double())
    logits, own = plain.run(read, states)
    assert torch.allclose(out.logits.double(), logits, atol=1e-4)
    for depth in range(5):
        drafted = head.vocabulary[out.logits[-1:].argmax(-1)]
        assert out.state is not None
        step = Step(drafted, torch.tensor([29 + depth]), cache, backend=lm.backend, states=out.state[-1:])
        out = head.run(step)
        cache.commit()
        read, states = torch.cat((read, drafted)), torch.cat((states, own[-1:]))
        logits, own = plain.run(read, states)
        assert torch.allclose(out.logits[-1].double(), logits[-1], atol=1e-4)
