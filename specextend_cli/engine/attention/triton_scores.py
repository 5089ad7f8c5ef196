"""A query's attention summed over each chunk of the input: the scores of retrieval (SpecExtend, section 4).

A softmax summed over a chunk is the softmax of the chunks' log-sum-exps. One kernel therefore reads the keys once and
writes one number per head and chunk; the [H, T] logits and weights are never built. Only the GPU suite uses it so far.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import pad

from specextend_cli.engine.attention.triton_plan import MOST_REGISTERS, power_of_two, score_launch

_KEYS = 128  # per program


def chunk_attention(queries: Tensor, keys: Tensor, scale: float, *, chunk: int = 32) -> Tensor:
    """queries [H, d], keys [H_kv, T, d], any strides -> [ceil(T / chunk)] float32: mean over heads, summing to 1.

    Chunks are cut from the start; `chunk` 1 gives every key's own share. On CUDA, or in Triton's interpreter.
    ValueError for a chunk that is not a power of two up to 128.
    """
    from specextend_cli.engine.attention.triton_kernels import chunk_log_sums

    if chunk not in (1, 2, 4, 8, 16, 32, 64, _KEYS):
        raise ValueError(f"a chunk of {chunk} keys does not divide a block of {_KEYS}")
    heads, d = queries.shape
    kv_heads, total = keys.shape[:2]
    chunks, groups = -(-total // chunk), heads // kv_heads
    step, warps = score_launch(d, keys.element_size())
    sums = torch.empty(heads, chunks, dtype=torch.float32, device=queries.device)
    chunk_log_sums[(-(-total // _KEYS), kv_heads)](
        queries,
        keys,
        sums,
        total,
        chunks,
        scale * math.log2(math.e),
        *queries.stride(),
        *keys.stride(),
        GROUPS=groups,
        D=d,
        BLOCK_D=step,
        BLOCK_M=power_of_two(groups),
        CHUNK=chunk,
        CHUNKS=_KEYS // chunk,
        num_warps=warps,
        maxnreg=MOST_REGISTERS,
    )
    return sums.softmax(-1).mean(0)


def chunk_attention_torch(queries: Tensor, keys: Tensor, scale: float, *, chunk: int = 32) -> Tensor:
    """The same in torch, as `Target.attention_from` computes it, for one layer."""
    kv_heads, total, d = keys.shape
    logits = torch.matmul(queries.reshape(kv_heads, -1, d), keys.transpose(1, 2)).float() * scale
    shares = logits.softmax(-1).mean((0, 1))
    return pad(shares, (0, -total % chunk)).reshape(-1, chunk).sum(-1)
