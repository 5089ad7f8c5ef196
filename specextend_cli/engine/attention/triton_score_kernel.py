"""The Triton kernel behind `triton_scores`. Imports triton: only that module may import this."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["total", "chunks"])  # type: ignore[untyped-decorator]
def chunk_log_sums(
    q: tl.tensor,  # [H, D]
    k: tl.tensor,  # [H_kv, T, D]
    out: tl.tensor,  # [H, chunks] float32, contiguous, natural logarithms
    total: tl.tensor,
    chunks: tl.tensor,
    scale: tl.tensor,  # times log2(e)
    q_h: tl.tensor,
    q_d: tl.tensor,
    k_h: tl.tensor,
    k_t: tl.tensor,
    k_d: tl.tensor,
    GROUPS: tl.constexpr,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    CHUNK: tl.constexpr,
    CHUNKS: tl.constexpr,
) -> None:
    """Grid (blocks of CHUNKS chunks, key heads): log-sum-exps of the chunks, minus infinity without keys."""
    head = tl.program_id(1)
    row = tl.arange(0, BLOCK_M)
    query_head = head * GROUPS + row
    at = tl.program_id(0) * (CHUNKS * CHUNK) + tl.arange(0, CHUNKS * CHUNK)
    logits = tl.full([BLOCK_M, CHUNKS * CHUNK], 0.0, tl.float32)
    for first in tl.range(0, D, BLOCK_D, num_stages=1):  # all dimensions at once would not fit into registers
        d = first + tl.arange(0, BLOCK_D)
        queries = tl.load(
            q + query_head[:, None] * q_h + d[None, :] * q_d, mask=(row[:, None] < GROUPS) & (d[None, :] < D), other=0.0
        )
        keys = tl.load(
            k + head.to(tl.int64) * k_h + at[None, :] * k_t + d[:, None] * k_d,
            mask=(at[None, :] < total) & (d[:, None] < D),
            other=0.0,
        )
        logits = tl.dot(queries, keys, logits, input_precision="ieee")
    logits = tl.where(at[None, :] < total, logits * scale, float("-inf"))
    by_chunk = tl.reshape(logits, [BLOCK_M, CHUNKS, CHUNK])
    top = tl.maximum(tl.max(by_chunk, 2), -1e30)  # finite, so that a chunk without keys is free of inf - inf
    mass = tl.sum(tl.exp2(by_chunk - top[:, :, None]), 2)
    sums = tl.where(mass > 0, (top + tl.log2(tl.where(mass > 0, mass, 1.0))) * 0.6931471805599453, float("-inf"))
    chunk = tl.program_id(0) * CHUNKS + tl.arange(0, CHUNKS)
    tl.store(
        out + query_head[:, None] * chunks + chunk[None, :],
        sums,
        mask=(row[:, None] < GROUPS) & (chunk[None, :] < chunks),
    )
