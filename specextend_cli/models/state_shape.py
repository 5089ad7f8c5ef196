"""Sizes of layers with a state of the whole sequence, from a config.json: how many attend, states, and weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_RECURRENT = {"linear_attention", "conv"}


def layer_types(config: Mapping[str, Any]) -> list[str]:
    """What each layer is, as published configurations say it; [] where they do not: then all attend."""
    if isinstance(types := config.get("layer_types"), list):
        return [str(kind) for kind in types[: config.get("num_hidden_layers")]]
    layers = int(config["num_hidden_layers"])
    if isinstance(at := config.get("full_attn_idxs"), list):  # LFM2
        return ["full_attention" if layer in at else "conv" for layer in range(layers)]
    if config.get("linear_num_value_heads") is not None:  # Qwen3-Next, Qwen3.5
        every = int(config.get("full_attention_interval") or 4)
        return ["linear_attention" if (layer + 1) % every else "full_attention" for layer in range(layers)]
    return []


def attending_layers(config: Mapping[str, Any]) -> int:
    """Layers with keys and values in the cache: all that are not known to have a state instead."""
    types = layer_types(config)
    return sum(kind not in _RECURRENT for kind in types) if types else int(config["num_hidden_layers"])


def state_numbers(config: Mapping[str, Any]) -> int:
    """Numbers in the states of one sequence, of convolutions and recurrences together."""
    layers = sum(kind in _RECURRENT for kind in layer_types(config))
    return layers * _numbers(config) if layers else 0


def _numbers(config: Mapping[str, Any]) -> int:
    """Of one layer."""
    if not isinstance(heads := config.get("linear_num_value_heads"), int):
        return int(config["hidden_size"]) * int(config.get("conv_L_cache", 3))
    key, value = int(config.get("linear_key_head_dim", 128)), int(config.get("linear_value_head_dim", 128))
    channels = 2 * int(config.get("linear_num_key_heads", heads)) * key + heads * value
    return heads * key * value + channels * int(config.get("linear_conv_kernel_dim", 4))


def recurrence_weights(config: Mapping[str, Any]) -> int:
    """Weights in the place of attention's of a layer that does not attend; 0 where all do, or it is not known."""
    if not {"linear_attention", "conv"}.intersection(layer_types(config)):
        return 0
    hidden = int(config["hidden_size"])
    if isinstance(heads := config.get("linear_num_value_heads"), int):  # a gated delta net
        keys = int(config.get("linear_num_key_heads", heads)) * int(config.get("linear_key_head_dim", 128))
        value = int(config.get("linear_value_head_dim", 128))
        values, kernel = heads * value, int(config.get("linear_conv_kernel_dim", 4))
        channels = 2 * keys + values
        return hidden * (channels + 2 * values + 2 * heads) + channels * kernel + 2 * heads + value
    if "conv" in layer_types(config):  # in, out, and a kernel a channel
        biases = 5 * hidden if config.get("conv_bias") else 0
        return 4 * hidden**2 + hidden * int(config.get("conv_L_cache", 3)) + biases
    return 0
