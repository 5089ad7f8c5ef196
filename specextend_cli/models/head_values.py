"""Whether the values in a head's configuration are of their kind: numbers in range, flags true or false.

Read loosely, `"norm_output": "false"` is true and `"rope_theta": -5` a number like any other. Every check raises a
ValueError that names the key.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_SIZES = (
    "hidden_size",
    "target_hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_key_value_heads",
    "num_hidden_layers",
    "head_dim",
    "vocab_size",
    "draft_vocab_size",
    "max_position_embeddings",
)
_FLAGS = (
    "norm_before_residual",
    "norm_before_fc",
    "fc_norm",
    "norm_output",
    "tie_word_embeddings",
    "bias",
    "attention_bias",
    "mlp_bias",
    "qkv_bias",
    "use_sliding_window",
)
_LAYER_IDS = "eagle_aux_hidden_state_layer_ids"
_LARGEST = 1 << 31
_POSITIVE = ("rope_theta", "factor", "low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow", "mscale")
_NEEDED = {"linear": ("factor",), "yarn": ("factor",), "llama3": ("factor", "low_freq_factor", "high_freq_factor")}
_LLAMA_LIKE = ("llama", "mistral", "qwen2", "qwen3")  # a Qwen3 layer's own norms are tensors, which are refused


def check_values(settings: Mapping[str, Any]) -> None:
    """ValueError where a size, a flag, a list of layers or a number of the head's is none. None is no value."""
    inner = settings.get("eagle_config") or {}
    for table in (settings, inner):
        for key in _SIZES:
            _check(table, key, "a whole number above 0", _is_size)
        for key in _FLAGS:
            _check(table, key, "true or false", lambda value: isinstance(value, bool))
        _check(table, _LAYER_IDS, "a list of whole numbers", _are_ids)
    _check(settings, "rms_norm_eps", "a number between 0 and 1", lambda value: _is_positive(value) and value < 1)
    _check(settings, "hidden_act", "the name of an activation", lambda value: isinstance(value, str))


def check_attention(settings: Mapping[str, Any], layers: int) -> None:
    """ValueError where its layers attend in a way that is not known here, or compute otherwise than Llama's.

    A window without a list of layers means something to speculators alone: others copy it from the target's
    configuration, and their layers never look at it.
    """
    kinds = settings.get("layer_types")
    if kinds is not None and (not isinstance(kinds, list) or any(kind != "full_attention" for kind in kinds[:layers])):
        raise ValueError(f"its layers attend by {_shown(kinds)}; only full attention is known here")
    speculators = "speculators_model_type" in settings
    window = settings.get("sliding_window") is not None and settings.get("use_sliding_window") is not False
    if window and (settings.get("use_sliding_window") or (speculators and kinds is None)):
        raise ValueError("it attends through a sliding window; only full attention is known here")
    if settings.get("attention_chunk_size") is not None:
        raise ValueError("it attends within chunks; only full attention is known here")
    if speculators and (kind := settings.get("model_type")) not in (None, *_LLAMA_LIKE):
        raise ValueError(f"its layers are of the kind {_shown(kind)}; only Llama's are known here")
    if settings.get("quantization_config") is not None or settings.get("compression_config") is not None:
        raise ValueError("its weights are quantized; a head is read as it was trained")


def rope_parameters(settings: Mapping[str, Any]) -> dict[str, Any]:
    """transformers' `rope_parameters`. The base is 10,000 unless the head says otherwise, whatever the target's is.

    ValueError where they are of an unknown kind, or no numbers that an angle can be made of.
    """
    given = settings.get("rope_parameters") or settings.get("rope_scaling") or {}
    if not isinstance(given, dict):
        raise ValueError(f"its position encoding is {_shown(given)}, which is no table")
    rope = dict(given)
    rope["rope_type"] = rope.pop("type", None) or rope.get("rope_type") or "default"
    if rope.get("rope_theta") is None:
        rope["rope_theta"] = 10000.0 if settings.get("rope_theta") is None else settings["rope_theta"]
    kind = rope["rope_type"]
    if kind == "dynamic":
        # Its angles change with the length read so far; cached keys cannot follow. Working sets keep it in range.
        rope = {"rope_type": "default", "rope_theta": rope["rope_theta"]}
    elif kind not in ("default", *_NEEDED):
        raise ValueError(f"its position encoding is of a kind unknown here: {_shown(kind)}")
    if foreign := next((key for key, value in rope.items() if isinstance(value, (dict, list))), None):
        raise ValueError(f"its position encoding has a {foreign}, which is unknown here")
    for table in (settings, rope):
        _check(table, "partial_rotary_factor", "1, as far as is known here", lambda value: value == 1)
    for key in _POSITIVE:
        _check(rope, key, "a number above 0", _is_positive)
    _check(rope, "rope_theta", "a number above 1", lambda value: value > 1)
    _check(rope, "original_max_position_embeddings", "a whole number above 0", _is_size)
    if missing := next((key for key in _NEEDED.get(kind, ()) if rope.get(key) is None), None):
        raise ValueError(f"its position encoding is {kind} and has no {missing}")
    rope["rope_theta"] = float(rope["rope_theta"])
    return {key: value for key, value in rope.items() if value is not None}


def _check(table: Mapping[str, Any], key: str, what: str, holds: Any) -> None:
    value = table.get(key)
    if value is not None and not holds(value):
        raise ValueError(f"config.json says {key} {_shown(value)}; it has to be {what}")


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < _LARGEST


def _is_positive(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf


def _are_ids(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, int) and not isinstance(one, bool) for one in value)


def _shown(value: object) -> str:
    return f"{value!r:.60}"
