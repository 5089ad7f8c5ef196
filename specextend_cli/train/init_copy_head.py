"""Initialization of one attention head as an induction head (arXiv 2209.11895), which copies from the context.

Row j of an EAGLE-3 head has the target's states at token j and the embedding of token j + 1. With keys that encode
token j, read from the states, and queries that encode the token just given, attention finds earlier occurrences of that
token; with embeddings as values, it returns the token that followed. Training takes long to find this; the linear maps
are solved for here.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from specextend_cli.engine.head import EagleHead

_ENERGY = 0.05  # share of the fused state's energy that the code of the token gets
_GAIN = 4.0  # size of what is copied, relative to the state
_SHARP = 1.0  # of attention: at 1, a token's score with itself is the number of the code's dimensions
_REACH = 512  # tokens over which RoPE must hardly rotate the code's dimensions


@torch.no_grad()
def init_copy_head(head: EagleHead, tokens: Tensor, features: Tensor) -> None:
    """Turn the last key head of `head` into an induction head, fitted on tokens [n] with features [n, width].

    Nothing changes where the head has a single key head, or no dimension that RoPE rotates slowly enough.
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
    unused = _axes(fused)[0][: len(dims)]  # directions in which states vary least
    spread = level * math.sqrt(config.hidden * _ENERGY / len(dims))
    early = head.normalize(features)[:, : config.target_hidden]
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
    towards = _regression(output, code).T  # makes logits the products of two tokens' codes
    towards *= _GAIN * level * math.sqrt(config.hidden) / group / (code @ towards).norm(dim=-1).mean()
    for rows in queries:
        attention.q_proj.weight[rows] = 0
        attention.q_proj.weight[rows][dims, : config.hidden] = look / embedding_norm * math.sqrt(size) * _SHARP
        attention.o_proj.weight[:, rows] = towards.T


def _normed(rows: Tensor, eps: float) -> Tensor:
    return rows * torch.rsqrt(rows.square().mean(-1, keepdim=True) + eps)


def _axes(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Principal directions [d, d] of rows [n, d], least variance first, and their standard deviations [d]."""
    squares, directions = torch.linalg.eigh(rows.T @ rows / len(rows))
    return directions.T, squares.clamp(min=1e-12).sqrt()


def _codes(rows: Tensor, *sizes: int) -> list[Tensor]:
    """Matrices [size, d] that distinguish rows [n, d]: their main directions, whitened and randomly rotated."""
    directions, spread = _axes(rows)
    number = max(sum(sizes), len(spread) // 3)
    white = directions[-number:] / spread[-number:, None]
    mixed = torch.linalg.qr(torch.randn(len(white), len(white)).to(white)).Q
    return list((mixed @ white)[: sum(sizes)].split(sizes))


def _regression(rows: Tensor, wanted: Tensor) -> Tensor:
    """Ridge regression: the map [d, k] from rows [n, d] to wanted [n, k]."""
    squares = rows.T @ rows
    ridge = 1e-3 * squares.diagonal().mean() * torch.eye(len(squares)).to(squares)
    solved: Tensor = torch.linalg.solve(squares + ridge, rows.T @ wanted)
    return solved
