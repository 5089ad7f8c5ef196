"""Tiny random models of each family, and GGUF files of them, written as llama.cpp's converter writes them."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any, TypeAlias

import gguf
import numpy as np
import torch
import transformers
from gguf import GGMLQuantizationType as Kind
from tokenizers import Tokenizer
from transformers import PreTrainedModel
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from tests.engine.tiny_models import LLAMA_3
from tests.helpers.gguf_writer import CHAT, add_tokenizer, finish

COMMON: dict[str, Any] = {
    "hidden_size": 256,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "initializer_range": 0.1,
    "bos_token_id": None,
    "eos_token_id": 2,
    "pad_token_id": None,
}
LLAMA3 = {**LLAMA_3, "factor": 8.0, "original_max_position_embeddings": 256}
MINISTRAL = {
    "rope_type": "yarn",
    "rope_theta": 1e6,
    "factor": 16.0,
    "original_max_position_embeddings": 32,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "llama_4_scaling_beta": 0.5,
}
GRANITE = {"attention_multiplier": 0.03, "embedding_multiplier": 12.0, "residual_multiplier": 0.22, "logits_scaling": 8}
GEMMA = {"head_dim": 64, "query_pre_attn_scalar": 64, "sliding_window": 16}
DEFAULT = {"rope_type": "default", "rope_theta": 10000.0}
LINEAR = {"rope_type": "linear", "rope_theta": 5e5, "factor": 2.0}
YARN = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 128}
RNJ = {"rope_theta": 1e4, "beta_fast": 8.0, "beta_slow": 2.0, "attention_factor": 1.5 * (1 + 0.1 * math.log(4.0))}
GEMMA_3 = {"full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0}, "sliding_attention": DEFAULT}
FAMILIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("llama", "Llama", {"tie_word_embeddings": True}),
    "llama-untied-biased": ("llama", "Llama", {"attention_bias": True, "mlp_bias": True, "head_dim": 32}),
    "llama3-rope": ("llama", "Llama", {"rope_parameters": LLAMA3}),
    "llama-linear": ("llama", "Llama", {"rope_parameters": LINEAR}),
    "mistral": ("llama", "Mistral", {"sliding_window": None}),
    "smollm3": ("smollm3", "SmolLM3", {"num_hidden_layers": 5}),
    "granite": ("granite", "Granite", GRANITE),
    "qwen2": ("qwen2", "Qwen2", {}),
    "qwen2-yarn": ("qwen2", "Qwen2", {"rope_parameters": YARN}),
    "qwen3": ("qwen3", "Qwen3", {"head_dim": 32, "tie_word_embeddings": True}),
    "qwen2vl": ("qwen2vl", "Qwen2", {}),
    "qwen3vl": ("qwen3vl", "Qwen3", {"head_dim": 32}),
    "ministral3": ("mistral3", "Ministral3", {"head_dim": 32, "rope_parameters": MINISTRAL}),
    "qwen3-wide-heads": ("qwen3", "Qwen3", {"head_dim": 128, "tie_word_embeddings": True}),
    "phi3": ("phi3", "Phi3", {}),
    "phi3-partial": (
        "phi3",
        "Phi3",
        {"sliding_window": 16, "rope_parameters": {**DEFAULT, "partial_rotary_factor": 0.75}},
    ),
    "gemma2": ("gemma2", "Gemma2", GEMMA),
    "gemma3": ("gemma3", "Gemma3Text", {**GEMMA, "num_hidden_layers": 7, "rope_parameters": GEMMA_3}),
    "gemma3-capped": (
        "gemma3",
        "Gemma3Text",
        {**GEMMA, "final_logit_softcapping": 0.5, "rope_parameters": dict.fromkeys(GEMMA_3, DEFAULT)},
    ),
    "rnj-1": (
        "gemma3",
        "Gemma3Text",
        {
            **GEMMA,
            "final_logit_softcapping": 2.0,
            "layer_types": ["full_attention"] * 2,
            "rope_parameters": {"full_attention": {**YARN, **RNJ}, "sliding_attention": DEFAULT},
        },
    ),
}
"""GGUF's architecture, transformers' family, and what its configuration has beside `COMMON` or unlike it."""


def make(name: str, vocabulary: int) -> PreTrainedModel:
    """A random model whose weights are bfloat16 numbers, biases and norms included."""
    torch.manual_seed(0)
    _, family, changes = FAMILIES[name]
    config = getattr(transformers, f"{family}Config")(**{**COMMON, **deepcopy(changes)}, vocab_size=vocabulary)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter) / 8)
            parameter.copy_(parameter.bfloat16())
    return model


Kinds: TypeAlias = Kind | Callable[[str], Kind]


def q4_k_m(layers: int) -> Kinds:
    """What llama.cpp's Q4_K_M has of each matrix, by its name: four bits, and six where they matter most."""

    def kind(name: str) -> Kind:
        if name.startswith(("token_embd", "output.")):
            return Kind.Q6_K
        layer = int(name.split(".")[1])
        more = layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2
        return Kind.Q6_K if more and ("attn_v" in name or "ffn_down" in name) else Kind.Q4_K

    return kind


def write(
    file: Path,
    name: str,
    model: PreTrainedModel,
    tokenizer: Tokenizer,
    kind: Kinds = Kind.F32,
    more: dict[str, np.ndarray] | None = None,
    *,
    pre: str = "smollm",
    template: str = CHAT,
    **facts: Any,
) -> Path:
    """The model as a GGUF file, its matrices of `kind`; `facts` are fields, `more` tensors beside the family's own.

    `pre` is the vocabulary's pre-tokenizer.
    """
    architecture = FAMILIES[name][0]
    writer = gguf.GGUFWriter(file, architecture)
    _add_settings(writer, architecture, model.config)
    add_tokenizer(writer, tokenizer, pre, template)
    for key, value in facts.items():
        writer.add_key_value(key.replace("__", "."), value, gguf.GGUFValueType.get_type(value))
    for theirs, array in {**_tensors(architecture, model), **(more or {})}.items():
        own = Kind.F32 if array.ndim == 1 else kind if isinstance(kind, Kind) else kind(theirs)
        if own == Kind.F32:
            writer.add_tensor(theirs, array)
        else:
            data = quantized(array, own)
            writer.add_tensor(theirs, data, raw_shape=data.shape, raw_dtype=own)
    finish(writer)
    return file


def quantized(array: np.ndarray, kind: Kind) -> np.ndarray:
    """Blocks of `kind`: the gguf package's; of the kinds that it only reads, random ones with small scales."""
    try:
        return gguf.quantize(array, kind)
    except NotImplementedError:
        return random_blocks(kind, array.shape, seed=array.shape[0])


_SCALES = {
    "Q4_K": (0, 2),
    "Q5_K": (0, 2),
    "Q2_K": (80, 82),
    "Q3_K": (108,),
    "Q6_K": (208,),
    "IQ4_XS": (0,),
    "Q8_0": (0,),
    "Q5_0": (0,),
}
"""Where the blocks of a kind have scales, two bytes each."""


def random_blocks(kind: Kind, shape: tuple[int, ...], *, seed: int, scale: float = 1e-4) -> np.ndarray:
    """Blocks of `kind` for a matrix of that shape, with random codes, and scales from `scale` to twice that."""
    numbers, size = gguf.GGML_QUANT_SIZES[kind]
    random = np.random.default_rng(seed)
    blocks = random.integers(0, 256, (math.prod(shape) // numbers, size), dtype=np.uint8)
    for place in _SCALES[kind.name]:
        scales = random.uniform(scale, 2 * scale, len(blocks)).astype(np.float16)
        blocks[:, place : place + 2] = scales[:, None].view(np.uint8)
    return blocks.reshape(shape[0], -1)


def _add_settings(writer: gguf.GGUFWriter, architecture: str, config: Any) -> None:
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    rope = config.rope_parameters
    if architecture == "gemma3":
        rope = rope["full_attention"]
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(rope["rope_theta"])
    if architecture in ("llama", "smollm3", "granite", "phi3", "mistral3"):
        writer.add_rope_dimension_count(int(head_dim * rope.get("partial_rotary_factor", 1.0)))
    if architecture in ("qwen3", "qwen3vl", "gemma2", "gemma3", "mistral3"):
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    if rope["rope_type"] in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
        writer.add_rope_scaling_factor(rope["factor"])
        if rope["rope_type"] == "yarn":
            writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
            if architecture == "mistral3":
                writer.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
                writer.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])
                writer.add_rope_scaling_yarn_log_mul(rope["mscale_all_dim"])
                writer.add_attn_temperature_scale(rope["llama_4_scaling_beta"])
            elif "beta_fast" in rope:
                writer.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
                writer.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])
                writer.add_rope_scaling_yarn_ext_factor(1.0)
                writer.add_rope_scaling_yarn_attn_factor(1.5)
    if architecture == "phi3" or "sliding_attention" in (getattr(config, "layer_types", None) or ()):
        writer.add_sliding_window(config.sliding_window or 0)
    if getattr(config, "attn_logit_softcapping", None):
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
    if getattr(config, "final_logit_softcapping", None):
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    if architecture in ("qwen2vl", "qwen3vl"):
        writer.add_rope_dimension_sections([4, 6, 6, 0])
    if architecture == "qwen3vl":
        writer.add_num_deepstack_layers(3)
    if architecture == "granite":
        writer.add_attention_scale(config.attention_multiplier)
        writer.add_embedding_scale(config.embedding_multiplier)
        writer.add_residual_scale(config.residual_multiplier)
        writer.add_logit_scale(config.logits_scaling)


def _tensors(architecture: str, model: PreTrainedModel) -> dict[str, np.ndarray]:
    """GGUF's names by the gguf package's own map, and what llama.cpp's converter does to the weights."""
    config = model.config
    arch = next(key for key, value in gguf.MODEL_ARCH_NAMES.items() if value == architecture)
    names = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    tensors = {}
    for ours, value in model.state_dict().items():
        if ours == "lm_head.weight" and config.tie_word_embeddings:
            continue
        stem, suffix = ours.rsplit(".", 1)
        array = value.numpy()
        part = stem.rsplit(".", 1)[-1]
        if architecture in ("llama", "smollm3", "granite", "mistral3") and part in heads:
            array = permute(array, heads[part])
        if architecture.startswith("gemma") and ours.endswith("norm.weight"):
            array = array + 1
        theirs = names.get_name(stem)
        assert theirs is not None, ours
        tensors[f"{theirs}.{suffix}"] = array
    rope = config.rope_parameters
    if rope.get("rope_type") == "llama3":
        tensors["rope_freqs.weight"] = llama3_divisors(config)
    return tensors


def permute(weights: np.ndarray, heads: int) -> np.ndarray:
    """What llama.cpp's converter does to the rows of q and k."""
    return weights.reshape(heads, 2, weights.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(weights.shape)


def llama3_divisors(config: Any) -> np.ndarray:
    """The tensor `rope_freqs.weight` of Llama 3.1's scaling: how much slower each frequency is by it."""
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, torch.device("cpu"))
    plain = config.rope_parameters["rope_theta"] ** (-torch.arange(len(scaled)) / len(scaled))
    return (plain / scaled).numpy()
