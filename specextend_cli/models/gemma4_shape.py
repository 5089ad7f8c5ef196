"""Sizes of Gemma 4's text models, whose layers differ: in their heads, in whose keys they attend to, in their MLPs.

Layers that attend to everything may have fewer and wider heads, whose keys may be their values; the last ones attend to
the keys of others, and may have MLPs of twice the width; each may have an embedding of its own for the tokens, or
experts beside the MLP.
"""

from __future__ import annotations

from typing import Any

KINDS = ("gemma4_text", "gemma4_unified_text")
"""Values of `model_type`."""


def gemma4_numbers(config: dict[str, Any]) -> dict[str, int]:
    """`Shape`'s `weights`, `linear` and `cached`, of a configuration's part for text. KeyError: a size is missing."""
    layers, hidden, middle = config["num_hidden_layers"], config["hidden_size"], config["intermediate_size"]
    heads, own = config["num_attention_heads"], config.get("hidden_size_per_layer_input", 256)
    if config["model_type"] != "gemma4_text":
        own = 0
    shared = config.get("num_kv_shared_layers") or 0
    doubles = config.get("use_double_wide_mlp", False)
    experts = (config.get("num_experts") or 0) if config.get("enable_moe_block") else 0
    linear = small = cached = 0
    for number, kind in enumerate(config["layer_types"][:layers]):
        kv_heads, width = _heads(config, number, kind)
        has_keys, is_full = number < layers - shared, kind == "full_attention"
        keys = (1 if is_full and config.get("attention_k_eq_v") else 2) * has_keys
        linear += hidden * width * (2 * heads + keys * kv_heads)
        linear += 3 * hidden * middle * (2 if doubles and not has_keys else 1)
        linear += 2 * hidden * own
        small += (5 if own else 4) * hidden + (1 + has_keys) * width  # norms
        cached += 2 * kv_heads * width * has_keys
    if experts:
        small += layers * (experts * (3 * hidden * config["moe_intermediate_size"] + hidden + 1) + 4 * hidden)
    embedded = config["vocab_size"] * hidden * (1 if config.get("tie_word_embeddings", True) else 2)
    if own:
        linear += hidden * layers * own
        embedded += config.get("vocab_size_per_layer_input", config["vocab_size"]) * layers * own + own
    return {"weights": linear + small + embedded + hidden, "linear": linear, "cached": cached}


def _heads(config: dict[str, Any], number: int, kind: str) -> tuple[int, int]:
    """A layer's key-value heads and their width: published configurations state both kinds, saved ones each layer's."""
    kv_heads, width = config["num_key_value_heads"], config["head_dim"]
    if layers := config.get("per_layer_config"):
        by_number = {int(key): changes for key, changes in layers.items()}
        changes = by_number.get(number, {})
        return changes.get("num_key_value_heads", kv_heads), changes.get("head_dim", width)
    if kind != "full_attention":
        return kv_heads, width
    if config.get("attention_k_eq_v"):
        kv_heads = config.get("num_global_key_value_heads") or kv_heads
    return kv_heads, config.get("global_head_dim", 512)
