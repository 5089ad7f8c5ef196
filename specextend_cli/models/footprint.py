"""The memory of a target and its draft, from their shapes alone."""

from __future__ import annotations

from dataclasses import dataclass

from specextend_cli.engine.config import Retrieval, TreeShape
from specextend_cli.models.block_shape import BlockShape
from specextend_cli.models.shape import HeadShape, Shape

HEADROOM = 0.92
"""The share of a device's memory that a preset may need; the rest is for the driver and fragmentation."""

_TREE_ROWS, _BATCH_ROWS = 139, 62  # of all graphs of one model: trees of up to 64 nodes, batches of up to 32 sequences
_MOST_ROWS = 64  # of one graph
_PENDING = (16, 8, 4, 2, 1)  # committed tokens that the graphs of a block head read
_WIDTH = 8  # of levels of draft trees, at most
_CUBLAS = 32 << 20  # its workspace for the stream of captures, on Hopper; elsewhere it is smaller
PREFILL = 1024
"""Tokens of the smallest prefill step, which bound its activations."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes, by use. `workspace` bounds the activations of a prefill step, a tree's logits, and its nodes' states.

    `packed` are the target's codes of four or eight bits, which a processor keeps beside its full weights. Not
    `complete` where the draft's sizes are unknown until it is fetched, so that it is not counted.
    """

    weights: int
    kv: int
    draft_weights: int
    draft_kv: int
    workspace: int
    complete: bool = True
    packed: int = 0

    @property
    def total(self) -> int:
        """Bytes in all."""
        return self.weights + self.kv + self.draft_weights + self.draft_kv + self.workspace + self.packed


@dataclass(frozen=True, slots=True)
class Footprint:
    """A pair's shapes and number formats (bytes a number); `draft` is None where there is no model, or none is known.

    `own` says that the target drafts for itself, `predicts` that a multi-token prediction layer of its own does.
    """

    target: Shape
    draft: Shape | HeadShape | BlockShape | None
    retrieval: Retrieval
    tree: TreeShape
    quantization: str = "none"
    item: int = 2
    draft_item: int = 2
    own: bool = False
    predicts: bool = False
    complete: bool = True

    def at(self, tokens: int) -> Estimate:
        """With a cache of so many tokens."""
        working = 0 if self.retrieval.policy == "full" else min(tokens, self.retrieval.size)
        draft_kv = self.draft.kv_bytes_per_token(self.draft_item) * (tokens + working) if self.draft else 0
        draft_weights = self.draft.weight_bytes(self.draft_item) if self.draft else 0
        if self.own:
            draft_kv += self.target.kv_bytes_per_token(self.item) * working
        if self.predicts:
            draft_kv += self.target.layer_kv_bytes_per_token(self.item) * (tokens + working)
            draft_weights += self.target.prediction_parameters * self.item
        return Estimate(
            weights=self.target.weight_bytes(self.item, self.quantization),
            kv=self.target.kv_bytes_per_token(self.item) * tokens + self.target.state_bytes,
            draft_weights=draft_weights,
            draft_kv=draft_kv,
            workspace=self.prefill(PREFILL) + self.tree.nodes * (2 * 4 * self.target.vocab + self.target.state_bytes),
            complete=self.complete,
        )

    @property
    def graphs(self) -> int:
        """Bytes that CUDA graphs of target and draft keep (`engine/cuda`).

        All outputs; of what is computed on the way, which lies in one pool, as much as a forward takes, and a block
        head's logits, which its graphs read themselves; a workspace.
        """
        kept, draft = self.graph_outputs, self.draft
        if isinstance(draft, BlockShape):
            logits = draft.block + (2 * _WIDTH if draft.markov_rank else 0)  # the Markov head's, and the sums with them
            kept += logits * (draft.output or self.target.vocab) * self.draft_item
        return kept + self.prefill(_MOST_ROWS) + _CUBLAS if kept else 0

    @property
    def graph_outputs(self) -> int:
        """Bytes of all graphs' outputs: each row's logits, and all layers' states and queries, or a head's two states.

        One of these two is an input; other inputs, numbers and what whole drafts begin with, are small. A block head's
        graphs keep their inputs only: the target's states, and what its layers read.
        """
        target, draft = self.target, self.draft
        size = (_TREE_ROWS + _BATCH_ROWS) * _outputs(target) * self.item
        if isinstance(draft, Shape):
            size += _TREE_ROWS * _outputs(draft) * self.draft_item
        if isinstance(draft, HeadShape):
            size += _TREE_ROWS * ((draft.draft_vocab or target.vocab) + 2 * draft.hidden) * self.draft_item
        if isinstance(draft, BlockShape):
            states = draft.fused * (draft.target_hidden or target.hidden) + draft.hidden
            size += (sum(_PENDING) * states + len(_PENDING) * draft.block * draft.hidden) * self.draft_item
        if self.predicts:
            size += _TREE_ROWS * (target.vocab + 2 * target.hidden) * self.item
        return size

    def prefill(self, tokens: int) -> int:
        """Activations of a prefill step of so many tokens in one layer.

        For a head, also all layers' states of the step, before its feature layers are selected.
        """
        shape = self.target
        row = 4 * shape.hidden + 3 * shape.active_intermediate + shape.head_dim * shape.heads
        reads = self.predicts or isinstance(self.draft, (HeadShape, BlockShape))
        states = (shape.layers + 1) * shape.hidden if reads else 0
        return tokens * self.item * (row + states)


def _outputs(model: Shape) -> int:
    """Numbers that a graph of a language model keeps of a row; recurrent layers do not run as graphs."""
    if model.state:
        return 0
    return (model.layers + 1) * model.hidden + model.layers * model.heads * model.head_dim + model.vocab
