"""The number of threads that decodes fastest: few rows share little work, and threads that wait cost time."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import torch

from specextend_cli.engine.attention.function import ForwardContext
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.threads import on_threads
from specextend_cli.engine.tree import DraftTree

_SEEN = 2048  # tokens in the cache while steps are timed
_NODES = 8
_ROUNDS = 7
FEWEST = 2
_WORTH = 0.95  # of the time with all threads; less is noise


def quickest(step: Callable[[], object], most: int, clock: Callable[[], float] = perf_counter) -> int:
    """`most`, or a half, a quarter and so on, at least `FEWEST`: whichever count takes clearly less time per step.

    Counts are timed in turns and the least time of each is compared: other programs only ever add to it.
    """
    counts = [most]
    while counts[-1] >= 2 * FEWEST:
        counts.append(counts[-1] // 2)
    if len(counts) == 1:
        return most
    times = dict.fromkeys(counts, float("inf"))
    for _ in range(_ROUNDS):
        for count in counts:
            with on_threads(count):
                step()  # starts or ends threads
                began = clock()
                step()
                times[count] = min(times[count], clock() - began)
    best = min(counts, key=times.__getitem__)
    return best if times[best] < _WORTH * times[most] else most


@torch.inference_mode()
def decoding_threads(lm: LanguageModel) -> int:
    """The thread count, at most torch's present one, with which a token and a few take the least time."""
    tokens = torch.arange(_SEEN) % lm.vocabulary
    positions, cache = torch.arange(_SEEN), lm.new_cache(_SEEN + _NODES)
    lm.forward(tokens, positions, cache, logits_to_keep=1)
    cache.commit()
    chain = DraftTree([0] * _NODES, [max(node - 1, 0) for node in range(_NODES)], [1.0] * _NODES)

    def step() -> None:
        lm.forward(tokens[:1], positions[-1:] + 1, cache)
        cache.rollback()
        lm.forward_tree(chain, _SEEN, cache, context=ForwardContext(lm.backend))
        cache.rollback()

    return quickest(step, torch.get_num_threads())
