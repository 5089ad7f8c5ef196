"""Random models and heads in the place of a preset's own: of its architecture, RoPE and published layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.modeling_layers import MtpLayer

from specextend_cli.models.source_kinds import HubFileSource, HubSource
from tests.engine.tiny_models import LLAMA_3
from tests.helpers import published_mtp
from tests.helpers.published_heads import angelslim, deepspec, safeailab_1, safeailab_3, specbundle, speculators
from tests.helpers.tiny_assistants import ASSISTANT, tiny_assistant
from tests.helpers.wrappers import QWEN3_TOWER, TOWER
from tests.summarize import tiny_preset

LAYOUTS = {
    "yuhuili/EAGLE3-": safeailab_3,
    "yuhuili/EAGLE-": safeailab_1,
    "jycha-98/EAGLE-": safeailab_1,
    "AngelSlim/": angelslim,
    "RedHatAI/": speculators,
    "lmsys/SGLang-EAGLE3-": specbundle,
    "deepseek-ai/eagle3_": deepspec,
}
ROPE: dict[str, dict[str, Any]] = {
    "meta-llama/": {**LLAMA_3, "rope_theta": 500000.0, "factor": 8.0, "original_max_position_embeddings": 8192},
    "lmsys/vicuna": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0},
    "lmsys/longchat": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 8.0},
}
ROPE["google/gemma-3"] = {
    "full_attention": {"rope_type": "default", "rope_theta": 1000000.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
}
ROPE["deepseek-ai/"] = ROPE["meta-llama/"]
ROPE["google/gemma-4"] = {
    "full_attention": {"rope_type": "proportional", "rope_theta": 1000000.0, "partial_rotary_factor": 0.25},
    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
}
DEFAULT_ROPE = {"rope_type": "default", "rope_theta": 10000.0}


def found(table: dict[str, Any], source: object, default: Any = None) -> Any:
    repo = source.repo if isinstance(source, (HubSource, HubFileSource)) else ""
    return next((value for start, value in table.items() if repo.startswith(start)), default)


GRANITE = {"num_local_experts": 0, "num_experts_per_tok": 0, "shared_intermediate_size": 96, "logits_scaling": 10.0}
GRANITE |= {"embedding_multiplier": 12.0, "residual_multiplier": 0.22, "attention_multiplier": 0.0625}
GEMMA_4: dict[str, Any] = {
    **{"sliding_window": 16, "layer_types": ["sliding_attention", "sliding_attention", "full_attention"]},
    **{"global_head_dim": 48, "hidden_size_per_layer_input": 16},
}
DELTA_NET: dict[str, Any] = {
    **{"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 12, "linear_value_head_dim": 16},
    "layer_types": ["linear_attention", "linear_attention", "full_attention"],
}
ROPE["Qwen/Qwen3."] = {
    **{"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25},
    **{"mrope_section": [2, 1, 1], "mrope_interleaved": True},
}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "Qwen/Qwen3-30B-A3B": ("Qwen3Moe", {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 48}),
    "Qwen/Qwen3.": ("Qwen3_5Text", DELTA_NET),
    "Qwen/Qwen3": ("Qwen3", {}),
    "unsloth/Qwen3": ("Qwen3", {}),
    "ggml-org/SmolLM3": ("SmolLM3", {"no_rope_layer_interval": 2}),  # every fourth layer is without RoPE
    "LiquidAI/LFM2": ("Lfm2", {"layer_types": ["conv", "full_attention", "conv"]}),
    "google/gemma-3": (
        "Gemma3Text",
        {"sliding_window": 16, "layer_types": ["sliding_attention", "sliding_attention", "full_attention"]},
    ),
    "google/gemma-4": ("Gemma4Text", GEMMA_4),
    "ibm-granite/": (
        "GraniteMoeHybrid",
        {**GRANITE, "layer_types": ["attention"] * 3, "position_embedding_type": "rope"},  # neither Mamba nor experts
    ),
}


_SMALL_QWEN3 = ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-4B", "Qwen/Qwen3.5-4B")
TIED = ("google/", "ibm-granite/", "LiquidAI/", "unsloth/", "ggml-org/", "Qwen/Qwen3-1.7B", *_SMALL_QWEN3)
WIDE = ("google/", "Qwen/Qwen3-30B", "Qwen/Qwen3-32B", "Qwen/Qwen3.5-27B", "Qwen/Qwen3.8", *_SMALL_QWEN3)
"""Repositories whose heads together are wider than the model."""
UNGROUPED = ("lmsys/", "JackFram/", "double7/")
"""Repositories whose heads have keys of their own."""


def save_model(directory: Path, source: object, *, layers: int, seed: int) -> None:
    """A random model of the source's architecture, position encoding, layout and traits."""
    repo = getattr(source, "repo", "")
    (family, traits), rope = found(FAMILIES, source, ("Llama", {})), found(ROPE, source, DEFAULT_ROPE)
    tokenizer = tiny_preset.tokenizer()
    config = getattr(transformers, f"{family}Config")(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=4 if repo.startswith(UNGROUPED) else 2,
        head_dim=32 if repo.startswith(WIDE) else 16,
        max_position_embeddings=1024,
        initializer_range=0.2,
        tie_word_embeddings=not repo or repo.startswith(TIED),
        rope_parameters=dict(rope),
        bos_token_id=0,
        eos_token_id=tiny_preset.END,
        pad_token_id=0,
        **traits,
        **({"vocab_size_per_layer_input": tokenizer.get_vocab_size()} if family == "Gemma4Text" else {}),
    )
    torch.manual_seed(seed)
    if family == "Qwen3_5Text":
        save_wrapped(directory, config)
    elif family == "Gemma4Text":
        whole = transformers.AutoConfig.for_model(
            "gemma4", text_config=config.to_dict(), vision_config={**TOWER, "head_dim": 16}, tie_word_embeddings=True
        )
        transformers.AutoModelForMultimodalLM.from_config(whole).save_pretrained(directory, save_original_format=True)
    else:
        transformers.AutoModelForCausalLM.from_config(config).save_pretrained(directory)
    tokenizer.save(str(directory / "tokenizer.json"))
    special = {"chat_template": tiny_preset.CHAT, "bos_token": "<|endoftext|>", "eos_token": "<|im_end|>"}
    (directory / "tokenizer_config.json").write_text(json.dumps(special))


def save_assistant(directory: Path, vocabulary: int) -> None:
    """A random assistant of the targets with Gemma 4's layers that `save_model` writes."""
    sizes = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "attention_k_eq_v": False}
    made = tiny_assistant(backbone=64, vocab_size=vocabulary, clusters=vocabulary, **GEMMA_4 | ASSISTANT | sizes)
    made.save_pretrained(directory)


def save_wrapped(directory: Path, text: transformers.PreTrainedConfig) -> MtpLayer:
    """Qwen3.5: a tower for images beside the text model, and a multi-token prediction layer, which is returned."""
    settings = {"text_config": text.to_dict(), "vision_config": {**QWEN3_TOWER}}
    config = transformers.AutoConfig.for_model("qwen3_5", **settings, tie_word_embeddings=text.tie_word_embeddings)
    whole = transformers.AutoModelForMultimodalLM.from_config(config)
    whole.save_pretrained(directory, save_original_format=True)
    layer = published_mtp.prediction_layer(transformers.AutoModelForCausalLM.from_config(text))
    published_mtp.add(directory, published_mtp.published(layer))
    return layer
