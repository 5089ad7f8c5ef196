"""Sizes of EAGLE heads: exact against heads that were built, from the preset and from every published layout."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.models.head_config import read_head_config
from specextend_cli.models.heads import load_head
from specextend_cli.models.memory import draft_shape, fits
from specextend_cli.models.presets import list_presets, load_preset
from specextend_cli.models.source_kinds import LocalSource
from tests.engine.tiny_heads import VARIANTS
from tests.engine.tiny_models import tiny
from tests.helpers.published_heads import LAYOUTS, angelslim

from .test_memory import estimated


def own(head: EagleHead, *shared: torch.nn.Module) -> int:
    """Weights that are not the target's. An EAGLE-1 head has no output layer of its own."""
    theirs = {id(weight) for module in shared for weight in module.parameters()}
    return sum(weight.numel() for weight in head.parameters() if id(weight) not in theirs)


@pytest.mark.parametrize("name", VARIANTS)
def test_counts_are_those_of_a_real_head(name: str) -> None:
    head = EagleHead(VARIANTS[name])
    shape = head.config
    assert shape.parameters == own(head)
    assert shape.weight_bytes(4) == 4 * own(head)
    cache = head.new_cache(7)
    cache.reserve(7)
    assert shape.kv_bytes_per_token(4) == 4 * 2 * head.config.layers * head.config.kv_heads * head.config.head_dim


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_published_layout_tells_its_sizes(layout: Any, tmp_path: Path) -> None:
    layout(tmp_path)
    lm = LanguageModel(tiny())
    head = load_head(tmp_path, lm).head
    assert read_head_config(tmp_path).parameters == own(head, lm.model)
    assert read_head_config(tmp_path).kv_bytes_per_token(4) == sum(
        2 * 4 * layer.self_attn.k_proj.out_features for layer in head.layers
    )


HEADS = {preset.name: preset for preset in list_presets() if preset.draft.head is not None}


@pytest.mark.parametrize("name", HEADS)
def test_shipped_sizes_are_those_of_a_head_for_their_target(name: str) -> None:
    shape, target = HEADS[name].draft.head, HEADS[name].target.shape
    assert shape is not None
    assert target is not None
    assert shape.target_hidden == target.hidden
    assert shape.embedding in (0, target.vocab)
    config = replace(shape, embedding=target.vocab, draft_vocab=shape.draft_vocab or target.vocab)
    with torch.device("meta"):
        head = EagleHead(config)
    shared = [] if shape.embedding else [head.embedding]
    assert shape.parameters == own(head, *shared, *([] if shape.draft_vocab else [head.lm_head]))


def test_a_published_file_has_the_size_of_its_preset() -> None:
    """yuhuili/EAGLE3-LLaMA3.1-Instruct-8B: a pytorch_model.bin of about 850 MB in half precision."""
    shape = draft_shape(load_preset("llama-3.1-8b-eagle3-paper"))
    assert shape is not None
    assert shape.weight_bytes(2) == pytest.approx(850e6, rel=0.01)
    shape = draft_shape(load_preset("llama-3.3-70b-4bit-eagle3"))  # SpecForge's model.safetensors: 2.81 GB
    assert shape is not None
    assert shape.weight_bytes(2) == pytest.approx(2.81e9, rel=0.01)
    shape = draft_shape(load_preset("qwen3-32b-eagle3"))  # Red Hat's model.safetensors: 3,121,274,856 bytes
    assert shape is not None
    assert shape.weight_bytes(2) == pytest.approx(3_121_274_856, rel=0.001)


def test_memory_counts_the_head() -> None:
    preset = load_preset("llama-3.1-8b-eagle3-paper")
    short, long = estimated(preset, context=8192), estimated(preset, context=16384)
    shape = preset.draft.head
    assert shape is not None
    assert short.draft_weights == 2 * shape.parameters
    assert long.draft_kv - short.draft_kv == 8192 * 2 * 2 * 8 * 128
    assert short.complete
    single = estimated(preset, context=8192, dtype="float32")
    assert single.draft_weights == 2 * short.draft_weights


def test_a_head_of_unknown_size_makes_a_lower_bound(tmp_path: Path) -> None:
    known = load_preset("qwen3-32b-eagle3")
    preset = known.model_copy(update={"draft": known.draft.model_copy(update={"head": None})})
    need = estimated(preset)
    assert not need.complete
    assert need.draft_weights == 0
    assert fits(preset, need.total // 2) is False
    assert fits(preset, 10 * need.total) is None


def test_a_head_on_disk_is_believed_before_the_preset(tmp_path: Path) -> None:
    angelslim(tmp_path)
    preset = load_preset("llama-3.1-8b-eagle3-paper")
    draft = preset.draft.model_copy(update={"source": LocalSource(kind="local", path=tmp_path)})
    local = estimated(preset.model_copy(update={"draft": draft}))
    assert local.draft_weights == read_head_config(tmp_path).weight_bytes()
