"""Sizes of EAGLE heads: exact against heads that were built, from the preset and from every published layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.models.head_config import PublishedHead
from specextend_cli.models.heads import load_head
from specextend_cli.models.memory import draft_sizes
from specextend_cli.models.presets import load_preset
from specextend_cli.models.shape import count_weights
from specextend_cli.models.source_kinds import LocalSource
from tests.engine.tiny_models import tiny
from tests.helpers.published_heads import LAYOUTS, angelslim

from .test_memory import estimated


def own(head: EagleHead, *shared: torch.nn.Module) -> int:
    """Weights that are not the target's. An EAGLE-1 head has no output layer of its own."""
    theirs = {id(weight) for module in shared for weight in module.parameters()}
    return sum(weight.numel() for weight in head.parameters() if id(weight) not in theirs)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_published_layout_tells_its_sizes(layout: Any, tmp_path: Path) -> None:
    layout(tmp_path)
    lm = LanguageModel(tiny())
    head = load_head(tmp_path, lm).head
    config = head.config
    others = 2 * config.draft_vocab + lm.vocabulary + config.hidden  # tables of tokens; the target's norm
    counted = count_weights(tmp_path)
    assert counted >= own(head, lm.model)
    if not (tmp_path / "pytorch_model.bin").exists():  # of which nothing but the size of the file is known
        assert counted - own(head, lm.model) <= others
    cached = sum(2 * layer.self_attn.k_proj.out_features for layer in head.layers)
    assert PublishedHead.read(tmp_path).cached == config.cached == cached


def test_a_published_file_has_the_size_of_its_preset() -> None:
    """yuhuili/EAGLE3-LLaMA3.1-Instruct-8B: a pytorch_model.bin of about 850 MB in half precision."""
    sizes = draft_sizes(load_preset("llama-3.1-8b-eagle3-paper"))
    assert sizes is not None
    assert 2 * sizes.weights == pytest.approx(850e6, rel=0.01)
    sizes = draft_sizes(load_preset("llama-3.3-70b-4bit-eagle3"))  # SpecForge's model.safetensors: 2.81 GB
    assert sizes is not None
    assert 2 * sizes.weights == pytest.approx(2.81e9, rel=0.01)
    sizes = draft_sizes(load_preset("qwen3-32b-eagle3"))  # Red Hat's model.safetensors: 3,121,274,856 bytes
    assert sizes is not None
    assert 2 * sizes.weights == pytest.approx(3_121_274_856, rel=0.001)


def test_memory_counts_the_head() -> None:
    preset = load_preset("llama-3.1-8b-eagle3-paper")
    sizes = preset.draft.shape
    assert sizes is not None
    without = preset.model_copy(update={"draft": preset.draft.model_copy(update={"shape": None})})
    read = 8192 + preset.retrieval.size
    for dtype, item in (("bfloat16", 2), ("float32", 4)):
        short, unknown = (estimated(one, context=8192, dtype=dtype) for one in (preset, without))
        assert short - unknown == item * (sizes.weights + 2 * 8 * 128 * read)


def test_a_head_on_disk_is_believed_before_the_preset(tmp_path: Path) -> None:
    angelslim(tmp_path)
    preset = load_preset("llama-3.1-8b-eagle3-paper")
    draft = preset.draft.model_copy(update={"source": LocalSource(kind="local", path=tmp_path)})
    sizes = draft_sizes(preset.model_copy(update={"draft": draft}))
    assert sizes is not None
    assert (sizes.weights, sizes.cached) == (count_weights(tmp_path), PublishedHead.read(tmp_path).cached)
