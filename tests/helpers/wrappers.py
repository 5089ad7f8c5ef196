"""Tiny random models that also read images or sound, in the layouts that transformers writes, 4's and 5's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModelForMultimodalLM, PreTrainedConfig, PreTrainedModel

from tests.engine.tiny_models import COMMON, GEMMA_4, MIXED, UNTIED
from tests.helpers.gguf_files import MINISTRAL

TEXT = {**COMMON, "head_dim": 32}
TOWER = {
    **{"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1},
    **{"image_size": 28, "patch_size": 14},
}
QWEN2_TOWER = {"depth": 1, "embed_dim": 16, "hidden_size": 64, "num_heads": 1}
QWEN25_TOWER = {**QWEN2_TOWER, "hidden_size": 16, "out_hidden_size": 64, "intermediate_size": 16}
QWEN3_TOWER = {**QWEN25_TOWER, "num_position_embeddings": 16, "deepstack_visual_indexes": [0]}
SOUND = {**TOWER, "d_model": 16, "encoder_layers": 1, "encoder_attention_heads": 1, "encoder_ffn_dim": 16}


def sections(**rope: Any) -> dict[str, Any]:
    """A text part with M-RoPE, which rotates 16 pairs of a head by three positions."""
    return {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5, "mrope_section": [4, 6, 6], **rope}}


def of(kind: str, text: dict[str, Any], tower: dict[str, Any], **more: Any) -> Callable[[], PreTrainedConfig]:
    """A wrapper's configuration, by its `model_type`."""
    part = "audio_config" if tower is SOUND else "vision_config"
    return lambda: AutoConfig.for_model(
        kind, text_config={**text}, **{part: {**tower}}, **{"tie_word_embeddings": False, **more}
    )


def of_kind(kind: str) -> list[str]:
    """Layers of which one has attention."""
    return [kind, "full_attention", kind]


WIDE = {**COMMON, "hidden_size": 128, "num_attention_heads": 4}
"""For those whose heads have hidden size by heads numbers."""
EXACT: dict[str, Callable[[], PreTrainedConfig]] = {
    "gemma3": of("gemma3", {**UNTIED, **MIXED, "query_pre_attn_scalar": 24}, TOWER),
    "gemma4": of("gemma4", {**GEMMA_4, "pad_token_id": 0}, {**TOWER, "head_dim": 16}),
    "gemma4_unified": of("gemma4_unified", {**GEMMA_4, "pad_token_id": 0}, {**TOWER, "head_dim": 16}),
    "mistral3": of("mistral3", {**TEXT, "model_type": "mistral", "sliding_window": None}, {**TOWER, "head_dim": 16}),
    "mistral3-tied": of(
        "mistral3",
        {**TEXT, "model_type": "mistral", "sliding_window": None},
        {**TOWER, "head_dim": 16},
        tie_word_embeddings=True,
    ),
    "mistral3-ministral": of(
        "mistral3",
        {**TEXT, "model_type": "ministral3", "rope_parameters": {**MINISTRAL, "original_max_position_embeddings": 64}},
        {**TOWER, "head_dim": 16},
    ),
    "qwen2_vl": of("qwen2_vl", {**WIDE, **sections()}, {**QWEN2_TOWER, "hidden_size": 128}),
    "qwen2_5_vl": of("qwen2_5_vl", {**WIDE, **sections()}, {**QWEN25_TOWER, "out_hidden_size": 128}),
    "qwen3_vl": of("qwen3_vl", {**TEXT, **sections(mrope_interleaved=True)}, QWEN3_TOWER),
    "qwen3_vl-tied": of("qwen3_vl", {**TEXT, **sections()}, QWEN3_TOWER, tie_word_embeddings=True),
    "llava": of("llava", {**TEXT, "model_type": "llama"}, {**TOWER, "model_type": "clip_vision_model"}),
    "llava_next": of("llava_next", {**TEXT, "model_type": "mistral"}, {**TOWER, "model_type": "clip_vision_model"}),
    "llava_onevision": of(
        "llava_onevision", {**COMMON, "model_type": "qwen2"}, {**TOWER, "model_type": "siglip_vision_model"}
    ),
    "internvl": of(
        "internvl",
        {**TEXT, "model_type": "qwen3"},
        {**TOWER, "image_size": [28, 28], "patch_size": [14, 14]},
    ),
    "idefics3": of("idefics3", {**TEXT, "model_type": "llama"}, TOWER),
    "smolvlm": of("smolvlm", {**TEXT, "model_type": "llama"}, TOWER),
    "exaone4_5": of("exaone4_5", {**TEXT, **MIXED, "model_type": "exaone4"}, QWEN25_TOWER),
    "voxtral": of("voxtral", {**TEXT, "model_type": "llama"}, SOUND),
}
"""Whose text part is decoded here, by `model_type` and what is particular."""


REFUSED: dict[str, Callable[[], PreTrainedConfig]] = {
    "gemma3n": of(
        "gemma3n",
        {
            **UNTIED,
            "pad_token_id": 0,
            "vocab_size_per_layer_input": 97,
            "hidden_size_per_layer_input": 16,
            "num_kv_shared_layers": 1,
        }
        | {"laurel_rank": 8, "layer_types": MIXED["layer_types"], "activation_sparsity_pattern": [0.0] * 3},
        {"hidden_size": 16},
        audio_config={**SOUND, "conf_num_hidden_layers": 1, "conf_num_attention_heads": 1},
    ),
    "qwen3_5": of("qwen3_5", {**TEXT, "layer_types": of_kind("linear_attention")}, QWEN3_TOWER),
    "qwen3_5_moe": of(
        "qwen3_5_moe",
        {**TEXT, "layer_types": of_kind("linear_attention"), "num_experts": 4, "num_experts_per_tok": 2},
        QWEN3_TOWER,
    ),
    "llama4": of("llama4", {**TEXT, "num_local_experts": 2, "intermediate_size_mlp": 48}, TOWER),
    "lfm2_vl": of("lfm2_vl", {**COMMON, "model_type": "lfm2", "layer_types": of_kind("conv")}, TOWER),
}
"""Others whose text part is loaded alone; whether it can be decoded is the engine's to say."""
ALL = {**EXACT, **REFUSED}


def make(name: str, seed: int = 0) -> PreTrainedModel:
    """The whole model, none of whose weights are zeros or ones."""
    config = ALL[name]()
    torch.manual_seed(seed)
    model: PreTrainedModel = AutoModelForMultimodalLM.from_config(config).float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return model


def without_timm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Gemma 3n be made without the library of its tower for images."""
    from transformers import AutoModel
    from transformers.models.gemma3n import modeling_gemma3n

    class Towers:
        @staticmethod
        def from_config(config: PreTrainedConfig) -> nn.Module:
            return AutoModel.from_config(config) if config.model_type == "gemma3n_text" else nn.Linear(4, 4)

    monkeypatch.setattr(modeling_gemma3n, "AutoModel", Towers)


def save(model: PreTrainedModel, directory: Path, *, published: bool = True) -> Path:
    """In the layout of the files on the Hub, or by the names that transformers 5 has in memory."""
    model.save_pretrained(directory, save_original_format=published)
    return directory


def tensor_names(directory: Path) -> set[str]:
    """The names in a file of weights, or in a directory's only one."""
    with (directory / "model.safetensors" if directory.is_dir() else directory).open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return header.keys() - {"__metadata__"}
