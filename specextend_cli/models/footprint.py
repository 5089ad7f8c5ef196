"""The memory of a target and its draft, from their shapes alone."""

from __future__ import annotations

from dataclasses import dataclass

from specextend_cli.engine.config import Retrieval, TreeShape
from specextend_cli.engine.head_config import HeadConfig
from specextend_cli.models.assistant_shape import AssistantShape
from specextend_cli.models.shape import Shape

HEADROOM = 0.92
"""The share of a device's memory that a preset may need; the rest is for the driver and fragmentation."""

GRAPHS = 256 << 20
"""Bytes that CUDA graphs of a pair keep. Counted by shapes they are 70 to 730 MB; headroom has the rest."""
_STATES = 4  # of a sequence at once: two that take turns, one that was read last, and one to spare
PREFILL = 1024
"""Tokens of the smallest prefill step, which bound its activations."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes, by use. `workspace` bounds the activations of a prefill step, a tree's logits, and recurrent states.

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
        logits = self.tree.nodes * 2 * 4 * self.target.vocab
        draft_weights = self.draft.weight_bytes(self.draft_item) if self.draft else 0
        if self.own:
            draft_kv += self.target.kv_bytes_per_token(self.item) * working
        if self.predicts:
            draft_kv += self.target.layer_kv_bytes_per_token(self.item) * (tokens + working)
            draft_weights += self.target.prediction_parameters * self.item
        return Estimate(
            weights=self.target.weight_bytes(self.item, self.quantization),
            kv=self.target.kv_bytes_per_token(self.item) * tokens,
            draft_weights=draft_weights,
            draft_kv=draft_kv,
            workspace=self.prefill(PREFILL) + logits + _STATES * self.target.state_bytes,
            complete=self.complete,
        )

    def prefill(self, tokens: int) -> int:
        """Activations of a prefill step of so many tokens in one layer.

        For a head, also all layers' states of the step, before its feature layers are selected.
        """
        shape = self.target
        row = 4 * shape.hidden + 3 * shape.active_intermediate + shape.head_dim * shape.heads
        reads = self.predicts or isinstance(self.draft, (HeadConfig, AssistantShape))
        states = (shape.layers + 1) * shape.hidden if reads else 0
        return tokens * self.item * (row + states)
