"""One forward: what it reads, what it gives, and the interface of whatever computes it.

A `LanguageModel` and an `EagleHead` each have one `Runner`, which takes every step: at first their own modules, else
the native library (`native_runner.py`) or CUDA graphs (`cuda/graphs.py`), which leave the rest to the modules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from specextend_cli.engine.attention.function import Backend, ForwardContext, Queries
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.tree import DraftTree


@dataclass
class Step(ForwardContext):
    """The inputs of one forward: rows of a prompt, nodes of a tree, or one token of each of several `sequences`.

    `tokens` and `positions` are [rows]; with `tree_mask` [rows, slots] they are nodes of a tree, whose slots are its
    rows in the cache. `logits_to_keep` 0 keeps every row's logits, otherwise those of the last ones. `feature_layers`
    asks a language model for hidden states, which transformers numbers: i is the input of layer i, the last one the
    output of the final norm. A head joins its tokens with `states` [rows, hidden], or makes these of the target's
    `features` [rows, layers * hidden]. `backend` None is a language model's own; a head has none. It is used once.
    """

    tokens: Tensor
    positions: Tensor
    cache: Any
    _: KW_ONLY
    sequences: int = 1
    logits_to_keep: int = 0
    feature_layers: Sequence[int] = ()
    states: Tensor | None = None
    features: Tensor | None = None
    tree: DraftTree | None = None
    """The nodes, while they are on the host alone: `upload` sets the tensors."""
    root: int = 0
    """Its position."""

    @classmethod
    def of_tree(cls, tree: DraftTree, root: int, cache: KVCache, **given: Any) -> Step:
        """Of a tree's nodes, its root at position `root`."""
        nothing = torch.empty(0, dtype=torch.long)
        return cls(nothing, nothing, cache, tree=tree, root=root, **given)

    def __len__(self) -> int:
        return len(self.tokens) if self.tree is None else len(self.tree)

    def reserve(self) -> None:
        """Rows of the cache for its rows; those of a batch, and of training's cache, need no reservation."""
        if isinstance(self.cache, KVCache) and not self.cache.is_batch:
            self.cache.reserve(len(self))

    def upload(self) -> None:
        """Set the tensors of a tree that is on the host alone."""
        if self.tree is not None:
            nodes = self.tree.on(self.cache.device)
            self.tokens, self.positions = nodes.tokens, self.root + nodes.depths
            self.tree_mask = nodes.mask if len(self.tree) > 1 else None


class Output(NamedTuple):
    """What one forward gives, of a language model or a head.

    `logits` [kept rows, vocabulary], which may lie in a graph's memory until the next forward. `features` [rows,
    widths]: the hidden states that were asked for, side by side; None without any. `state` [rows, hidden]: of a head,
    what its next step reads. `queries`: of the recorded layers.
    """

    logits: Tensor
    features: Tensor | None = None
    state: Tensor | None = None
    queries: Queries = {}  # noqa: RUF012 - nobody changes it


class WholeDrafts(Protocol):
    """Grows a draft tree without the host (`cuda/draft_graphs.py`)."""

    def takes(self, shape: TreeShape) -> bool:
        """Whether it can."""

    def grow(
        self, token: int, pending: Tensor, features: Tensor | None, position: int, cache: KVCache, shape: TreeShape
    ) -> DraftTree:
        """The tree around `token`, the last of the `pending` tokens [n], of which the first one is at `position`.

        `features` [n, ..] are the target's before them, for a head. Pending tokens' keys become the cache's first rows
        behind the committed ones, uncommitted; the tree's come after them.
        """


class Runner:
    """Computes the forwards of a model or a head: by its own modules; what derives from it, by others where it can.

    `most_rows`: committed tokens that a head had better read in one forward; of more, only the last one's output is
    computed. `exact_rows`: tree nodes or sequences of a forward up to which they pay, and are rounded as a single one
    is; None: no such number is known. `drafts`: what grows whole trees with the model, if anything does.
    """

    most_rows: int = 16
    exact_rows: int | None = None
    drafts: WholeDrafts | None = None

    def __init__(self, model: Any) -> None:
        self._model = model

    def run(self, step: Step) -> Output:
        """The output, with the cache's reserved rows written."""
        output: Output = self._model.run_modules(step)
        return output

    def follows_trees(self, nodes: int, attention: Backend) -> bool:
        """Whether it computes trees of so many nodes that branch with recurrent layers, too, by this attention."""
        return False

    def slots(self, sequences: int) -> int:
        """For how many sequences a batch's cache should have memory if so many are decoded together."""
        return sequences

    def batch_size(self, most: int) -> int:
        """The largest number of sequences up to `most` that needs memory for no more of them."""
        return most
