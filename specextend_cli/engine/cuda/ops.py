"""What captured forwards and drafts compute beside matrix products, by our own Triton kernels.

On CUDA, or in Triton's interpreter. Nothing is read back, and allocations depend on shapes only.

States of recurrent layers are found by their addresses: one launch computes all rows of a forward, one commits a row.
Without a tree's `words`, row i is the next token of sequence i, and its new state is stored at once; of a tree, that of
the row `last` is stored by another launch.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from specextend_cli.engine.attention.triton_plan import MOST_REGISTERS, power_of_two
from specextend_cli.engine.attention.triton_tree import attend as attend
from specextend_cli.engine.attention.triton_tree import first_keys as first_keys
from specextend_cli.engine.cuda.body import WORDS, GraphInputs, Recurrence
from specextend_cli.engine.decoder import Norm

_BLOCK = 1024  # logits of a program
_TILE = 2048  # numbers of a state in one program's registers


@cache
def _kernels(module: str = "kernels") -> Any:
    """They import triton, which is not everywhere."""
    return import_module(f"specextend_cli.engine.cuda.{module}")


def add_norm(
    x: Tensor, added: Tensor | None, norm: Norm, *, factor: float = 1.0, out: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """x [rows, width] + factor * added, and its norm; the norm goes to `out`, whose rows may lie apart."""
    rows, width = x.shape
    total = x if added is None else torch.empty_like(x)
    normed = torch.empty_like(x) if out is None else out
    block = power_of_two(width)
    _kernels().add_norm_rows[(rows,)](
        x,
        x if added is None else added,
        norm.weight,
        total,
        normed,
        factor,
        norm.epsilon,
        normed.stride(0),
        WIDTH=width,
        BLOCK=block,
        ADDS=added is not None,
        SCALES=factor != 1.0,
        num_warps=min(max(block // 512, 1), 8),
    )
    return total, normed


def rope_and_store(
    qkv: Tensor,
    heads: int,
    kv_heads: int,
    turns: Tensor | None,
    norms: tuple[Norm, Norm] | None,
    addresses: Tensor,
    starts: Tensor,
    positions: Tensor,
    layer: int,
) -> Tensor:
    """Queries [rows, heads, d] after norms and RoPE; keys and values go to the cache at `addresses`.

    qkv [rows, (heads + 2 * kv_heads) * d], contiguous; rows are those of the sequences, one after the other, which go
    to cache rows from `starts` [sequences] on; `positions` [rows]. RoPE's `turns` [m + 1] (float32) are the angles per
    position of the first 2 m numbers of a head, then the scale of cosines and sines; None: it does not rotate.
    """
    rows, every = len(qkv), heads + 2 * kv_heads
    d = qkv.shape[1] // every
    queries = qkv.new_empty(rows, heads, d)
    q_norm, k_norm = norms or (None, None)
    _kernels().rotate_and_store[(rows, every)](
        qkv,
        queries,
        addresses,
        starts,
        positions,
        qkv if turns is None else turns,
        qkv if q_norm is None else q_norm.weight,
        qkv if k_norm is None else k_norm.weight,
        layer,
        rows // len(starts),
        0.0 if q_norm is None else q_norm.epsilon,
        HEADS=heads,
        KV_HEADS=kv_heads,
        D=d,
        BLOCK_D=power_of_two(d),
        ROTATED=0 if turns is None else 2 * (len(turns) - 1),
        NORMS=norms is not None,
        num_warps=1,
        maxnreg=MOST_REGISTERS,
    )
    return queries


def store(keys: Tensor, values: Tensor, like: Tensor, addresses: Tensor, starts: Tensor, layer: int) -> None:
    """Keys and values [sequences, kv_heads, n, d] of new tokens to the cache, of the number format of `like`."""
    b, heads, n, d = keys.shape
    _kernels().store_rows[(b * n, heads)](
        keys,
        values,
        like,
        addresses,
        starts,
        layer,
        n,
        *keys.stride(),
        *values.stride(),
        D=d,
        BLOCK_D=power_of_two(d),
        num_warps=1,
    )


def gated(gate_up: Tensor) -> Tensor:
    """silu(gate) * up of gate_up [rows, 2 * width] -> [rows, width]."""
    rows, width = len(gate_up), gate_up.shape[1] // 2
    out = gate_up.new_empty(rows, width)
    block = min(power_of_two(width), 1024)
    _kernels().gate_rows[(rows, -(-width // block))](gate_up, out, WIDTH=width, BLOCK=block, num_warps=4)
    return out


class Level:
    """A draft tree in device memory, and its level that is expanded next, of `width` nodes.

    `inputs` are its forward's; `scores`, `nodes` (numbers in the tree) and `above` (rows of the level before) are
    [width]; `tree` [3, candidates] has every node's token, parent and the bits of its score, of which `count` [1] are
    there. The tree starts from the root's children (`shares` and `tokens` [1, width]), a head's `state` [1, hidden] at
    the root, and `begin` [3]: a number that is not read here, then the position and the cache row of the first level.
    All int64 but scores, shares and states.
    """

    def __init__(
        self, width: int, candidates: int, device: torch.device, states: Tensor | None, *, buffers: int = 1
    ) -> None:
        """`buffers` are those of the draft's cache."""
        self.inputs = GraphInputs(width, 1, device, states, buffers=buffers, in_tree=True)
        self.scores = torch.zeros(width, device=device)
        self.nodes = torch.zeros(width, dtype=torch.long, device=device)
        self.above = torch.zeros_like(self.nodes)
        self.count = torch.zeros(1, dtype=torch.long, device=device)
        self.tree = torch.zeros(3, candidates, dtype=torch.long, device=device)
        self.shares = torch.zeros(1, width, device=device)
        self.tokens = torch.zeros(1, width, dtype=torch.long, device=device)
        self.state = None if states is None else states.new_zeros(1, states.shape[-1])
        self.begin = torch.zeros(3, dtype=torch.long, device=device)


def best(
    logits: Tensor,
    width: int,
    most: int,
    vocabulary: Tensor | None,
    *,
    row: Tensor | None = None,
    out: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """The `width` highest probabilities of each row of logits [rows, V], descending, and their tokens: [rows, width].

    Only the first `most` of V take part; `vocabulary` maps them to tokens. `row` [1] (int64) names the only row. They
    go to `out`, if there is one.
    """
    rows, device = len(logits) if row is None else 1, logits.device
    blocks = -(-most // _BLOCK)
    values = torch.empty(rows, blocks, width, device=device)
    ids = torch.empty(rows, blocks, width, dtype=torch.long, device=device)
    sums = torch.empty(rows, blocks, device=device)
    _kernels().best_of_blocks[(rows, blocks)](
        *(logits, logits if row is None else row, values, ids, sums, most, logits.stride(0)),
        **{"WIDTH": width, "BLOCK": _BLOCK, "PICKS": row is not None, "num_warps": 4},
    )
    shares, tokens = out or (
        torch.empty(rows, width, device=device),
        torch.empty(rows, width, dtype=torch.long, device=device),
    )
    count = blocks * width
    _kernels().best_of_rows[(rows,)](
        *(values, ids, sums, ids if vocabulary is None else vocabulary, shares, tokens),
        WIDTH=width,
        COUNT=count,
        BLOCK=power_of_two(count),
        BLOCKS=blocks,
        BLOCK_S=power_of_two(blocks),
        MAPS=vocabulary is not None,
        num_warps=1 if count <= 256 else 4,
    )
    return shares, tokens


def advance(level: Level, shares: Tensor, tokens: Tensor, begin: Tensor | None = None) -> None:
    """Add the children of the level's nodes to the tree and make the best of them the next level.

    `shares` and `tokens` [width, width] are the children's; with `begin` they are [1, width], the root's.
    """
    held, width = level.inputs, shares.shape[1]
    _kernels().choose_level[(1,)](
        *(shares, tokens, held.tokens if begin is None else begin),
        *(held.tokens, held.positions, held.words, held.starts, held.lengths),
        *(level.scores, level.nodes, level.above, level.count, level.tree, level.tree.shape[1]),
        WIDTH=width,
        WORDS=WORDS,
        BLOCK=power_of_two(width if begin is not None else width * width),
        BLOCK_W=power_of_two(width),
        FIRST=begin is not None,
        num_warps=1,
    )


def convolution_inputs(
    new: Tensor, size: int, layer: int, at: Tensor, words: Tensor | None, last: Tensor | None = None
) -> Tensor | None:
    """What a convolution of `size` sees at each row: [rows, channels, size]. `new` [b, channels, n] are its inputs.

    With `last`, nothing is computed but the state after that row, which is stored.
    """
    b, channels, n = new.shape
    out = new.new_empty(b * n, channels, size) if last is None else None
    block = min(power_of_two(channels), 256)
    _kernels("recurrent_kernels").window_rows[(b * n if last is None else 1, -(-channels // block))](
        new,
        new if out is None else out,
        at,
        at if words is None else words,
        at if last is None else last,
        layer,
        new.stride(0) if words is None else new.stride(2),
        new.stride(1),
        CHANNELS=channels,
        SIZE=size,
        WIDE=power_of_two(size),
        BLOCK=block,
        WORDS=WORDS,
        TREE=words is not None,
        KEEPS=last is not None,
        num_warps=4,
    )
    return out


def recur(
    given: Recurrence, dtype: torch.dtype, layer: int, at: Tensor, words: Tensor | None, last: Tensor | None = None
) -> Tensor | None:
    """The output [rows, heads, V] of each row. With `last`, only the state after that row is stored."""
    q, k, v, decay, beta = given[:5]
    (rows, key_heads, size), (_, heads, width) = k.shape, v.shape
    out = v.new_empty(rows, heads, width, dtype=dtype) if last is None else None
    block_k = power_of_two(size)
    block_v = min(max(_TILE // block_k, 1), power_of_two(width))
    _kernels("recurrent_kernels").recur_rows[(rows if last is None else 1, heads, -(-width // block_v))](
        q,
        k,
        v,
        decay,
        beta,
        v if out is None else out,
        at,
        at if words is None else words,
        at if last is None else last,
        layer,
        *q.stride()[:2],
        *k.stride()[:2],
        *v.stride()[:2],
        given.scale,
        HEADS=heads,
        KEY_HEADS=key_heads,
        K=size,
        V=width,
        BLOCK_K=block_k,
        BLOCK_V=block_v,
        WORDS=WORDS,
        NORMS=given.normed,
        TREE=words is not None,
        KEEPS=last is not None,
        num_warps=4,
    )
    return out
