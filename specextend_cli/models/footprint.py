"""The memory of a target and its draft, from their shapes alone."""

from __future__ import annotations

from dataclasses import dataclass

from specextend_cli.engine.config import Retrieval, TreeShape
from specextend_cli.engine.head_config import HeadConfig
from specextend_cli.models.assistant_shape import AssistantShape
from specextend_cli.models.shape import Shape

HEADROOM = 0.92
"""The share of a device's memory that a preset may need; the rest is for the driver and fragmentation."""

_TREES, _BATCH_ROWS = (1, 2, 4, 8, 12, 16, 32, 64), 62  # graphs of trees by rows; rows of all those of batches
_TREE_ROWS, _MOST_ROWS = sum(_TREES), max(_TREES)
_STATES = 4  # of a sequence at once, by graphs: two that take turns, one that was read last, and one to spare
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
    draft: Shape | HeadConfig | AssistantShape | None
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
        """Bytes that CUDA graphs of target and draft keep (`engine/cuda`), beyond those that `at` counts.

        All outputs; of what is computed on the way, which lies in one pool, as much as a forward takes; a workspace.
        By graphs, no node of a tree has a state of its own: either those are kept, or what is counted for the states.
        """
        drafts, shared = self._draft_outputs, self.prefill(_MOST_ROWS) + _CUBLAS
        spare = max(self.tree.nodes - _STATES, 0) * self.target.state_bytes
        return max(self.graph_outputs + shared - spare, drafts + shared if drafts else 0)

    @property
    def graph_outputs(self) -> int:
        """Bytes of all graphs' outputs: each row's logits, and all layers' states and queries, or a head's two states.

        One of these two is an input; other inputs, numbers and what whole drafts begin with, are small.
        """
        target, rows = self.target, _TREE_ROWS
        if target.state:  # graphs of trees up to the preset's
            most = min((n for n in _TREES if n >= self.tree.nodes), default=_MOST_ROWS)
            rows = sum(n for n in _TREES if n <= most)
        numbers = (rows + _BATCH_ROWS) * _outputs(target) + rows * _recorded(target)
        return numbers * self.item + self._draft_outputs

    @property
    def _draft_outputs(self) -> int:
        target, draft, size = self.target, self.draft, 0
        if isinstance(draft, Shape):
            size += _TREE_ROWS * _outputs(draft) * self.draft_item
        if isinstance(draft, HeadConfig):
            size += _TREE_ROWS * ((draft.draft_vocab or target.vocab) + 2 * draft.hidden) * self.draft_item
        if self.predicts:
            size += _TREE_ROWS * (target.vocab + 2 * target.hidden) * self.item
        return size

    def prefill(self, tokens: int) -> int:
        """Activations of a prefill step of so many tokens in one layer.

        For a head, also all layers' states of the step, before its feature layers are selected.
        """
        shape = self.target
        row = 4 * shape.hidden + 3 * shape.active_intermediate + shape.head_dim * shape.heads
        reads = self.predicts or isinstance(self.draft, (HeadConfig, AssistantShape))
        states = (shape.layers + 1) * shape.hidden if reads else 0
        return tokens * self.item * (row + states)


def _outputs(model: Shape) -> int:
    """Numbers that a graph of a language model keeps of a row."""
    return (model.layers + 1) * model.hidden + model.attending_layers * model.heads * model.head_dim + model.vocab


def _recorded(model: Shape) -> int:
    """Numbers kept of a tree's row for states: as many as recurrent layers project a state of the model to."""
    return (model.layers - model.attending_layers) * (model.recurrence // model.hidden)
