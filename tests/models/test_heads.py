"""EAGLE heads in every published layout: the same logits whatever the names."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.step import Step
from specextend_cli.models.head_config import PublishedHead, default_layers
from specextend_cli.models.heads import load_head
from specextend_cli.models.shape import count_weights
from tests.engine.tiny_heads import tiny_head
from tests.engine.tiny_models import prompt, tiny
from tests.helpers.draft_files import save_head
from tests.helpers.model_files import change_tensors
from tests.helpers.plain_eagle import Plain, follows
from tests.helpers.published_heads import (
    LAYOUTS,
    angelslim,
    bare,
    deepspec,
    safeailab_1,
    safeailab_3,
    specbundle,
    specforge_31,
    yarn,
)


def logits(head: EagleHead, lm: LanguageModel, tokens: Tensor, features: Tensor) -> Tensor:
    cache = head.new_cache(len(tokens))
    return head.run(Step(tokens, torch.arange(len(tokens)), cache, backend=lm.backend, features=features)).logits


@pytest.mark.parametrize("layout", LAYOUTS)
@torch.inference_mode()
def test_every_published_layout(layout: Any, tmp_path: Path) -> None:
    """Logits equal an independent computation from the tensors that were written, step by step through a chain."""
    written, lm = layout(tmp_path), LanguageModel(tiny())
    plain = Plain(written)
    if layout in (safeailab_3, yarn, specbundle, specforge_31, bare):
        plain.w["embedding.weight"] = lm.model.get_input_embeddings().weight.double()
    if layout in (safeailab_1, bare):
        plain.w["lm_head.weight"] = lm.model.get_output_embeddings().weight.double()
    loaded = load_head(tmp_path, lm).head
    silent = layout in (safeailab_3, angelslim, yarn, specbundle, specforge_31, bare)
    expected_layers = default_layers(3) if silent else written.config.feature_layers
    assert loaded.config.feature_layers == expected_layers
    variants = ("norm_before_residual", "norm_before_fc", "fc_norm", "feeds_normed", "qk_norm")
    assert all(getattr(loaded.config, variant) == getattr(written.config, variant) for variant in variants)
    assert torch.equal(loaded.vocabulary, written.vocabulary)
    cached = sum(2 * layer.self_attn.k_proj.out_features for layer in loaded.layers)
    assert PublishedHead.read(tmp_path).cached == cached
    theirs = set(map(id, lm.model.parameters()))  # an EAGLE-1 head has no output layer of its own
    own = sum(weight.numel() for weight in loaded.parameters() if id(weight) not in theirs)
    counted = count_weights(tmp_path)
    assert counted >= own
    if not (tmp_path / "pytorch_model.bin").exists():  # of which nothing but the size of the file is known
        tables = 2 * loaded.config.draft_vocab + lm.vocabulary
        assert counted - own <= tables + loaded.config.hidden  # of tokens; the target's norm
    follows(loaded, plain)


@pytest.mark.parametrize("name", ["eagle3-residual", "eagle3.1", "eagle3-qk-norm", "eagle3-norm-before-fc"])
@torch.inference_mode()
def test_what_is_saved_can_be_loaded(name: str, tmp_path: Path) -> None:
    lm, head = LanguageModel(tiny()), tiny_head(name)
    head.embedding = lm.model.get_input_embeddings()
    save_head(head, tmp_path)
    loaded = load_head(tmp_path, lm)
    assert loaded.head.config == dataclasses.replace(head.config, embedding=0)
    assert {reading.feeds_normed for reading in loaded.readings} == {head.config.feeds_normed}
    tokens, features = torch.tensor(prompt(60)[:20]), torch.randn(20, 192)
    assert torch.equal(logits(loaded.head, lm, tokens, features), logits(head, lm, tokens, features))
    with pytest.raises(ValueError, match="EAGLE-3"):
        save_head(tiny_head("eagle1"), tmp_path)
    with pytest.raises(ValueError, match="this layout"):
        save_head(tiny_head("eagle3", feeds_normed=True), tmp_path)


@torch.no_grad()
def test_copies_of_the_targets_matrices_are_shared(tmp_path: Path) -> None:
    """DeepSpec trains with both frozen. One number that differs, and the head keeps its own."""
    lm = LanguageModel(tiny())
    written = deepspec(tmp_path)
    theirs = lm.model.get_input_embeddings(), lm.model.get_output_embeddings()
    copies = dict(zip(("embed_tokens.weight", "lm_head.weight"), (one.weight.clone() for one in theirs), strict=True))
    change_tensors(tmp_path, lambda tensors: tensors.update(copies))
    loaded = load_head(tmp_path, lm).head
    assert (loaded.embedding, loaded.lm_head) == theirs
    written.embedding.weight.data.copy_(theirs[0].weight)
    written.lm_head.weight.data.copy_(theirs[1].weight)
    follows(loaded, Plain(written))
    change_tensors(tmp_path, lambda tensors: [tensors[key][-1, -1].add_(1) for key in copies])
    loaded = load_head(tmp_path, lm).head
    assert loaded.embedding is not theirs[0]
    assert loaded.lm_head is not theirs[1]


def test_default_layers_are_not_written(tmp_path: Path) -> None:
    """Engines count explicit ids in two ways, so a head that needs none names none."""
    lm, head = LanguageModel(tiny()), tiny_head("eagle3")
    head.config = dataclasses.replace(head.config, feature_layers=default_layers(3))
    save_head(head, tmp_path, target_layers=3)
    assert "eagle_config" not in json.loads((tmp_path / "config.json").read_text())
    loaded = load_head(tmp_path, lm)
    assert [reading.feature_layers for reading in loaded.readings] == [default_layers(3)]


def test_angles_stay_exact_in_half_precision(tmp_path: Path) -> None:
    safeailab_3(tmp_path)
    head = load_head(tmp_path, LanguageModel(tiny().to(torch.bfloat16))).head
    assert head.fc.weight.dtype == torch.bfloat16
    assert head.rotary.inv_freq.dtype == torch.float32
    assert torch.equal(head.rotary.inv_freq, tiny_head("eagle3").rotary.inv_freq)
