"""What a draft computes between a model's forwards, by three kernels (`draft_kernels.py`), and where a level lies."""

from __future__ import annotations

import torch
from torch import Tensor

from specextend_cli.engine.attention.triton_plan import power_of_two
from specextend_cli.engine.cuda.step import WORDS, StepInputs

_BLOCK = 1024  # logits of a program


class Level:
    """A draft tree in device memory, and its level that is expanded next, of `width` nodes.

    `inputs` are its forward's; `scores`, `nodes` (numbers in the tree) and `above` (rows of the level before) are
    [width]; `tree` [3, candidates] has every node's token, parent and the bits of its score, of which `count` [1] are
    there. The tree starts from the root's children (`shares` and `tokens` [1, width]), a head's `state` [1, hidden] at
    the root, and `begin` [3]: a number that is not read here, then the position and the cache row of the first level.
    All int64 but scores, shares and states.
    """

    def __init__(
        self, width: int, candidates: int, device: torch.device, states: Tensor | None, *, buffers: int = 1
    ) -> None:
        """`buffers` are those of the draft's cache."""
        self.inputs = StepInputs(width, 1, device, states, buffers=buffers, in_tree=True)
        self.scores = torch.zeros(width, device=device)
        self.nodes = torch.zeros(width, dtype=torch.long, device=device)
        self.above = torch.zeros_like(self.nodes)
        self.count = torch.zeros(1, dtype=torch.long, device=device)
        self.tree = torch.zeros(3, candidates, dtype=torch.long, device=device)
        self.shares = torch.zeros(1, width, device=device)
        self.tokens = torch.zeros(1, width, dtype=torch.long, device=device)
        self.state = None if states is None else states.new_zeros(1, states.shape[-1])
        self.begin = torch.zeros(3, dtype=torch.long, device=device)


def best(
    logits: Tensor,
    width: int,
    most: int,
    vocabulary: Tensor | None,
    *,
    row: Tensor | None = None,
    out: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """The `width` highest probabilities of each row of logits [rows, V], descending, and their tokens: [rows, width].

    Only the first `most` of V take part; `vocabulary` maps them to tokens. `row` [1] (int64) names the only row. They
    go to `out`, if there is one.
    """
    from specextend_cli.engine.cuda.draft_kernels import best_of_blocks, best_of_rows

    rows, device = len(logits) if row is None else 1, logits.device
    blocks = -(-most // _BLOCK)
    values = torch.empty(rows, blocks, width, device=device)
    ids = torch.empty(rows, blocks, width, dtype=torch.long, device=device)
    sums = torch.empty(rows, blocks, device=device)
    best_of_blocks[(rows, blocks)](
        *(logits, logits if row is None else row, values, ids, sums, most, logits.stride(0)),
        **{"WIDTH": width, "BLOCK": _BLOCK, "PICKS": row is not None, "num_warps": 4},
    )
    shares, tokens = out or (
        torch.empty(rows, width, device=device),
        torch.empty(rows, width, dtype=torch.long, device=device),
    )
    count = blocks * width
    best_of_rows[(rows,)](
        *(values, ids, sums, ids if vocabulary is None else vocabulary, shares, tokens),
        WIDTH=width,
        COUNT=count,
        BLOCK=power_of_two(count),
        BLOCKS=blocks,
        BLOCK_S=power_of_two(blocks),
        MAPS=vocabulary is not None,
        num_warps=1 if count <= 256 else 4,
    )
    return shares, tokens


def advance(level: Level, shares: Tensor, tokens: Tensor, begin: Tensor | None = None) -> None:
    """Add the children of the level's nodes to the tree and make the best of them the next level.

    `shares` and `tokens` [width, width] are the children's; with `begin` they are [1, width], the root's.
    """
    from specextend_cli.engine.cuda.draft_kernels import choose_level

    held, width = level.inputs, shares.shape[1]
    choose_level[(1,)](
        *(shares, tokens, held.tokens if begin is None else begin),
        *(held.tokens, held.positions, held.words, held.starts, held.lengths),
        *(level.scores, level.nodes, level.above, level.count, level.tree, level.tree.shape[1]),
        WIDTH=width,
        WORDS=WORDS,
        BLOCK=power_of_two(width if begin is not None else width * width),
        BLOCK_W=power_of_two(width),
        FIRST=begin is not None,
        num_warps=1,
    )
