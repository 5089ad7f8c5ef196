"""In which pieces a prompt is read. They decide how it is rounded, so everyone who reads one reads these."""

from __future__ import annotations

from itertools import pairwise


def prefill_chunks(tokens: int, chunk: int, shared: int = 0) -> list[tuple[int, int]]:
    """(start, end) of pieces of at most `chunk` of a prompt's tokens; no piece runs across the first `shared` ones.

    What prompts begin with alike can then be read once for all of them. The last token is never among it: something has
    to be read for what follows.
    """
    shared = min(shared, tokens - 1)
    return list(pairwise([*range(0, shared, chunk), *range(shared, tokens, chunk), tokens]))
