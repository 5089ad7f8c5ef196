"""Prefill boundaries. They affect rounding, so every reader of a prompt shares them."""

from __future__ import annotations

from itertools import pairwise


def prefill_chunks(tokens: int, chunk: int, shared_prefix: int = 0) -> list[tuple[int, int]]:
    """(start, end) of chunks of at most `chunk` tokens; none crosses the end of the first `shared_prefix` tokens.

    A prefix that several prompts share can then be read once. The last token is never part of it, because its logits
    are needed.
    """
    shared_prefix = min(shared_prefix, tokens - 1)
    return list(pairwise([*range(0, shared_prefix, chunk), *range(shared_prefix, tokens, chunk), tokens]))
