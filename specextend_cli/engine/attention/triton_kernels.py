"""The Triton kernels of split-KV attention under a tree mask. Imports triton: only `triton_tree` may import this.

Flash-decoding (Dao et al., 2023) with the hybrid mask of SpecExtend, section 3. A program takes one key head, one block
of its queries and one share of the keys, and writes its output and log-sum-exp; `merge_splits` combines the shares. The
queries of all heads that share a key head are rows of one matrix, so a key is read once for all of them. Softmaxes are
in base 2, because the hardware has an exp2 instruction.

Names in capitals are compile-time constants. Lengths that change from step to step are not specialized on, so that no
kernel is compiled during decoding. A kernel that runs in a CUDA graph is PLACED: it reads where the cache lies, and how
many keys there are, from the device, so that one graph serves every cache (`cuda/body.py`).
"""

from __future__ import annotations

import triton
import triton.language as tl

_LOG2_E = tl.constexpr(1.4426950408889634)
_CHANGING = ["n", "total", "tree", "words_n", "splits", "layer"]
_LEAST_BLOCKS = tl.constexpr(2)  # of a share, where the host did not know how many there would be


@triton.jit  # type: ignore[untyped-decorator]
def _rows(
    base: tl.tensor,
    rows: tl.tensor,
    end: tl.tensor,
    stride: tl.tensor,
    stride_d: tl.tensor,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    EDGE: tl.constexpr,
) -> tl.tensor:
    """Rows [., BLOCK_D] of a matrix of `end` rows and D columns; zeros outside it. Without EDGE all rows are inside."""
    d = tl.arange(0, BLOCK_D)
    at = base + rows[:, None] * stride + d[None, :] * stride_d
    if EDGE:
        tile = tl.load(at, mask=(rows[:, None] < end) & (d[None, :] < D), other=0.0)
    elif BLOCK_D == D:
        tile = tl.load(at)
    else:
        tile = tl.load(at, mask=d[None, :] < D, other=0.0)
    return tile


@triton.jit  # type: ignore[untyped-decorator]
def rows_at(addresses: tl.tensor, layer: tl.tensor, sequence: tl.tensor, head: tl.tensor, like: tl.tensor) -> tl.tensor:
    """The address of a layer's keys of one sequence and head, in the number format of the pointer `like`."""
    base = tl.load(addresses).to(tl.pointer_type(like.dtype.element_ty))
    by_layer, by_sequence, by_head = tl.load(addresses + 2), tl.load(addresses + 3), tl.load(addresses + 4)
    return tl.multiple_of(base + layer * by_layer + sequence * by_sequence + head * by_head, 16)


@triton.jit  # type: ignore[untyped-decorator]
def _take_in(
    q: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    seen: tl.tensor,
    scale: tl.tensor,
    cap: tl.tensor,
    top: tl.tensor,
    mass: tl.tensor,
    out: tl.tensor,
    MASKED: tl.constexpr,
    CAPPED: tl.constexpr,
    PRECISION: tl.constexpr,
) -> tl.tensor:
    """One block of keys of the online softmax. `top` is each row's maximum so far, `mass` its sum."""
    scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
    if CAPPED:
        scores = (2 * tl.sigmoid(2 * scores) - 1) * cap  # the hyperbolic tangent
    if MASKED:
        scores = tl.where(seen, scores, float("-inf"))
    higher = tl.maximum(top, tl.max(scores, 1))
    weights = tl.exp2(scores - higher[:, None])
    shrink = tl.exp2(top - higher)
    mass = mass * shrink + tl.sum(weights, 1)
    out = tl.dot(weights.to(v.dtype), v, out * shrink[:, None], input_precision=PRECISION)
    return higher, mass, out


@triton.jit  # type: ignore[untyped-decorator]
def _but_for(words: tl.tensor, bits: tl.tensor) -> tl.tensor:
    """Each word without so many of its lowest bits; fewer than none are none."""
    kept = tl.full([], -1, tl.int64) << tl.minimum(tl.maximum(bits, 0), 63).to(tl.int64)
    return tl.where(bits < 64, words & kept, 0)


@triton.jit(do_not_specialize=_CHANGING)  # type: ignore[untyped-decorator]
def attend_split(
    q: tl.tensor,  # [sequences, H, n, D]
    k: tl.tensor,  # [H_kv, T, D] of one sequence; PLACED: anything of the cache's number format
    v: tl.tensor,
    words: tl.tensor,  # [n, words_n] int64, bit j of word w: node 64 w + j is seen; zeros behind the tree
    addresses: tl.tensor,  # [5] int64, see `cuda/body.py`, or unused
    lengths: tl.tensor,  # [sequences + 1] int64: keys of each, then those of the tree; or unused
    sinks: tl.tensor,  # [H], contiguous, or unused
    firsts: tl.tensor,  # [sequences, n] int32, the first key that each query sees, or unused
    out: tl.tensor,  # [splits, sequences, n, H, D], contiguous
    lse: tl.tensor,  # [splits, sequences, n, H] float32, contiguous, base 2
    n: tl.tensor,
    total: tl.tensor,
    tree: tl.tensor,
    words_n: tl.tensor,
    splits: tl.tensor,
    layer: tl.tensor,
    scale: tl.tensor,  # times log2(e); of capped scores, divided by the cap instead
    cap: tl.tensor,  # times log2(e)
    q_s: tl.tensor,
    q_h: tl.tensor,
    q_n: tl.tensor,
    q_d: tl.tensor,
    k_h: tl.tensor,
    k_t: tl.tensor,
    k_d: tl.tensor,
    v_h: tl.tensor,
    v_t: tl.tensor,
    v_d: tl.tensor,
    KV_HEADS: tl.constexpr,
    GROUPS: tl.constexpr,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    TAIL_N: tl.constexpr,
    CAUSAL: tl.constexpr,
    PLACED: tl.constexpr,
    WINDOWED: tl.constexpr,
    HAS_SINKS: tl.constexpr,
    CAPPED: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:
    """Grid (query blocks, sequences * key heads, splits).

    Programs that read the same keys start side by side and share the L2.
    """
    sequence = tl.program_id(1) // KV_HEADS
    sequences = tl.num_programs(1) // KV_HEADS
    head = tl.program_id(1) % KV_HEADS
    split = tl.program_id(2)
    if PLACED:
        total = tl.load(lengths + sequence).to(tl.int32)
        if not CAUSAL:
            tree = tl.load(lengths + sequences).to(tl.int32)
        keys = rows_at(addresses, layer, sequence, head, k)
        values = tl.multiple_of(keys + tl.load(addresses + 1), 16)
    else:
        keys = k + head.to(tl.int64) * k_h
        values = v + head.to(tl.int64) * v_h
    prefix = total - tree

    # Row r is node r // GROUPS of the (r % GROUPS)-th query head of this key head.
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    node = rows // GROUPS
    query_head = head * GROUPS + rows % GROUPS
    d = tl.arange(0, BLOCK_D)
    inside = (node[:, None] < n) & (d[None, :] < D)
    own = q + sequence.to(tl.int64) * q_s
    queries = tl.load(
        own + query_head[:, None].to(tl.int64) * q_h + node[:, None] * q_n + d[None, :] * q_d, mask=inside, other=0.0
    )

    # A finite minimum avoids inf - inf in a row that sees nothing in this share.
    top = tl.full([BLOCK_M], -1e30, tl.float32)
    mass = tl.full([BLOCK_M], 0.0, tl.float32)
    acc = tl.full([BLOCK_M, BLOCK_D], 0.0, tl.float32)
    if HAS_SINKS:  # noqa: SIM102 - known when it is compiled, unlike the split
        if split == 0:  # a sink is a score that one share begins with
            top = tl.load(sinks + query_head, mask=node < n, other=0.0).to(tl.float32) * _LOG2_E
            mass = tl.full([BLOCK_M], 1.0, tl.float32)

    # Whole blocks of the prefix need no mask; the rest of the prefix and the tree are read in smaller, masked ones.
    # With windows, blocks up to `skipped` are not read, and those up to `edge` are masked.
    whole = prefix // BLOCK_N
    tail = whole * BLOCK_N
    skipped, edge = 0, 0
    if WINDOWED:
        tl.static_assert(BLOCK_N == TAIL_N)
        oldest = tl.load(firsts + sequence * n + node, mask=node < n, other=0)
        skipped = tl.minimum(tl.min(tl.where(node < n, oldest, total), 0) // BLOCK_N, whole)
        edge = tl.minimum(tl.cdiv(tl.max(oldest, 0), BLOCK_N), whole)
    blocks = whole + tl.cdiv(total - tail, TAIL_N)
    share = tl.cdiv(blocks - skipped, splits)
    if PLACED:
        share = tl.maximum(share, _LEAST_BLOCKS)
    first = skipped + split * share
    last = tl.minimum(first + share, blocks)
    for block in tl.range(tl.maximum(first, edge), tl.minimum(last, whole)):
        at = block * BLOCK_N + tl.arange(0, BLOCK_N)
        key = _rows(keys, at, total, D if PLACED else k_t, 1 if PLACED else k_d, D, BLOCK_D, False)
        value = _rows(values, at, total, D if PLACED else v_t, 1 if PLACED else v_d, D, BLOCK_D, False)
        top, mass, acc = _take_in(queries, key, value, None, scale, cap, top, mass, acc, False, CAPPED, PRECISION)
    behind = tl.maximum(first, whole)
    before = tl.maximum(tl.minimum(last, edge) - first, 0)
    for block in tl.range(behind - before, tl.maximum(last, behind), num_stages=1):
        if WINDOWED:
            block = tl.where(block < behind, first + block - (behind - before), block)
            oldest = tl.load(firsts + sequence * n + node, mask=node < n, other=0)  # registers are few
        start = tail + (block - whole) * TAIL_N
        at = start + tl.arange(0, TAIL_N)
        slot = at - prefix
        if CAUSAL:
            seen = slot[None, :] <= node[:, None]
            if WINDOWED:
                seen = seen & (at[None, :] >= oldest[:, None])
        else:
            # A block of at most 64 slots touches two words. Slots before the tree read as ones; behind it are zeros.
            word = (start - prefix) >> 6
            bit = slot - (word << 6)
            near = tl.load(words + node * words_n + word, mask=(node < n) & (word >= 0), other=-1)
            next_word = (node < n) & (word >= -1) & (word + 1 < words_n)
            far = tl.load(words + node * words_n + word + 1, mask=next_word, other=0)
            far = tl.where(word < -1, -1, far)
            if WINDOWED:
                near = _but_for(near, oldest - prefix - (word << 6))
                far = _but_for(far, oldest - prefix - (word << 6) - 64)
            bits = tl.where(bit[None, :] < 64, near[:, None], far[:, None])
            seen = ((bits >> (bit & 63)[None, :].to(tl.int64)) & 1) != 0
        key = _rows(keys, at, total, D if PLACED else k_t, 1 if PLACED else k_d, D, BLOCK_D, True)
        value = _rows(values, at, total, D if PLACED else v_t, 1 if PLACED else v_d, D, BLOCK_D, True)
        top, mass, acc = _take_in(queries, key, value, seen, scale, cap, top, mass, acc, True, CAPPED, PRECISION)

    some = tl.where(mass > 0, mass, 1.0)
    row = ((split * sequences + sequence).to(tl.int64) * n + node) * (KV_HEADS * GROUPS) + query_head
    tl.store(out + row[:, None] * D + d[None, :], (acc / some[:, None]).to(out.dtype.element_ty), mask=inside)
    tl.store(lse + row, tl.where(mass > 0, top + tl.log2(some), float("-inf")), mask=node < n)


@triton.jit(do_not_specialize=["splits"])  # type: ignore[untyped-decorator]
def merge_splits(
    parts: tl.tensor,  # [splits, rows, D] float32
    lse: tl.tensor,  # [splits, rows] float32, base 2
    out: tl.tensor,  # [rows, D]
    splits: tl.tensor,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_S: tl.constexpr,
) -> None:
    """Grid (rows): softmaxes over disjoint keys, weighted by their log-sum-exps. A share without keys has weight 0."""
    row = tl.program_id(0).to(tl.int64)
    rows = tl.num_programs(0)
    split = tl.arange(0, BLOCK_S)
    d = tl.arange(0, BLOCK_D)
    sums = tl.load(lse + split * rows + row, mask=split < splits, other=float("-inf"))
    weights = tl.exp2(sums - tl.maximum(tl.max(sums, 0), -1e30))
    inside = (split[:, None] < splits) & (d[None, :] < D)
    part = tl.load(parts + (split[:, None] * rows + row) * D + d[None, :], mask=inside, other=0.0)
    mass = tl.sum(weights, 0)
    merged = tl.sum(part * weights[:, None], 0) / tl.where(mass > 0, mass, 1.0)
    tl.store(out + row * D + d, merged.to(out.dtype.element_ty), mask=d < D)


@triton.jit(do_not_specialize=["window", "words_n"])  # type: ignore[untyped-decorator]
def first_keys(
    words: tl.tensor,  # see `attend_split`
    lengths: tl.tensor,
    firsts: tl.tensor,
    window: tl.tensor,
    words_n: tl.tensor,
    SLOTS: tl.constexpr,
    CAUSAL: tl.constexpr,
) -> None:
    """Grid (n, sequences): the first key that a query sees through a window (see `windows.py`)."""
    row, sequence, sequences = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    prefix = tl.load(lengths + sequence) - 1
    path, oldest = tl.full([], 1, tl.int64), tl.full([], 0, tl.int64)
    if not CAUSAL:
        prefix = prefix + 1 - tl.load(lengths + sequences)
        slot = tl.arange(0, SLOTS)
        word = tl.load(words + row * words_n + slot // 64, mask=slot // 64 < words_n, other=0)
        node = (word >> (slot % 64).to(tl.int64)) & 1
        path = tl.maximum(tl.sum(node, 0), 1)  # surplus rows have no bits
        since = path - tl.cumsum(node, 0) + node  # nodes of the path from this one on
        oldest = tl.min(tl.where((node != 0) & (since <= window), slot, SLOTS), 0).to(tl.int64)
    first = tl.where(path > window, prefix + oldest, tl.maximum(prefix + path - window, 0))
    tl.store(firsts + sequence * tl.num_programs(0) + row, first.to(tl.int32))
