"""Where a cache lies, in device memory: a CUDA graph that reads it there serves every cache, of any size.

Five integers (int64): the address of the first key; then, in numbers of the cache's format, the distances from a key to
its value, and from one layer, sequence and head to the next. Rows of a head lie side by side.
"""

from __future__ import annotations

from torch import Tensor

from specextend_cli.engine.batched_cache import BatchedKVCache
from specextend_cli.engine.cache import KVCache

SIZE = 5


def place_of(cache: KVCache | BatchedKVCache) -> tuple[int, int, int, int, int]:
    """The five integers of a cache's present memory."""
    buffer: Tensor = cache.buffer
    by_kind, by_layer, *by_sequence, by_head, _, _ = buffer.stride()
    return buffer.data_ptr(), by_kind, by_layer, by_sequence[0] if by_sequence else 0, by_head
