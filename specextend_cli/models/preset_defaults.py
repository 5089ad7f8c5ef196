"""What a preset leaves out: how a draft reads, what it sees, and the window, from shapes and a GPU's memory.

A preset file says only what is particular to it; `specextend models show` prints what is computed here, too.
"""

from __future__ import annotations

from collections.abc import Callable

from specextend_cli.engine.config import Retrieval, TreeShape
from specextend_cli.models.shape import GRAPHS, HEADROOM

TREE = TreeShape(nodes=50, depth=10, width=10, threshold=0.7)
RETRIEVAL = Retrieval(recent=128, positions="compact")
"""The paper's settings; those of drafts without a model."""

HEAD_TRAINED = 2048
"""Tokens that EAGLE heads were trained on, where nothing else is said."""

ANY_MACHINE = 8192
"""Tokens of a window that any machine has the memory for, and a processor the time."""

_CHUNK = 32  # tokens, the paper's
_MOST_CHUNKS = 64  # 2,048 tokens: more of them cost a draft more time than they gain
_MOST_RECENT = 256
_LARGEST_CONTEXT = 32768  # what the presets' targets were trained on, at least
_STEP = 2048


def retrieval(trained: int | None, tree: TreeShape) -> Retrieval:
    """The working set of a draft model: with what is added until it is chosen again, no more than it was trained on.

    Between two choices it grows by what is accepted: a tree's depth and one, at most, a step. None: as many tokens as
    the target, at their own positions.
    """
    most = Retrieval(
        chunk=_CHUNK,
        top_k=_MOST_CHUNKS,
        recent=_MOST_RECENT,
        every=8,
        positions="absolute" if trained is None else "compact",
    )
    if trained is None:
        return most
    recent = min(_MOST_RECENT, max(trained // 16, 1))
    room = trained - most.sinks - recent - most.every * (tree.depth + 1)
    top_k = min(_MOST_CHUNKS, max(room // _CHUNK, 1))
    return Retrieval(
        chunk=_CHUNK, top_k=top_k - top_k % 8 or top_k, recent=recent, every=most.every, positions=most.positions
    )


def context(needed: Callable[[int], int], gpu_memory: int | None) -> int:
    """Tokens of a window that a GPU of `gpu_memory` GB holds beside the pair; without one, that any machine holds.

    `needed` says the bytes of a window. ValueError: the GPU holds less than a useful one.
    """
    if gpu_memory is None:
        return ANY_MACHINE
    room = HEADROOM * gpu_memory * 10**9 - GRAPHS  # a GPU's GB are larger: the rest is its driver's
    sizes = range(_LARGEST_CONTEXT, _STEP, -_STEP)
    found = next((tokens for tokens in sizes if needed(tokens) <= room), None)
    if found is None:
        raise ValueError(f"a GPU of {gpu_memory} GB holds no window of {2 * _STEP:,} tokens beside these models")
    return found


def window_sizes(context: int) -> dict[str, int]:
    """`chunk`, `chunk_summary_tokens` and `summary_tokens` of a window: room is left for instructions and an answer."""
    chunk = 3 * context // 4 if context >= ANY_MACHINE else 2 * context // 3
    summaries = {"chunk_summary_tokens": min(512, context // 16), "summary_tokens": min(768, context // 10)}
    return {"context": context, "chunk": chunk, **summaries}
