"""Tiny random models on disk, each with drafts and a preset: kinds of layers and drafts that the embedded pair lacks.

Weights come from fixed seeds, and from transformers' modules only, so that they do not change with our own code.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zlib import crc32

import torch
import transformers
from safetensors.torch import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from tests.engine.tiny_models import COMMON, DELTA_NET, EXPERTS, MIXED, VOCABULARY, make, tiny
from tests.helpers import published_mtp
from tests.helpers.tiny_assistants import tiny_assistant

LINEAR = ["linear_attention", "linear_attention", "full_attention"]
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt-oss": ("GptOssConfig", {**COMMON, **MIXED, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "qwen3-moe": ("Qwen3MoeConfig", {**COMMON, **EXPERTS, "num_experts": 4}),
    "qwen3.5": ("Qwen3_5TextConfig", {**COMMON, **DELTA_NET, "layer_types": LINEAR, "head_dim": 24}),
}
"""The class and its settings. Others are the tests' tiny models of that name.

These are of another size or make than the tests': experts' products in bfloat16 need rows of 16 bytes.
"""
PRESET = """
title = "Random weights"
description = "For comparisons."
licence = "none"
target.source = { kind = "local", path = "target" }
draft = { kind = "blend", of = ["ngram", "lm"], window = 64, source = { kind = "local", path = "draft" } }
window = { context = 1024, chunk = 200, chunk_summary_tokens = 20 }
"""


def save_models(folder: Path, name: str) -> int:
    """Write `preset.toml`, the target, a draft model, and what heads there are; returns a checksum of all weights.

    The draft model is the target, a little off. "qwen3.5" also has a multi-token prediction layer.
    """
    if name in CONFIGS:
        config, settings = CONFIGS[name]
        model = make(getattr(transformers, config)(**settings))
    else:
        model = tiny(name)
    model.save_pretrained(folder / "target")
    Tokenizer(WordLevel({f"{token}": token for token in range(VOCABULARY)})).save(f"{folder}/target/tokenizer.json")
    (folder / "preset.toml").write_text(PRESET)
    if name == "qwen3.5":
        published_mtp.add(folder / "target", published_mtp.published(published_mtp.prediction_layer(model)))
    if name == "gemma4":
        tiny_assistant(backbone=model.config.hidden_size).save_pretrained(folder / "assistant")
    if name in ("qwen3", "qwen3.5"):
        _save_eagle_1(folder / "eagle1")
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1 + 0.05 * torch.randn(parameter.shape, generator=generator))
    model.save_pretrained(folder / "draft")
    return crc32(b"".join(file.read_bytes() for file in sorted(folder.rglob("*.safetensors"))))


def _save_eagle_1(folder: Path) -> None:
    """A head of EAGLE-1, which is EAGLE-2's, too: a layer of Llama without its first norm, behind one matrix."""
    sizes: dict[str, Any] = {**COMMON, "num_hidden_layers": 1, "head_dim": 32}
    llama: Any = make(transformers.LlamaConfig(**sizes), 2)
    llama.config.save_pretrained(folder)
    layer = {name: tensor for name, tensor in llama.model.state_dict().items() if name.startswith("layers")}
    del layer["layers.0.input_layernorm.weight"]
    save_file({**layer, "fc.weight": torch.randn(64, 128) / 10}, folder / "model.safetensors")
