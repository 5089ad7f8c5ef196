"""Tiny random models of every architecture we claim, and `generate` as the judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

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

ARCHITECTURES: dict[str, Callable[[], PreTrainedConfig]] = {
    "llama": lambda: transformers.LlamaConfig(**COMMON),
    "llama-mha": lambda: transformers.LlamaConfig(**{**COMMON, "num_key_value_heads": 4}),
    "llama3-rope": lambda: transformers.LlamaConfig(
        **COMMON,
        rope_parameters={
            "rope_type": "llama3",
            "rope_theta": 10000.0,
            "factor": 4.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 128,
        },
    ),
    "qwen2": lambda: transformers.Qwen2Config(**COMMON),
    "qwen3": lambda: transformers.Qwen3Config(**COMMON, head_dim=32),
    "mistral": lambda: transformers.MistralConfig(**COMMON, sliding_window=None),
    "phi3": lambda: transformers.Phi3Config(**COMMON, sliding_window=None),
    "olmo2": lambda: transformers.Olmo2Config(**COMMON),
    "gemma": lambda: transformers.GemmaConfig(**COMMON, head_dim=32),
}


def make(config: PreTrainedConfig, seed: int = 0) -> PreTrainedModel:
    torch.manual_seed(seed)
    return AutoModelForCausalLM.from_config(config).float().eval()


def tiny(name: str = "llama", seed: int = 0) -> PreTrainedModel:
    return make(ARCHITECTURES[name](), seed)


def small_draft(seed: int = 1) -> PreTrainedModel:
    return make(
        transformers.LlamaConfig(
            **{**COMMON, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
        ),
        seed,
    )


def prompt(length: int = 150, seed: int = 0, vocabulary: int = VOCABULARY) -> list[int]:
    """Random tokens with a repeated passage, so that n-grams have something to find."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, vocabulary, (length,), generator=generator).tolist()
    tokens[-20:] = tokens[10:30]
    return tokens


def generate(
    model: PreTrainedModel, tokens: Sequence[int], new: int, processors: LogitsProcessorList | None = None
) -> list[int]:
    """transformers' own greedy decoding, on its own attention and cache."""
    model.set_attn_implementation("sdpa")
    ids = torch.tensor([list(tokens)], device=model.device)
    with torch.no_grad():
        out = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=new,
            do_sample=False,
            logits_processor=processors or LogitsProcessorList(),
        )
    return out[0, len(tokens) :].tolist()


def by_generate(new: int, length: int = 150, name: str = "llama") -> list[int]:
    """What `generate` writes behind `prompt(length)` with `tiny(name)`, of which each test makes an equal one."""
    return list(_by_generate(new, length, name))


@cache
def _by_generate(new: int, length: int, name: str) -> tuple[int, ...]:
    return tuple(generate(tiny(name), prompt(length), new))
