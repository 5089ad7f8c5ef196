"""The Triton kernels of recurrent layers' states. Imports triton: only `ops` may import this.

A row of a draft tree repeats its whole path from the state before the tree: a handful of rank-one updates in registers,
where a state for each node would take megabytes a layer. So rows need no order, and no level waits for another.
"""

from __future__ import annotations

import triton
import triton.language as tl

_CONVOLUTION = tl.constexpr(2)  # of `at`: where states lie
_RECURRENCE = tl.constexpr(3)
_NEW = tl.constexpr(2)  # behind each: where the new ones go


@triton.jit  # type: ignore[untyped-decorator]
def _state_at(
    at: tl.tensor, which: tl.constexpr, layer: tl.tensor, sequence: tl.tensor, size: tl.constexpr, like: tl.tensor
) -> tl.tensor:
    """The address of a layer's state of one sequence, of `size` numbers in the format of the pointer `like`."""
    base = tl.multiple_of(tl.load(at + which).to(tl.pointer_type(like.dtype.element_ty)), 16)
    return base + (layer * tl.load(at) + sequence * tl.load(at + 1)) * size


@triton.jit(do_not_specialize=["layer"])  # type: ignore[untyped-decorator]
def window_rows(
    new: tl.tensor,  # inputs of the rows, `new_row` and `new_channel` apart
    out: tl.tensor,  # [rows, CHANNELS, SIZE], contiguous; unused to keep a row
    at: tl.tensor,  # [6] int64, see `RecurrentStates.addresses`
    words: tl.tensor,  # [rows, WORDS] int64; unused without a tree
    last: tl.tensor,  # [1] int64: the row that is kept, or unused
    layer: tl.tensor,
    new_row: tl.tensor,
    new_channel: tl.tensor,
    CHANNELS: tl.constexpr,
    SIZE: tl.constexpr,
    WIDE: tl.constexpr,
    BLOCK: tl.constexpr,
    WORDS: tl.constexpr,
    TREE: tl.constexpr,
    KEEPS: tl.constexpr,
) -> None:
    """Grid (rows or 1, blocks of channels): the newest SIZE inputs of a convolution up to each row, along its path."""
    row = tl.program_id(0).to(tl.int64)
    if KEEPS:
        row = tl.load(last)
    channel = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)[:, None]
    column = tl.arange(0, WIDE)
    inside = (channel < CHANNELS) & (column < SIZE)[None]
    if TREE:
        sequence = row * 0
        path = tl.load(words + row * WORDS)
        bit = tl.arange(0, 64)
        before = bit <= row  # while it is captured, a graph's masks have bits of rows that there are not
        node_of = tl.full([WIDE], -1, tl.int32)
        taken = tl.full([], 0, tl.int32)
        for back in tl.static_range(SIZE):
            node = tl.max(tl.where(((path >> bit) & 1 != 0) & before, bit, -1), 0)
            node_of = tl.where(column == SIZE - 1 - back, node, node_of)
            if node >= 0:
                path = path ^ (tl.full([], 1, tl.int64) << node)
                taken += 1
    else:
        sequence = row
        node_of = tl.where(column == SIZE - 1, row, -1)
        taken = tl.full([], 1, tl.int32)
    is_new = node_of[None] >= 0
    value = tl.load(new + node_of[None].to(tl.int64) * new_row + channel * new_channel, mask=inside & is_new, other=0.0)
    state = _state_at(at, _CONVOLUTION, layer, sequence, CHANNELS * SIZE, new)
    old = tl.load(state + channel * SIZE + column[None] + taken, mask=inside & ~is_new, other=0.0)
    value = tl.where(is_new, value, old)
    if not KEEPS:
        tl.store(out + (row * CHANNELS + channel) * SIZE + column[None], value, mask=inside)
    if KEEPS or not TREE:
        tl.debug_barrier()  # the new state may take the old one's place
        target = _state_at(at, _CONVOLUTION + _NEW, layer, sequence, CHANNELS * SIZE, new)
        tl.store(target + channel * SIZE + column[None], value, mask=inside)


@triton.jit(do_not_specialize=["layer"])  # type: ignore[untyped-decorator]
def recur_rows(
    q: tl.tensor,  # [rows, KEY_HEADS, K], `q_row` and `q_head` apart; unused to keep a row
    k: tl.tensor,  # the same
    v: tl.tensor,  # [rows, HEADS, V]
    decay: tl.tensor,  # [rows, HEADS] float32: logarithms
    beta: tl.tensor,  # [rows, HEADS]
    out: tl.tensor,  # [rows, HEADS, V], contiguous; unused to keep a row
    at: tl.tensor,  # [6] int64, see `RecurrentStates.addresses`
    words: tl.tensor,  # [rows, WORDS] int64; unused without a tree
    last: tl.tensor,  # [1] int64: the row that is kept, or unused
    layer: tl.tensor,
    q_row: tl.tensor,
    q_head: tl.tensor,
    k_row: tl.tensor,
    k_head: tl.tensor,
    v_row: tl.tensor,
    v_head: tl.tensor,
    scale: tl.tensor,
    HEADS: tl.constexpr,
    KEY_HEADS: tl.constexpr,
    K: tl.constexpr,
    V: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
    WORDS: tl.constexpr,
    NORMS: tl.constexpr,
    TREE: tl.constexpr,
    KEEPS: tl.constexpr,
) -> None:
    """Grid (rows or 1, HEADS, blocks of values): a decaying state [K, V], to which each row adds key times value.

    Of the value, it adds beta times what it differs by from what the state has for the key.
    """
    row = tl.program_id(0).to(tl.int64)
    if KEEPS:
        row = tl.load(last)
    head = tl.program_id(1).to(tl.int64)
    key_head = head // (HEADS // KEY_HEADS)
    at_k, at_v = tl.arange(0, BLOCK_K), tl.program_id(2) * BLOCK_V + tl.arange(0, BLOCK_V)
    in_k, in_v = at_k < K, at_v < V
    inside = in_k[:, None] & in_v[None]
    if TREE:
        sequence, first = row * 0, row * 0
        path = tl.load(words + row * WORDS)
    else:
        sequence, first = row, row
        path = tl.full([], 1, tl.int64)
    own = head * K * V + at_k[:, None] * V + at_v[None]
    source = _state_at(at, _RECURRENCE, layer, sequence, HEADS * K * V, decay)
    state = tl.load(source + own, mask=inside, other=0.0)
    for node in range(first, row + 1):
        if (path >> (node - first)) & 1 != 0:
            key = tl.load(k + node * k_row + key_head * k_head + at_k, mask=in_k, other=0.0).to(tl.float32)
            value = tl.load(v + node * v_row + head * v_head + at_v, mask=in_v, other=0.0).to(tl.float32)
            if NORMS:
                key *= tl.rsqrt(tl.sum(key * key, 0) + 1e-6)
            state *= tl.exp(tl.load(decay + node * HEADS + head))
            known = tl.sum(state * key[:, None], 0)
            value = (value - known) * tl.load(beta + node * HEADS + head).to(tl.float32)
            state += key[:, None] * value[None]
    if not KEEPS:
        query = tl.load(q + row * q_row + key_head * q_head + at_k, mask=in_k, other=0.0).to(tl.float32)
        if NORMS:
            query *= tl.rsqrt(tl.sum(query * query, 0) + 1e-6)
        answer = tl.sum(state * (query * scale)[:, None], 0)
        tl.store(out + (row * HEADS + head) * V + at_v, answer.to(out.dtype.element_ty), mask=in_v)
    if KEEPS or not TREE:
        target = _state_at(at, _RECURRENCE + _NEW, layer, sequence, HEADS * K * V, decay)
        tl.store(target + own, state, mask=inside)
