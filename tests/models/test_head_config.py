"""Sizes of EAGLE heads: exact against heads that were built, from the preset and from every published layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.models.head_config import read_head_config
from specextend_cli.models.heads import load_head
from specextend_cli.models.memory import draft_sizes
from specextend_cli.models.presets import load_preset
from specextend_cli.models.shape import Sizes
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
    config = read_head_config(tmp_path)
    others = 2 * config.draft_vocab + lm.vocabulary + config.hidden  # tables of tokens; the target's norm
    counted = Sizes.counted(tmp_path).weights
    assert counted >= own(head, lm.model)
    if not (tmp_path / "pytorch_model.bin").exists():  # of which nothing but the size of the file is known
        assert counted - own(head, lm.model) <= others
    assert config.cached == sum(2 * layer.self_attn.k_proj.out_features for layer in head.layers)


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
    short, long = estimated(preset, context=8192), estimated(preset, context=16384)
    sizes = preset.draft.shape
    assert sizes is not None
    assert short.draft_weights == 2 * sizes.weights
    assert long.draft_kv - short.draft_kv == 8192 * 2 * 2 * 8 * 128
    assert short.complete
    single = estimated(preset, context=8192, dtype="float32")
    assert single.draft_weights == 2 * short.draft_weights


def test_a_head_of_unknown_size_makes_a_lower_bound(tmp_path: Path) -> None:
    known = load_preset("qwen3-32b-eagle3")
    preset = known.model_copy(update={"draft": known.draft.model_copy(update={"shape": None})})
    need = estimated(preset)
    assert not need.complete
    assert need.draft_weights == 0
    assert need.fits(need.total // 2) is False
    assert need.fits(10 * need.total) is None


def test_a_head_on_disk_is_believed_before_the_preset(tmp_path: Path) -> None:
    angelslim(tmp_path)
    preset = load_preset("llama-3.1-8b-eagle3-paper")
    draft = preset.draft.model_copy(update={"source": LocalSource(kind="local", path=tmp_path)})
    local = estimated(preset.model_copy(update={"draft": draft}))
    assert local.draft_weights == 2 * Sizes.counted(tmp_path).weights
