"""The Triton kernels of CUDA graphs beside attention's. Imports triton: only `ops` may import this.

Those between a decoder's matrix products do in one launch what takes transformers' layers three to eight, and round
where those round (RoPE's sums once). Others choose a draft tree's nodes.
"""

from __future__ import annotations

import triton
import triton.language as tl

from specextend_cli.engine.attention.triton_kernels import rows_at


@triton.jit  # type: ignore[untyped-decorator]
def _normed(x: tl.tensor, weight: tl.tensor, size: tl.constexpr, epsilon: tl.tensor) -> tl.tensor:
    """RMS norm of one row x (float32, zeros behind `size`), rounded to the weight's format before it is scaled."""
    scale = tl.rsqrt(tl.sum(x * x, 0) / size + epsilon)
    rounded = (x * scale).to(weight.dtype).to(tl.float32)
    return (rounded * weight.to(tl.float32)).to(weight.dtype)


@triton.jit  # type: ignore[untyped-decorator]
def add_norm_rows(
    x: tl.tensor,  # [rows, WIDTH], contiguous
    added: tl.tensor,  # the same, or unused
    weight: tl.tensor,  # [WIDTH]
    total: tl.tensor,  # [rows, WIDTH]: x + factor * added; unused without `added`
    normed: tl.tensor,  # [rows, WIDTH] of a matrix with rows `normed_row` apart
    factor: tl.tensor,
    epsilon: tl.tensor,
    normed_row: tl.tensor,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    ADDS: tl.constexpr,
    SCALES: tl.constexpr,
) -> None:
    """Grid (rows)."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < WIDTH
    value = tl.load(x + row * WIDTH + at, mask=inside, other=0.0)
    if ADDS:
        more = tl.load(added + row * WIDTH + at, mask=inside, other=0.0)
        if SCALES:
            more = (more.to(tl.float32) * factor).to(value.dtype)
        value = (value.to(tl.float32) + more.to(tl.float32)).to(value.dtype)
        tl.store(total + row * WIDTH + at, value, mask=inside)
    scaled = _normed(value.to(tl.float32), tl.load(weight + at, mask=inside, other=0.0), WIDTH, epsilon)
    tl.store(normed + row * normed_row + at, scaled, mask=inside)


@triton.jit(do_not_specialize=["layer", "n"])  # type: ignore[untyped-decorator]
def rotate_and_store(
    qkv: tl.tensor,  # [rows, (HEADS + 2 * KV_HEADS) * D], contiguous; rows are sequences times n
    queries: tl.tensor,  # [rows, HEADS, D], contiguous
    addresses: tl.tensor,  # [5] int64, see `cuda/body.py`
    starts: tl.tensor,  # [sequences] int64: cache row of each sequence's first new token
    positions: tl.tensor,  # [rows] int64
    turns: tl.tensor,  # [ROTATED / 2 + 1] float32: angles per position, the scale of cosines and sines
    q_weight: tl.tensor,  # [D], or unused
    k_weight: tl.tensor,
    layer: tl.tensor,
    n: tl.tensor,
    epsilon: tl.tensor,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    ROTATED: tl.constexpr,
    NORMS: tl.constexpr,
) -> None:
    """Grid (rows, HEADS + 2 * KV_HEADS): RoPE of queries and keys; keys and values go to the cache."""
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    d = tl.arange(0, BLOCK_D)
    inside = d < D
    source = qkv + (row * (HEADS + 2 * KV_HEADS) + head) * D
    value = tl.load(source + d, mask=inside, other=0.0)
    if head < HEADS + KV_HEADS:
        half: tl.constexpr = ROTATED // 2
        other = tl.where(d < half, d + half, d - half)
        turned = d < ROTATED
        partner = tl.load(source + other, mask=turned, other=0.0)
        if NORMS:
            weight = q_weight if head < HEADS else k_weight
            own, opposite = tl.load(weight + d, mask=inside, other=0.0), tl.load(weight + other, mask=turned, other=0.0)
            whole = value.to(tl.float32)
            scale = tl.rsqrt(tl.sum(whole * whole, 0) / D + epsilon)
            value = ((whole * scale).to(own.dtype).to(tl.float32) * own.to(tl.float32)).to(own.dtype)
            partner = (partner.to(tl.float32) * scale).to(own.dtype).to(tl.float32) * opposite.to(tl.float32)
            partner = partner.to(own.dtype)
        if ROTATED:
            angle = tl.load(positions + row).to(tl.float32) * tl.load(turns + d % half, mask=turned, other=0.0)
            scale_of_turns = tl.load(turns + half)
            cos = (tl.cos(angle) * scale_of_turns).to(value.dtype).to(tl.float32)
            sin = (tl.sin(angle) * scale_of_turns).to(value.dtype).to(tl.float32)
            sign = tl.where(d < half, -1.0, 1.0)
            rotated = value.to(tl.float32) * cos + sign * partner.to(tl.float32) * sin
            value = tl.where(turned, rotated.to(value.dtype), value)
    if head < HEADS:
        tl.store(queries + (row * HEADS + head) * D + d, value, mask=inside)
    else:
        sequence = row // n
        at = tl.load(starts + sequence) + row % n
        is_value = head >= HEADS + KV_HEADS
        key_head = head - HEADS - tl.where(is_value, KV_HEADS, 0)
        target = rows_at(addresses, layer, sequence, key_head, qkv)
        target += tl.where(is_value, tl.load(addresses + 1), 0)
        tl.store(target + at * D + d, value, mask=inside)


@triton.jit(do_not_specialize=["layer", "n"])  # type: ignore[untyped-decorator]
def store_rows(
    keys: tl.tensor,  # [sequences, KV_HEADS, n, D]
    values: tl.tensor,
    like: tl.tensor,  # anything of the cache's number format
    addresses: tl.tensor,
    starts: tl.tensor,
    layer: tl.tensor,
    n: tl.tensor,
    k_s: tl.tensor,
    k_h: tl.tensor,
    k_n: tl.tensor,
    k_d: tl.tensor,
    v_s: tl.tensor,
    v_h: tl.tensor,
    v_n: tl.tensor,
    v_d: tl.tensor,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
) -> None:
    """Grid (sequences * n, KV_HEADS): new keys and values to the cache."""
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    sequence, node = row // n, row % n
    d = tl.arange(0, BLOCK_D)
    inside = d < D
    target = rows_at(addresses, layer, sequence, head, like) + (tl.load(starts + sequence) + node) * D + d
    key = tl.load(keys + sequence * k_s + head * k_h + node * k_n + d * k_d, mask=inside, other=0.0)
    value = tl.load(values + sequence * v_s + head * v_h + node * v_n + d * v_d, mask=inside, other=0.0)
    tl.store(target, key.to(like.dtype.element_ty), mask=inside)
    tl.store(target + tl.load(addresses + 1), value.to(like.dtype.element_ty), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def gate_rows(
    gate_up: tl.tensor,  # [rows, 2 * WIDTH], contiguous
    out: tl.tensor,  # [rows, WIDTH]
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Grid (rows, blocks of columns): silu(gate) * up."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < WIDTH
    gate = tl.load(gate_up + row * 2 * WIDTH + at, mask=inside, other=0.0)
    up = tl.load(gate_up + row * 2 * WIDTH + WIDTH + at, mask=inside, other=0.0)
    wide = gate.to(tl.float32)
    active = (wide * tl.sigmoid(wide)).to(gate.dtype)
    product = (active.to(tl.float32) * up.to(tl.float32)).to(gate.dtype)
    tl.store(out + row * WIDTH + at, product, mask=inside)


@triton.jit(do_not_specialize=["most"])  # type: ignore[untyped-decorator]
def best_of_blocks(
    logits: tl.tensor,  # [.., V], rows `row` apart
    pick: tl.tensor,  # [1] int64: the one row that is wanted; or unused
    values: tl.tensor,  # [rows, blocks, WIDTH] float32
    ids: tl.tensor,  # [rows, blocks, WIDTH] int64
    sums: tl.tensor,  # [rows, blocks] float32: log-sum-exps
    most: tl.tensor,
    row: tl.tensor,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    PICKS: tl.constexpr,
) -> None:
    """Grid (rows, blocks): the best of a block of a row's first `most` logits, in descending order."""
    index = tl.program_id(0).to(tl.int64)
    source = tl.load(pick) if PICKS else index
    block, blocks = tl.program_id(1), tl.num_programs(1)
    column = tl.arange(0, BLOCK)
    at = block * BLOCK + column
    x = tl.load(logits + source * row + at, mask=at < most, other=float("-inf")).to(tl.float32)
    top = tl.max(x, 0)
    top = tl.where(top == float("-inf"), 0.0, top)  # where nothing of the block is possible, its sum is 0
    tl.store(sums + index * blocks + block, top + tl.log(tl.sum(tl.exp(x - top), 0)))
    x = tl.where(x == x, x, float("-inf"))  # the sums keep NaN; a maximum among NaN may lie anywhere
    target = (index * blocks + block) * WIDTH
    for number in tl.range(0, WIDTH):
        best, where = tl.max(x, 0), tl.argmax(x, 0)
        tl.store(values + target + number, best)
        tl.store(ids + target + number, (block * BLOCK + where).to(tl.int64))
        x = tl.where(column == where, float("-inf"), x)


@triton.jit  # type: ignore[untyped-decorator]
def best_of_rows(
    values: tl.tensor,  # [rows, COUNT] float32, COUNT of all blocks together
    ids: tl.tensor,
    sums: tl.tensor,  # [rows, BLOCKS]
    vocabulary: tl.tensor,  # [V] int64, or unused
    shares: tl.tensor,  # [rows, WIDTH] float32
    tokens: tl.tensor,  # [rows, WIDTH] int64
    WIDTH: tl.constexpr,
    COUNT: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCKS: tl.constexpr,
    BLOCK_S: tl.constexpr,
    MAPS: tl.constexpr,
) -> None:
    """Grid (rows): probabilities of the best, and their tokens."""
    row = tl.program_id(0).to(tl.int64)
    part = tl.arange(0, BLOCK_S)
    parts = tl.load(sums + row * BLOCKS + part, mask=part < BLOCKS, other=float("-inf"))
    top = tl.max(parts, 0)
    whole = top + tl.log(tl.sum(tl.exp(parts - top), 0))
    column = tl.arange(0, BLOCK)
    x = tl.load(values + row * COUNT + column, mask=column < COUNT, other=float("-inf"))
    for number in tl.range(0, WIDTH):
        best, where = tl.max(x, 0), tl.argmax(x, 0)
        token = tl.load(ids + row * COUNT + where)
        if MAPS:
            token = tl.load(vocabulary + token)
        tl.store(shares + row * WIDTH + number, tl.exp(best - whole))
        tl.store(tokens + row * WIDTH + number, token)
        x = tl.where(column == where, float("-inf"), x)


@triton.jit  # type: ignore[untyped-decorator]
def choose_level(
    shares: tl.tensor,  # [rows, WIDTH] float32; of the first level one row, else WIDTH
    ids: tl.tensor,  # [rows, WIDTH] int64
    begin: tl.tensor,  # [3] int64: unused, position and cache row of the first level; read with FIRST
    tokens: tl.tensor,  # from here on, the level's: [WIDTH] int64
    positions: tl.tensor,  # [WIDTH] int64
    words: tl.tensor,  # [WIDTH, WORDS] int64
    starts: tl.tensor,  # [1] int64
    lengths: tl.tensor,  # [2] int64
    scores: tl.tensor,  # [WIDTH] float32
    nodes: tl.tensor,  # [WIDTH] int64
    above: tl.tensor,  # [WIDTH] int64: rows of the level before
    count: tl.tensor,  # [1] int64: nodes of the tree
    tree: tl.tensor,  # [3, candidates] int64: tokens, parents, bits of scores
    candidates: tl.tensor,
    WIDTH: tl.constexpr,
    WORDS: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCK_W: tl.constexpr,
    FIRST: tl.constexpr,
) -> None:
    """One program: add the children to the tree, and make the best of them the next level."""
    lane = tl.arange(0, BLOCK_W)
    inside = lane < WIDTH
    column = tl.arange(0, BLOCK)
    if FIRST:
        position, start = tl.load(begin + 1), tl.load(begin + 2)
        slots, size = tl.full([], 0, tl.int64), tl.full([], 1, tl.int64)
        known = column < WIDTH
        child = tl.load(shares + column, mask=known, other=0.0)
        parent = tl.zeros([BLOCK], tl.int64)
    else:
        position, start = tl.load(positions) + 1, tl.load(starts) + WIDTH
        slots, size = tl.load(lengths + 1), tl.load(count)
        known = column < WIDTH * WIDTH
        own = tl.load(scores + column // WIDTH, mask=known, other=0.0)
        child = own * tl.load(shares + column, mask=known, other=0.0)
        parent = tl.load(nodes + column // WIDTH, mask=known, other=0)
    token = tl.load(ids + column, mask=known, other=0)
    tl.store(tree + size + column, token, mask=known)
    tl.store(tree + candidates + size + column, parent, mask=known)
    tl.store(tree + 2 * candidates + size + column, child.to(tl.int32, bitcast=True).to(tl.int64), mask=known)
    rank = tl.where(known, tl.where(child == child, child, 0.0), -1.0)  # scores keep NaN, which ends drafting
    low = tl.load(words + lane * WORDS, mask=inside, other=0)
    high = tl.load(words + lane * WORDS + 1, mask=inside, other=0)
    tl.debug_barrier()  # everything is read before the level is overwritten
    for number in tl.range(0, WIDTH):
        if FIRST:
            where, row = tl.full([], 0, tl.int32) + number, tl.full([], 0, tl.int32)
            near, far = tl.full([], 0, tl.int64), tl.full([], 0, tl.int64)
        else:
            where = tl.argmax(rank, 0)
            row = where // WIDTH
            near, far = tl.sum(tl.where(lane == row, low, 0), 0), tl.sum(tl.where(lane == row, high, 0), 0)
        here = column == where
        slot = slots + number
        bit = tl.full([], 1, tl.int64) << (slot % 64)
        tl.store(words + number * WORDS, near | tl.where(slot < 64, bit, 0))
        tl.store(words + number * WORDS + 1, far | tl.where(slot < 64, 0, bit))
        tl.store(tokens + number, tl.sum(tl.where(here, token, 0), 0))
        tl.store(scores + number, tl.sum(tl.where(here, child, 0.0), 0))
        tl.store(nodes + number, size + where)
        tl.store(above + number, row.to(tl.int64))
        rank = tl.where(here, -1.0, rank)
    tl.store(positions + lane, tl.zeros([BLOCK_W], tl.int64) + position, mask=inside)
    tl.store(starts, start)
    tl.store(lengths, start + WIDTH)
    tl.store(lengths + 1, slots + WIDTH)
    grown = WIDTH if FIRST else WIDTH * WIDTH
    tl.store(count, size + grown)
