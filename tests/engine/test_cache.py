from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest
import torch

from specextend_cli.engine import cache as cache_module
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.lm import LanguageModel
from tests.engine.tiny_models import tiny


def test_steps_do_not_move_the_buffer_and_growth_keeps_rows() -> None:
    cache = KVCache(tiny().config, capacity=10, dtype=torch.float32, device="cpu")
    cache.reserve(10)
    cache.buffers[0][..., :10, :] = torch.arange(10.0)[:, None]
    cache.commit()
    address = cache.buffers[0].data_ptr()
    for _ in range(20):
        cache.reserve(12)
        cache.commit([0, 2, 5])
    assert cache.buffers[0].data_ptr() == address
    cache.reserve(cache.capacity)
    assert cache.buffers[0].data_ptr() != address
    assert cache.buffers[0][1, 2, 0, 1, :10, 0].tolist() == list(range(10))


@pytest.mark.parametrize("name", ["llama", "gemma4"])
def test_memory_that_ran_out_leaves_a_cache_that_can_begin(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever of its buffers there was no memory for."""
    cache = LanguageModel(tiny(name)).new_cache(10)
    for failing, grow in product(range(len(cache.buffers)), (cache.begin, cache.reserve)):
        has_memory = iter([True] * failing + [False])

        def pages(buffer: torch.Tensor, has_memory: Iterator[bool] = has_memory) -> torch.Tensor:
            if not next(has_memory):
                raise torch.OutOfMemoryError
            return buffer

        with monkeypatch.context() as patched:
            patched.setattr(cache_module, "in_large_pages", pages)
            with pytest.raises(torch.OutOfMemoryError):
                grow(3 * cache.capacity + 1000)
        cache.begin(300)
        assert all(buffer.shape[4] >= 300 for buffer in cache.buffers)
