"""Families of models in GGUF files: their configuration, and their tensors, by transformers' names.

transformers reads GGUF files, too, but without the scaling of positions, Gemma's soft caps, Granite and SmolLM3, and
with the whole model in memory in float32. What llama.cpp's converter changes is undone here, or while loading.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from specextend_cli.models.gguf.file import Gguf, GgufTensor
from specextend_cli.models.gguf.tokenizer import special_ids

_MOST = 1 << 26  # of any size
_GEMMA_27B = (46, 62)  # layers of Gemma 2's and 3's largest model, whose attention is scaled otherwise
_GEMMA_LONG = (34, 48, 62)  # layers of Gemma 3's models whose positions are scaled by 8, which ollama's files leave out
_SOFTCAPS = {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}  # Gemma 2's
_LLAMA3_LENGTHS = [1 << n for n in range(7, 18)]  # original context lengths


Table: TypeAlias = dict[str, tuple[str, tuple[int, ...]]]
"""Of tensors: name -> another name or a type, and the shape."""


@dataclass(frozen=True)
class Family:
    """What one family has and others have not; `permuted`: the rows of q and k, which RoPE rotates, are interleaved."""

    model_type: str
    permuted: bool = False
    qkv_bias: bool = False
    qk_norm: bool = False
    fused: bool = False  # q, k and v in one matrix, gate and up in another
    gemma: bool = False  # norms behind each part as well, all stored as weight + 1


FAMILIES = {
    "llama": Family("llama", permuted=True),
    "smollm3": Family("smollm3", permuted=True),
    "granite": Family("granite", permuted=True),
    "qwen2": Family("qwen2", qkv_bias=True),
    "qwen3": Family("qwen3", qk_norm=True),
    "phi3": Family("phi3", fused=True),
    "gemma2": Family("gemma2", gemma=True),
    "gemma3": Family("gemma3_text", gemma=True, qk_norm=True),
    "qwen2vl": Family("qwen2", qkv_bias=True),
    "qwen25vl": Family("qwen2", qkv_bias=True),
    "qwen3vl": Family("qwen3", qk_norm=True),
    "mistral3": Family("mistral", permuted=True),
}
"""By `general.architecture`. Mistral's files call themselves llama, Qwen2.5-VL's qwen2vl, in ollama's store qwen25vl.

Text models inside others are read alone: their sections of RoPE are one on text (`models/load.py`).
"""
_MINISTRAL = Family("ministral3", permuted=True)
_TEMPERATURE = ("attention.temperature_scale", "rope.scaling_beta")
"""Where a mistral3 file says how queries grow with their position, llama.cpp's and ollama's; Ministral 3 has it."""


def family(model: Gguf) -> Family:
    """The family of a file; ValueError where it is none of ours, or no language model."""
    facts = model.facts
    architecture, kind = facts.get("general.architecture"), facts.get("general.type", "model")
    if kind == "adapter":
        raise ValueError("it is an adapter (LoRA), which belongs to a model")
    if kind == "mmproj" or architecture == "clip":
        raise ValueError("it is the part of a model that reads images (mmproj); name the file of the language model")
    if kind != "model":
        raise ValueError(f"it is a file of the kind {kind!r:.40}, not a model")
    if architecture not in FAMILIES:
        raise ValueError(f"its architecture is {architecture!s:.40}, and {', '.join(FAMILIES)} are read")
    if facts.get(f"{architecture}.pooling_type"):
        raise ValueError("it is a model of embeddings, which generates no text")
    if facts.get(f"{architecture}.expert_count"):
        raise ValueError("it is a mixture of experts; dense models are read")
    if architecture == "mistral3" and any(facts.get(f"mistral3.{key}") for key in _TEMPERATURE):
        return _MINISTRAL
    return FAMILIES[architecture]


def config_of(model: Gguf) -> dict[str, Any]:
    """The contents of a config.json. ValueError, LookupError: the file lacks what is needed, or is of another kind."""
    own, facts = family(model), model.facts
    architecture = facts["general.architecture"]

    def size(key: str, default: int | None = None) -> int:
        value = facts.get(f"{architecture}.{key}", default)
        if isinstance(value, list):  # one for each layer
            if len(set(value)) != 1:
                raise ValueError(f"its layers differ in {key}, which no {own.model_type} model of transformers does")
            if len(value) != (layers := size("block_count")):
                raise ValueError(f"it has {layers} layers and {len(value)} values of {key}")
            value = value[0]
        if not isinstance(value, int) or not 0 < value <= _MOST:
            raise ValueError(f"it says {architecture}.{key} {value!r:.40}")
        return value

    number = partial(_number, facts, architecture)
    hidden, heads, layers = size("embedding_length"), size("attention.head_count"), size("block_count")
    usual = hidden // heads if own.fused else size("rope.dimension_count", hidden // heads)
    head_dim = size("attention.key_length", usual)
    rotated = size("rope.dimension_count", head_dim)
    # ollama's older files have rope.global.freq_base and rope.local.freq_base.
    theta = number("rope.freq_base", number("rope.global.freq_base", 1e6 if architecture == "gemma3" else 10000.0))
    if rotated != head_dim and not own.fused:
        raise ValueError(f"it rotates {rotated} of {head_dim} numbers of a head")
    # The embedding may be padded beyond the vocabulary's tokens.
    rows, tokens = model.tensors["token_embd.weight"].rows, len(facts["tokenizer.ggml.tokens"])
    if not tokens <= rows <= _MOST:
        raise ValueError(f"it has {tokens} tokens and an embedding of {rows} rows")
    config: dict[str, Any] = {
        "model_type": own.model_type,
        "dtype": "bfloat16",
        "hidden_act": "silu",
        "hidden_size": hidden,
        "intermediate_size": size("feed_forward_length"),
        "max_position_embeddings": size("context_length"),
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "num_key_value_heads": size("attention.head_count_kv", heads),
        "head_dim": head_dim,
        "rms_norm_eps": number("attention.layer_norm_rms_epsilon"),
        "rope_parameters": _rope(model, architecture, theta, rotated),
        "tie_word_embeddings": "output.weight" not in model.tensors,
        "vocab_size": rows,
        "pad_token_id": None,
        **special_ids(facts),
    }
    window = facts.get(f"{architecture}.attention.sliding_window") or None
    if own.fused:
        config["rope_parameters"]["partial_rotary_factor"] = rotated / head_dim
        config["sliding_window"] = window if window is None or window < config["max_position_embeddings"] else None
    elif own.gemma:
        del config["hidden_act"]
        # Neither is in the file: llama.cpp decides by the number of layers, too.
        scalar = hidden // heads if layers in _GEMMA_27B else head_dim
        config |= {"hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": scalar}
        # Where no layer has a window, transformers asks for one all the same.
        config["sliding_window"] = size("attention.sliding_window") if window else config["max_position_embeddings"]
        config["layer_types"] = _layer_types(facts, architecture, layers)
        for key, cap in _SOFTCAPS.items():
            given = facts.get(f"{architecture}.{key}", architecture == "gemma2")
            config[key] = number(key, cap) if given else None
        if architecture == "gemma3":
            theta = number("rope.freq_base_swa", number("rope.local.freq_base", 10000.0))
            rope = config["rope_parameters"]
            if window and layers in _GEMMA_LONG and "gemma3.rope.scaling.factor" not in facts:
                rope |= {"rope_type": "linear", "factor": 8.0}
            local = {"rope_type": "default", "rope_theta": theta}
            config["rope_parameters"] = {"full_attention": rope, "sliding_attention": local}
    elif architecture == "granite":
        config["attention_multiplier"] = number("attention.scale")
        config["embedding_multiplier"] = number("embedding_scale")
        config["residual_multiplier"] = number("residual_scale")
        config["logits_scaling"] = number("logit_scale")
    elif own is _MINISTRAL:
        growth = number(_TEMPERATURE[0], facts.get(f"{architecture}.{_TEMPERATURE[1]}"))
        config["rope_parameters"]["llama_4_scaling_beta"] = growth
        if config["rope_parameters"]["rope_type"] != "yarn":
            raise ValueError("its queries grow with their position, and nothing says from where on")
    if not own.gemma and (capped := [key for key in _SOFTCAPS if facts.get(f"{architecture}.{key}")]):
        raise ValueError(f"it has {capped[0]}, which no {own.model_type} model of transformers has")
    if own.permuted or own.model_type == "qwen3":
        config["attention_bias"] = "blk.0.attn_q.bias" in model.tensors
        config["mlp_bias"] = "blk.0.ffn_up.bias" in model.tensors
    return config


def _number(facts: dict[str, Any], prefix: str, key: str, default: float | None = None, *, above: float = 0.0) -> float:
    """What the file says of a key, or the default. ValueError where that is no number, or not `above` that one."""
    value = facts.get(f"{prefix}.{key}", default)
    if not isinstance(value, (int, float)) or not above < value < math.inf:
        raise ValueError(f"it says {prefix}.{key} {value!r:.40}")
    return float(f"{value:.7g}")  # stored in single precision: 1e-5 comes back as 9.999999747378752e-06


def _layer_types(facts: dict[str, Any], architecture: str, layers: int) -> list[str]:
    """Which layers of a Gemma have a sliding window: by a period or layer for layer, else as usual.

    Rnj-1 calls itself gemma3 and has none.
    """
    if not facts.get(f"{architecture}.attention.sliding_window"):
        return ["full_attention"] * layers
    pattern = facts.get(f"{architecture}.attention.sliding_window_pattern", 2 if architecture == "gemma2" else 6)
    if isinstance(pattern, int) and 0 < pattern <= _MOST:
        pattern = [n % pattern != pattern - 1 for n in range(layers)]
    if not isinstance(pattern, list) or len(pattern) != layers:
        raise ValueError(f"it says {architecture}.attention.sliding_window_pattern {pattern!r:.40}")
    return ["sliding_attention" if slides else "full_attention" for slides in pattern]


def layout(own: Family, config: dict[str, Any]) -> Table:
    """The tensors of a model: GGUF's name -> transformers' name and shape."""
    hidden, middle, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    q, kv = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    matrices = {"attn_output": ("self_attn.o_proj", (hidden, q)), "ffn_down": ("mlp.down_proj", (hidden, middle))}
    if own.fused:
        matrices["attn_qkv"] = ("self_attn.qkv_proj", (q + 2 * kv, hidden))
        matrices["ffn_up"] = ("mlp.gate_up_proj", (2 * middle, hidden))
    else:
        for part, rows in (("q", q), ("k", kv), ("v", kv)):
            matrices[f"attn_{part}"] = (f"self_attn.{part}_proj", (rows, hidden))
        for part in ("gate", "up"):
            matrices[f"ffn_{part}"] = (f"mlp.{part}_proj", (middle, hidden))
    norms = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
    if own.gemma:
        norms = {"attn_norm": "input_layernorm", "post_attention_norm": "post_attention_layernorm"}
        norms |= {"ffn_norm": "pre_feedforward_layernorm", "post_ffw_norm": "post_feedforward_layernorm"}
    always = ("attn_q", "attn_k", "attn_v") if own.qkv_bias else ()
    flags = {name: "attention_bias" if name.startswith("attn") else "mlp_bias" for name in matrices}
    biased = [name for name in matrices if name in always or config.get(flags[name])]
    layer: Table = {f"{theirs}.weight": (f"{ours}.weight", shape) for theirs, (ours, shape) in matrices.items()}
    layer |= {f"{name}.bias": (f"{matrices[name][0]}.bias", matrices[name][1][:1]) for name in biased}
    layer |= {f"{theirs}.weight": (f"{ours}.weight", (hidden,)) for theirs, ours in norms.items()}
    if own.qk_norm:
        layer |= {f"attn_{part}_norm.weight": (f"self_attn.{part}_norm.weight", (head,)) for part in "qk"}
    table: Table = {
        "token_embd.weight": ("model.embed_tokens.weight", (config["vocab_size"], hidden)),
        "output_norm.weight": ("model.norm.weight", (hidden,)),
    }
    if not config["tie_word_embeddings"]:
        table["output.weight"] = ("lm_head.weight", (config["vocab_size"], hidden))
    for number in range(config["num_hidden_layers"]):
        for theirs, (ours, shape) in layer.items():
            table[f"blk.{number}.{theirs}"] = (f"model.layers.{number}.{ours}", shape)
    return table


def _rope(model: Gguf, architecture: str, theta: float, dimensions: int) -> dict[str, Any]:
    """transformers' rope_parameters. ValueError: positions are scaled as only longer inputs would show."""
    facts, settings = model.facts, {"rope_type": "default", "rope_theta": theta}
    if "rope_freqs.weight" in model.tensors:
        return settings | _llama3(model.tensors["rope_freqs.weight"], theta, dimensions)
    if any(name.startswith("rope_factors_") for name in model.tensors):
        raise ValueError("its positions are scaled by the input's length (longrope), which drafting does not survive")
    scaling = facts.get(f"{architecture}.rope.scaling.type", "none")
    factor = facts.get(f"{architecture}.rope.scaling.factor", facts.get(f"{architecture}.rope.scale_linear", 1.0))
    if not isinstance(factor, (int, float)) or not 0 <= factor < 1e6:
        raise ValueError(f"it scales positions by {factor!r:.40}")
    if scaling == "none" or factor in (0, 1):
        return settings
    if scaling == "linear":
        return settings | {"rope_type": "linear", "factor": float(factor)}
    if scaling == "yarn":
        original = facts[f"{architecture}.rope.scaling.original_context_length"]
        settings |= {"rope_type": "yarn", "factor": float(factor), "original_max_position_embeddings": original}
        return settings | _yarn(facts, f"{architecture}.rope.scaling", factor)
    raise ValueError(f"it scales positions by {scaling!r:.40}")


def _yarn(facts: dict[str, Any], prefix: str, factor: float) -> dict[str, float]:
    """What else the file says of YaRN, by transformers' names; ValueError where transformers has none for it."""
    number = partial(_number, facts, prefix, above=-1e6)
    # -1: the usual strength, which is 1. With DeepSeek's multiplier, Ministral scales by both its terms, that is, by 1.
    multiplied = number("yarn_log_multiplier", number("mscale_all_dim", 0.0))
    if number("yarn_ext_factor", 1.0) not in (1.0, -1.0) or (multiplied and not prefix.startswith("mistral3.")):
        raise ValueError("it scales positions by a form of YaRN that transformers does not have")
    found = {
        "beta_fast": number("yarn_beta_fast", number("beta_fast", 32.0)),
        "beta_slow": number("yarn_beta_slow", number("beta_slow", 1.0)),
    }
    if multiplied:
        return found | {"mscale": multiplied, "mscale_all_dim": multiplied}
    attention = number("yarn_attn_factor", number("attn_factor", 1.0))
    if attention != 1:
        found["attention_factor"] = attention * (1 + 0.1 * math.log(factor))
    return found


def _llama3(tensor: GgufTensor, theta: float, dimensions: int) -> dict[str, Any]:
    """The settings of Llama 3.1's scaling, of which the file has the result: what divides each frequency."""
    if tensor.kind.name != "F32" or tensor.columns > 1 << 16 or tensor.rows != 1:
        raise ValueError("its rope_freqs.weight is no short vector")
    divisors = tensor.blocks().view("<f4")[0].astype(np.float32)
    if len(divisors) != dimensions // 2 or not np.isfinite(divisors).all():
        raise ValueError("its rope_freqs.weight is not of the length of its heads")
    wavelengths = 2 * np.pi * theta ** (np.arange(0, dimensions, 2) / dimensions)
    factor = float(f"{divisors.max():.4g}")
    for original in _LLAMA3_LENGTHS:
        smooth = np.clip((original / wavelengths - 1) / 3, 0, 1)
        if np.allclose(divisors, 1 / ((1 - smooth) / factor + smooth), rtol=1e-3):
            return {
                "rope_type": "llama3",
                "factor": factor,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": original,
            }
    raise ValueError("its rope_freqs.weight is not Llama 3.1's scaling of positions")
