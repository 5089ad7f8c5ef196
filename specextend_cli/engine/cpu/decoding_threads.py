"""How many threads to decode with: few rows share little work, and threads that wait for each other take time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING

import torch
from torch import nn

from specextend_cli.engine.attention.function import ForwardContext
from specextend_cli.engine.tree import from_lists

if TYPE_CHECKING:
    from specextend_cli.engine.lm import LanguageModel

_SEEN = 2048  # tokens behind which steps are timed
_NODES = 8
_ROUNDS = 7
FEWEST = 2
_WORTH = 0.95  # of the time with all threads; less is noise
_SMALL = 500_000_000  # parameters


@contextmanager
def on_threads(count: int | None) -> Iterator[None]:
    """Compute with so many threads; None: with those there are."""
    before = torch.get_num_threads()
    if count in (None, before):
        yield
        return
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def probing_threads(model: nn.Module) -> int | None:
    """Threads for the few short forwards with which a model is checked when it is loaded; None: those there are.

    One, for a model that is read from memory in an instant: a second thread gains nothing there, and where other
    programs have the cores, threads that wait for each other take seconds.
    """
    return 1 if sum(weight.numel() for weight in model.parameters()) < _SMALL else None


def quickest(step: Callable[[], object], most: int, clock: Callable[[], float] = perf_counter) -> int:
    """`most`, or a half, a quarter, and so on, of it: whichever takes a step clearly less time. `FEWEST` at least.

    Each is timed in turn, and the least of its times counts: others on the machine only ever add to it.
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
                step()  # threads begin, or end
                began = clock()
                step()
                times[count] = min(times[count], clock() - began)
    best = min(counts, key=times.__getitem__)
    return best if times[best] < _WORTH * times[most] else most


@torch.inference_mode()
def decoding_threads(lm: LanguageModel) -> int:
    """Threads with which a token and a small tree take the least time, of those torch has now at most."""
    tokens = torch.arange(_SEEN) % lm.vocabulary
    positions, cache = torch.arange(_SEEN), lm.new_cache(_SEEN + _NODES)
    lm.forward(tokens, positions, cache, logits_to_keep=1)
    cache.commit()
    tree = from_lists([0] * _NODES, [0] * _NODES, [1.0] * _NODES, "cpu")

    def step() -> None:
        lm.forward(tokens[:1], positions[-1:] + 1, cache)
        cache.rollback()
        lm.forward(tree.tokens, _SEEN + tree.depths, cache, this_pass=ForwardContext(lm.backend, tree.mask))
        cache.rollback()

    return quickest(step, torch.get_num_threads())
