"""Which layers of a model attend, and which have a state of the whole sequence."""

from __future__ import annotations

from typing import NamedTuple

from transformers import PreTrainedConfig


class LayerKind(NamedTuple):
    """Whether a layer has keys and values in the cache, and whether it has a state."""

    attends: bool
    recurs: bool


LAYER_KINDS = {
    "full_attention": LayerKind(attends=True, recurs=False),
    "sliding_attention": LayerKind(attends=True, recurs=False),
    "linear_attention": LayerKind(attends=False, recurs=True),
    "conv": LayerKind(attends=False, recurs=True),
    "hybrid": LayerKind(attends=True, recurs=True),
    "moe": LayerKind(attends=False, recurs=False),
    "mlp": LayerKind(attends=False, recurs=False),
}
"""By transformers' names for them."""


def layer_kinds(config: PreTrainedConfig) -> list[LayerKind]:
    """Of every layer. KeyError for a kind that is not known here."""
    names = getattr(config, "layer_types", None) or ["full_attention"] * config.num_hidden_layers
    return [LAYER_KINDS[name] for name in names[: config.num_hidden_layers]]
