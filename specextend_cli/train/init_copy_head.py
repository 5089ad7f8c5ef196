"""Copying, wired before the first lesson: a part of a newborn head's attention finds where a token stood before.

Row j of an EAGLE-3 head has the target's states at token j and the embedding of token j + 1. If keys are what states
say of token j, and queries the embedding of the token just given, attention finds where that token stood before; if
values are embeddings, it brings what came next there: an induction head (arXiv 2209.11895), which models take long to
form. All it needs are linear maps, and those are solved for here.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from specextend_cli.engine.head import EagleHead

_ENERGY = 0.05  # of the code in the fused state, beside what else it holds
_GAIN = 4.0  # of what is copied, beside the state
_SHARP = 1.0  # of attention: 1 makes a token's score with itself the number of the code's dimensions
_REACH = 512  # tokens over which RoPE must leave a code's dimensions as they are


@torch.no_grad()
def init_copy_head(head: EagleHead, tokens: Tensor, features: Tensor) -> None:
    """Make the last key head of `head` copy. It learns what states look like from tokens [n] and their features [n, w].

    Nothing happens where the head has no key head to spare, or RoPE leaves it no dimension.
    """
    config, size = head.config, head.config.head_dim
    slow = (head.frequencies * _REACH < 0.75).nonzero().squeeze(-1).cpu()
    dims = torch.cat((slow, slow + size // 2))
    if config.kv_heads < 2 or not len(dims):
        return
    layers: Any = head.layers
    attention = layers[0].self_attn
    group = config.heads // config.kv_heads
    keys = slice((config.kv_heads - 1) * size, config.kv_heads * size)
    queries = [slice(h * size, (h + 1) * size) for h in range((config.kv_heads - 1) * group, config.heads)]

    embeddings = _normed(head.embedding.weight.float(), config.eps)
    look, bring = _codes(embeddings[head.vocabulary], len(dims), size)
    fused = head.fuse(features)
    level = float(fused.square().mean(-1).sqrt().median())
    output = head.lm_head.weight * head.norm.weight  # type: ignore[operator]
    unused = _axes(fused)[0][: len(dims)]  # directions in which states hardly differ
    spread = level * math.sqrt(config.hidden * _ENERGY / len(dims))
    early = features[:, : config.target_hidden]
    said = _regression(early, embeddings[tokens] @ look.T)
    head.fc.weight -= unused.T @ (unused @ head.fc.weight)
    head.fc.weight[:, : config.target_hidden] += spread * unused.T @ said.T

    state_norm, embedding_norm = layers[0].hidden_norm.weight, layers[0].input_layernorm.weight
    for projection in (attention.k_proj, attention.v_proj):
        projection.weight[keys] = 0
    attention.k_proj.weight[keys][dims, config.hidden :] = (unused / state_norm) * (
        level * math.sqrt(1 + _ENERGY) / spread
    )
    attention.v_proj.weight[keys][:, : config.hidden] = bring / embedding_norm
    code = embeddings[head.vocabulary] @ bring.T
    towards = _regression(output, code).T  # what makes logits the products of two tokens' codes
    towards *= _GAIN * level * math.sqrt(config.hidden) / group / (code @ towards).norm(dim=-1).mean()
    for rows in queries:
        attention.q_proj.weight[rows] = 0
        attention.q_proj.weight[rows][dims, : config.hidden] = look / embedding_norm * math.sqrt(size) * _SHARP
        attention.o_proj.weight[:, rows] = towards.T


def _normed(rows: Tensor, eps: float) -> Tensor:
    return rows * torch.rsqrt(rows.square().mean(-1, keepdim=True) + eps)


def _axes(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The directions [d, d] in which rows [n, d] vary, least first, and how much they do, [d]."""
    squares, directions = torch.linalg.eigh(rows.T @ rows / len(rows))
    return directions.T, squares.clamp(min=1e-12).sqrt()


def _codes(rows: Tensor, *sizes: int) -> list[Tensor]:
    """Matrices [size, d] that tell rows [n, d] apart: of their main directions, made equally strong and mixed."""
    directions, spread = _axes(rows)
    number = max(sum(sizes), len(spread) // 3)
    white = directions[-number:] / spread[-number:, None]
    mixed = torch.linalg.qr(torch.randn(len(white), len(white)).to(white)).Q
    return list((mixed @ white)[: sum(sizes)].split(sizes))


def _regression(rows: Tensor, wanted: Tensor) -> Tensor:
    """The map [d, k] that takes rows [n, d] nearest to wanted [n, k]."""
    squares = rows.T @ rows
    ridge = 1e-3 * squares.diagonal().mean() * torch.eye(len(squares)).to(squares)
    solved: Tensor = torch.linalg.solve(squares + ridge, rows.T @ wanted)
    return solved
