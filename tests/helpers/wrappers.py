"""Tiny random models that also read images or sound, in the layouts that transformers writes, 4's and 5's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForMultimodalLM, PreTrainedConfig, PreTrainedModel

from tests.engine.tiny_models import COMMON, GEMMA_4, MIXED, UNTIED
from tests.helpers.gguf_files import MINISTRAL

TEXT = {**COMMON, "head_dim": 32}
MISTRAL = {**TEXT, "model_type": "mistral", "sliding_window": None}
TOWER = {
    **{"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1},
    **{"image_size": 28, "patch_size": 14},
}
WIDE_TOWER = {**TOWER, "head_dim": 16}
QWEN3_TOWER = {"depth": 1, "embed_dim": 16, "hidden_size": 16, "num_heads": 1, "out_hidden_size": 64}
QWEN3_TOWER |= {"intermediate_size": 16, "num_position_embeddings": 16, "deepstack_visual_indexes": [0]}


def of(kind: str, text: dict[str, Any], tower: dict[str, Any], **more: Any) -> Callable[[], PreTrainedConfig]:
    """A wrapper's configuration, by its `model_type`."""
    return lambda: AutoConfig.for_model(
        kind, text_config={**text}, vision_config={**tower}, **{"tie_word_embeddings": False, **more}
    )


def of_kind(kind: str) -> list[str]:
    """Layers of which one has attention."""
    return [kind, "full_attention", kind]


ALL: dict[str, Callable[[], PreTrainedConfig]] = {
    "gemma3": of("gemma3", {**UNTIED, **MIXED, "query_pre_attn_scalar": 24}, TOWER),
    "gemma4": of("gemma4", {**GEMMA_4, "pad_token_id": 0}, WIDE_TOWER),
    "gemma4_unified": of("gemma4_unified", {**GEMMA_4, "pad_token_id": 0}, WIDE_TOWER),
    "mistral3": of("mistral3", MISTRAL, WIDE_TOWER),
    "mistral3-tied": of("mistral3", MISTRAL, WIDE_TOWER, tie_word_embeddings=True),
    "mistral3-ministral": of(
        "mistral3",
        {**TEXT, "model_type": "ministral3", "rope_parameters": {**MINISTRAL, "original_max_position_embeddings": 64}},
        WIDE_TOWER,
    ),
    "qwen3_5": of("qwen3_5", {**TEXT, "layer_types": of_kind("linear_attention")}, QWEN3_TOWER),
    "qwen3_5_moe": of(
        "qwen3_5_moe",
        {**TEXT, "layer_types": of_kind("linear_attention"), "num_experts": 4, "num_experts_per_tok": 2},
        QWEN3_TOWER,
    ),
}
"""Configurations by `model_type` and what is particular."""


def make(name: str, seed: int = 0) -> PreTrainedModel:
    """The whole model, none of whose weights are zeros or ones."""
    config = ALL[name]()
    torch.manual_seed(seed)
    model: PreTrainedModel = AutoModelForMultimodalLM.from_config(config).float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return model


def save(model: PreTrainedModel, directory: Path, *, published: bool = True) -> Path:
    """In the layout of the files on the Hub, or by the names that transformers 5 has in memory."""
    model.save_pretrained(directory, save_original_format=published)
    return directory


def tensor_names(directory: Path) -> set[str]:
    """The names in a file of weights, or in a directory's only one."""
    with (directory / "model.safetensors" if directory.is_dir() else directory).open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return header.keys() - {"__metadata__"}
