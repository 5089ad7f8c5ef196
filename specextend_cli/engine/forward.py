"""One forward of a model, and the interface of whatever computes it in place of the model.

The native forward (`cpu/native_model.py`, `cpu/native_head.py`) and CUDA graphs (`cuda/graphs.py`) are
`ForwardBackend`s. A `LanguageModel` and an `EagleHead` hold at most one each and run themselves where it declines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

from torch import Tensor
from transformers.cache_utils import Cache

from specextend_cli.engine.attention.function import Backend, ForwardContext
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.tree import DraftTree

Out = TypeVar("Out", covariant=True)


class ForwardInput(NamedTuple):
    """What one forward reads.

    `tokens` and `positions` are [b, n] for a language model and [n] for a head; `states` [n, hidden] are what a head
    joins its tokens with, or `features` [n, layers * hidden] what it makes these of, for backends that take them. The
    cache has rows reserved for the tokens. `logits_to_keep` 0 keeps every token's logits,
    otherwise those of the last ones; `feature_layers` asks a language model for hidden states, which transformers
    numbers: i is the input of layer i, the last one the output of the final norm.
    """

    tokens: Tensor
    positions: Tensor
    cache: Cache
    context: ForwardContext
    logits_to_keep: int = 0
    feature_layers: tuple[int, ...] = ()
    states: Tensor | None = None
    features: Tensor | None = None


class ModelOutput(NamedTuple):
    """A language model's `logits` [b, kept, vocabulary].

    `features` [b, rows >= n, widths] are the hidden states that were asked for, side by side; None without any.
    """

    logits: Tensor
    features: Tensor | None

    def first(self, n: int) -> ModelOutput:
        """The only sequence's, of n tokens: without b."""
        return ModelOutput(self.logits[0], None if self.features is None else self.features[0, :n])


class HeadOutput(NamedTuple):
    """A draft head's `logits` [kept, draft vocabulary] and `states` [n, hidden], which its next step reads."""

    logits: Tensor
    states: Tensor


class WholeDrafts(Protocol):
    """Grows a draft tree without the host (`cuda/draft_graphs.py`)."""

    def takes(self, pending: int, shape: TreeShape) -> bool:
        """Whether it can, with so many pending tokens."""

    def grow(
        self, token: int, pending: Tensor, features: Tensor | None, position: int, cache: KVCache, shape: TreeShape
    ) -> DraftTree:
        """The tree around `token`, the last of the `pending` tokens [n], of which the first one is at `position`.

        `features` [n, ..] are the target's before them, for a head. Pending tokens' keys become the cache's first rows
        behind the committed ones, uncommitted; the tree's come after them.
        """


class ForwardBackend(Protocol[Out]):
    """Computes a model's forward; `Out` is `ModelOutput` or `HeadOutput`.

    `takes_features`: it makes a head's states of the target's itself. `most_rows`: committed tokens that a head had
    better read in one forward; of more, only the last one's output is computed. `drafts`: what grows whole trees with
    the model, if anything does.
    """

    takes_features: bool = False
    most_rows: int = 16
    drafts: WholeDrafts | None = None

    def run(self, inputs: ForwardInput) -> Out | None:
        """The output, with the cache's reserved rows written; None if the model itself has to run these inputs."""

    def run_tree(
        self, tree: DraftTree, position: int, cache: KVCache, context: ForwardContext, feature_layers: Sequence[int]
    ) -> Out | None:
        """`run` of a tree that is on the host, its root at `position`; None if tensors have to be made of it."""
        return None

    def follows_trees(self, nodes: int, attention: Backend) -> bool:
        """Whether it computes trees of so many nodes that branch with recurrent layers, too, by this attention."""
        return False

    def takes_batch(self, cache: KVCache) -> bool:
        """Whether it runs a batch by the lengths of its sequences alone, without a mask."""
        return False

    def slots(self, sequences: int) -> int:
        """For how many sequences a batch's cache should have memory if so many are decoded together."""
        return sequences

    def batch_size(self, most: int) -> int:
        """The largest number of sequences up to `most` that needs memory for no more of them."""
        return most
