"""The Triton kernels that choose a draft tree's nodes. Imports triton: only `draft_ops` may import this."""

from __future__ import annotations

import triton
import triton.language as tl


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
    place = tl.arange(0, BLOCK)
    at = block * BLOCK + place
    x = tl.load(logits + source * row + at, mask=at < most, other=float("-inf")).to(tl.float32)
    top = tl.max(x, 0)
    tl.store(sums + index * blocks + block, top + tl.log(tl.sum(tl.exp(x - top), 0)))
    x = tl.where(x == x, x, float("-inf"))  # the sums keep NaN; a maximum among NaN may lie anywhere
    target = (index * blocks + block) * WIDTH
    for number in tl.range(0, WIDTH):
        best, where = tl.max(x, 0), tl.argmax(x, 0)
        tl.store(values + target + number, best)
        tl.store(ids + target + number, (block * BLOCK + where).to(tl.int64))
        x = tl.where(place == where, float("-inf"), x)


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
    place = tl.arange(0, BLOCK)
    x = tl.load(values + row * COUNT + place, mask=place < COUNT, other=float("-inf"))
    for number in tl.range(0, WIDTH):
        best, where = tl.max(x, 0), tl.argmax(x, 0)
        token = tl.load(ids + row * COUNT + where)
        if MAPS:
            token = tl.load(vocabulary + token)
        tl.store(shares + row * WIDTH + number, tl.exp(best - whole))
        tl.store(tokens + row * WIDTH + number, token)
        x = tl.where(place == where, float("-inf"), x)


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
    place = tl.arange(0, BLOCK)
    if FIRST:
        position, start = tl.load(begin + 1), tl.load(begin + 2)
        slots, size = tl.full([], 0, tl.int64), tl.full([], 1, tl.int64)
        known = place < WIDTH
        child = tl.load(shares + place, mask=known, other=0.0)
        parent = tl.zeros([BLOCK], tl.int64)
    else:
        position, start = tl.load(positions) + 1, tl.load(starts) + WIDTH
        slots, size = tl.load(lengths + 1), tl.load(count)
        known = place < WIDTH * WIDTH
        own = tl.load(scores + place // WIDTH, mask=known, other=0.0)
        child = own * tl.load(shares + place, mask=known, other=0.0)
        parent = tl.load(nodes + place // WIDTH, mask=known, other=0)
    token = tl.load(ids + place, mask=known, other=0)
    tl.store(tree + size + place, token, mask=known)
    tl.store(tree + candidates + size + place, parent, mask=known)
    tl.store(tree + 2 * candidates + size + place, child.to(tl.int32, bitcast=True).to(tl.int64), mask=known)
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
        here = place == where
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
