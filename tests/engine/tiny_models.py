"""Tiny random models of every architecture we claim, and `generate` as the judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, LogitsProcessorList, PreTrainedConfig, PreTrainedModel

VOCABULARY = 97
COMMON = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
    "initializer_range": 0.2,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}


def rope(kind: str, **changes: float) -> dict[str, Any]:
    return {"rope_type": kind, "rope_theta": 10000.0, "factor": 4.0, **changes}


LLAMA_3 = rope("llama3", low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=128)
ARCHITECTURES: dict[str, Callable[[], PreTrainedConfig]] = {
    "llama": lambda: transformers.LlamaConfig(**COMMON),
    "llama-mha": lambda: transformers.LlamaConfig(**{**COMMON, "num_key_value_heads": 4}),
    "llama3-rope": lambda: transformers.LlamaConfig(**COMMON, rope_parameters=LLAMA_3),
    "qwen2": lambda: transformers.Qwen2Config(**COMMON),
    "qwen3": lambda: transformers.Qwen3Config(**COMMON, head_dim=32),
    "mistral": lambda: transformers.MistralConfig(**COMMON, sliding_window=None),
    "phi3": lambda: transformers.Phi3Config(**COMMON, sliding_window=None),
    "olmo2": lambda: transformers.Olmo2Config(**COMMON),
    "gemma": lambda: transformers.GemmaConfig(**COMMON, head_dim=32),
}

ODD = {**COMMON, "hidden_size": 84, "num_attention_heads": 7, "num_key_value_heads": 1, "head_dim": 24}
"""Seven query heads per key head, of a size unlike hidden size by heads."""
UNTIED = {**ODD, "tie_word_embeddings": False}
"""For models that scale embeddings: random ones would otherwise repeat the last token."""
MIXED = {"sliding_window": 16, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
GEMMA_4 = {
    **UNTIED,
    "sliding_window": 16,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
    "global_head_dim": 40,
    "num_key_value_heads": 7,
    "num_global_key_value_heads": 1,
    "attention_k_eq_v": True,
    "vocab_size_per_layer_input": VOCABULARY,
    "hidden_size_per_layer_input": 16,
}
"""Layers that attend to everything have fewer and wider heads than those with a window."""
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 48, "decoder_sparse_step": 1, "norm_topk_prob": True}
MULTIPLIERS = {"embedding_multiplier": 3.0, "residual_multiplier": 0.7, "attention_multiplier": 0.3}

DELTA_NET = {
    "layer_types": ["linear_attention", "full_attention", "linear_attention"],
    **{"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 12, "linear_value_head_dim": 16},
}
MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_n_groups": 2, "mamba_d_state": 12, "mamba_chunk_size": 16}
RECURRENT: dict[str, Callable[[], PreTrainedConfig]] = {
    "qwen3.5": lambda: transformers.Qwen3_5TextConfig(**COMMON, **DELTA_NET, head_dim=24),
    "qwen3.5-moe": lambda: transformers.Qwen3_5MoeTextConfig(
        **COMMON, **DELTA_NET, num_experts=4, num_experts_per_tok=2, shared_expert_intermediate_size=48
    ),
    "qwen3-next": lambda: transformers.Qwen3NextConfig(
        **COMMON, **DELTA_NET, **EXPERTS, num_experts=4, shared_expert_intermediate_size=48
    ),
    "olmo-hybrid": lambda: transformers.OlmoHybridConfig(**COMMON, **DELTA_NET),
    "lfm2": lambda: transformers.Lfm2Config(**COMMON, layer_types=["conv", "full_attention", "conv"]),
}
"""Layers with a state of the whole sequence: delta nets, short convolutions."""


FAMILIES: dict[str, Callable[[], PreTrainedConfig]] = {
    "gemma2": lambda: transformers.Gemma2Config(
        **UNTIED, **MIXED, attn_logit_softcapping=8.0, final_logit_softcapping=9.0, query_pre_attn_scalar=9
    ),
    "gemma3": lambda: transformers.Gemma3TextConfig(**UNTIED, **MIXED, query_pre_attn_scalar=9),
    "gemma4": lambda: transformers.Gemma4TextConfig(**GEMMA_4),
    "gemma4-shared": lambda: transformers.Gemma4TextConfig(
        **{**GEMMA_4, "num_hidden_layers": 4, "layer_types": ["sliding_attention", "full_attention"] * 2},
        num_kv_shared_layers=2,
    ),
    "mistral-window": lambda: transformers.MistralConfig(**ODD, sliding_window=40),
    "qwen2-window": lambda: transformers.Qwen2Config(
        **COMMON, use_sliding_window=True, sliding_window=20, max_window_layers=1
    ),
    "phi3-window": lambda: transformers.Phi3Config(**COMMON, sliding_window=64),
    "gpt-oss": lambda: transformers.GptOssConfig(**ODD, **MIXED, num_local_experts=4, num_experts_per_tok=2),
    "granite-swa": lambda: transformers.GraniteSWAConfig(**COMMON, **MIXED, **MULTIPLIERS, logits_scaling=0.5),
    "smollm3": lambda: transformers.SmolLM3Config(**COMMON, no_rope_layers=[1, 0, 1]),
    "cohere": lambda: transformers.CohereConfig(**COMMON, logit_scale=0.3),
    "cohere2": lambda: transformers.Cohere2Config(**COMMON, **MIXED, logit_scale=0.3),
    "olmo3": lambda: transformers.Olmo3Config(
        **COMMON, **MIXED, rope_parameters={"full_attention": rope("yarn"), "sliding_attention": rope("default")}
    ),
    "exaone4": lambda: transformers.Exaone4Config(**COMMON, **MIXED),
    "ministral": lambda: transformers.MinistralConfig(**ODD, **MIXED),
    "starcoder2": lambda: transformers.Starcoder2Config(**COMMON, sliding_window=33),
    "glm4": lambda: transformers.Glm4Config(**{**COMMON, "head_dim": 24}),
    "granite": lambda: transformers.GraniteConfig(**COMMON, **MULTIPLIERS, logits_scaling=0.5),
    "granite-moe": lambda: transformers.GraniteMoeConfig(**COMMON, **MULTIPLIERS, num_local_experts=4),
    "mixtral": lambda: transformers.MixtralConfig(**ODD, num_local_experts=4, sliding_window=16),
    "qwen3-moe": lambda: transformers.Qwen3MoeConfig(**ODD, **EXPERTS, num_experts=4),
    "olmoe": lambda: transformers.OlmoeConfig(**COMMON, num_experts=4, num_experts_per_tok=2),
    "yarn": lambda: transformers.LlamaConfig(**ODD, rope_parameters=rope("yarn", original_max_position_embeddings=64)),
    **RECURRENT,
    "linear-rope": lambda: transformers.LlamaConfig(**ODD, rope_parameters=rope("linear")),
}


OTHERS: dict[str, Callable[[], PreTrainedConfig]] = {
    "deepseek-v3": lambda: transformers.DeepseekV3Config(
        **{**COMMON, "num_key_value_heads": 4},
        **{"q_lora_rank": 24, "kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16},
        **{"n_routed_experts": 4, "n_group": 2, "topk_group": 1, "num_experts_per_tok": 2},
        **{"moe_intermediate_size": 48, "first_k_dense_replace": 1},
    ),
    "llama4": lambda: transformers.Llama4TextConfig(
        **COMMON,
        head_dim=16,
        intermediate_size_mlp=96,
        num_local_experts=4,
        attention_chunk_size=32,
        layer_types=["chunked_attention", "full_attention", "chunked_attention"],
    ),
    "zamba2": lambda: transformers.Zamba2Config(
        **{**COMMON, "num_key_value_heads": 4, "num_hidden_layers": 4},
        layers_block_type=["mamba", "hybrid", "mamba", "hybrid"],
        mamba_d_state=12,
        mamba_ngroups=2,
        n_mamba_heads=8,
        chunk_size=16,
    ),
    "dynamic-rope": lambda: transformers.LlamaConfig(
        **COMMON, rope_parameters=rope("dynamic", original_max_position_embeddings=64)
    ),
    "mamba2": lambda: transformers.Mamba2Config(
        **{"vocab_size": VOCABULARY, "hidden_size": 64, "num_hidden_layers": 3, "eos_token_id": None},
        **{"num_heads": 8, "head_dim": 16, "state_size": 12, "n_groups": 2},
    ),
    "openai-gpt": lambda: transformers.OpenAIGPTConfig(
        vocab_size=VOCABULARY, n_embd=64, n_layer=3, n_head=4, initializer_range=0.5
    ),
    "granite-h": lambda: transformers.GraniteMoeHybridConfig(
        **COMMON,
        **MAMBA,
        **MULTIPLIERS,
        layer_types=["linear_attention", "full_attention", "linear_attention"],
        num_local_experts=4,
        num_experts_per_tok=4,  # all: rounding would route some token of some random tree to another one
        shared_intermediate_size=48,
    ),
}
"""Architectures that the engine's own forward does not run."""
CONFIGS = {**ARCHITECTURES, **FAMILIES}


def make(config: PreTrainedConfig, seed: int = 0) -> PreTrainedModel:
    torch.manual_seed(seed)
    return AutoModelForCausalLM.from_config(config).float().eval()


def tiny(name: str = "llama", seed: int = 0) -> PreTrainedModel:
    return make(CONFIGS[name](), seed)


def small_draft() -> PreTrainedModel:
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
    return make(transformers.LlamaConfig(**{**COMMON, **sizes}), seed=1)


def prompt(length: int = 150, seed: int = 0, vocabulary: int = VOCABULARY) -> list[int]:
    """Random tokens with a repeated passage, so that n-grams have something to find."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, vocabulary, (length,), generator=generator).tolist()
    tokens[-20:] = tokens[10:30]
    return tokens


def generate(
    model: PreTrainedModel, tokens: Sequence[int], new: int, processors: Sequence[Any] = (), **options: Any
) -> list[int]:
    """transformers' own greedy decoding, on its own attention and cache; `options` are those of its `generate`."""
    capped = getattr(model.config, "attn_logit_softcapping", None)
    model.set_attn_implementation("sdpa" if model._supports_sdpa and not capped else "eager")
    ids = torch.tensor([list(tokens)], device=model.device)
    with torch.no_grad():
        out = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=new,
            do_sample=False,
            logits_processor=LogitsProcessorList(processors),
            **options,
        )
    return out[0, len(tokens) :].tolist()


def windowed_draft() -> PreTrainedModel:
    sizes = {"hidden_size": 36, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3}
    types = ["sliding_attention", "full_attention"]
    config = transformers.Gemma3TextConfig(**{**UNTIED, **sizes, "head_dim": 40}, sliding_window=16, layer_types=types)
    return make(config, seed=1)


@cache
def by_generate(new: int, length: int = 150, name: str = "llama") -> list[int]:
    """What `generate` writes behind `prompt(length)` with `tiny(name)`, of which each test makes an equal one."""
    return generate(tiny(name), prompt(length), new)
