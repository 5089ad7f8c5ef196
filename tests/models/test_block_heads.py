"""Block heads in every published layout: the same proposals whatever the names, and refusals with reasons."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from specextend_cli.engine.block_head import BlockHead
from specextend_cli.engine.drafters import BlockDrafter
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.target import Target
from specextend_cli.errors import ModelError
from specextend_cli.models.block_heads import default_block_layers, load_block_head, save_block_head
from specextend_cli.models.block_settings import is_block_head
from specextend_cli.models.block_shape import BlockShape
from specextend_cli.models.head_settings import HeadSettings
from specextend_cli.models.heads import load_head
from tests.engine.test_block import Plain, block
from tests.engine.tiny_blocks import tiny_block
from tests.engine.tiny_models import VOCABULARY, by_generate, prompt, tiny
from tests.helpers.decoding import NEW, run, small
from tests.helpers.published_blocks import (
    LAYOUTS,
    deepspec_dspark,
    modelopt,
    speculators_dflash,
    z_lab,
    z_lab_windows,
)
from tests.helpers.published_heads import safeailab_3

Layout = Callable[[Path], BlockHead]


@pytest.mark.parametrize("layout", LAYOUTS)
@torch.inference_mode()
def test_every_published_layout(layout: Layout, tmp_path: Path) -> None:
    written, lm = layout(tmp_path), LanguageModel(tiny())
    assert is_block_head(tmp_path)
    head = load_block_head(tmp_path, lm)
    config = head.config
    assert config.feature_layers == written.config.feature_layers
    assert (config.windows, config.is_causal) == (written.config.windows, written.config.is_causal)
    assert config.depth == written.config.depth
    features = torch.randn(150, 3 * 64)
    out, (logits, states) = block(head, features, 7), Plain(written).run(features, 7)
    assert torch.allclose(out.logits.double(), logits, atol=1e-4)
    assert torch.allclose(out.states.double(), states, atol=1e-4)
    for path in ((7,), (7, 11, 12)):
        assert torch.allclose(Plain(head).shares(logits, states, path), Plain(written).shares(logits, states, path))
    own = {id(weight) for weight in lm.model.parameters()}
    count = sum(weight.numel() for weight in head.parameters() if id(weight) not in own)
    copies = 2 * VOCABULARY * 64 * layout.__name__.startswith("deepspec") + VOCABULARY * 64 * (
        layout is speculators_dflash
    )
    assert BlockShape.of(tmp_path).parameters == count + copies
    assert BlockShape.of(tmp_path).kv_bytes_per_token(4) == head.new_cache(256).nbytes // 256


@pytest.mark.parametrize("layout", LAYOUTS)
def test_identity_with_every_layout(layout: Layout, tmp_path: Path) -> None:
    layout(tmp_path)
    target, retrieval = Target(LanguageModel(tiny())), small("retrieval", positions="compact")
    drafter = BlockDrafter(load_block_head(tmp_path, target.lm), target, retrieval)
    assert run(target, drafter, prompt(), retrieval)[0] == by_generate(NEW)


@torch.inference_mode()
def test_a_trained_head_is_written_and_read(tmp_path: Path) -> None:
    lm = LanguageModel(tiny())
    head = tiny_block("dflash", draft_vocabulary=40, vocabulary=VOCABULARY)
    head.embedding = lm.model.get_input_embeddings()  # type: ignore[assignment]
    save_block_head(head, tmp_path, dtype=torch.float32)
    again = load_block_head(tmp_path, lm)
    assert again.config == head.config
    assert again.embedding is lm.model.get_input_embeddings()
    features = torch.randn(20, 3 * 64)
    assert torch.equal(block(again, features, 3).logits, block(head, features, 3).logits)
    with pytest.raises(ValueError, match="only DFlash"):
        save_block_head(tiny_block("dspark"), tmp_path, dtype=torch.float32)


def test_what_the_target_has_is_shared(tmp_path: Path) -> None:
    lm = LanguageModel(tiny())
    deepspec_dspark(tmp_path)
    head = load_block_head(tmp_path, lm)
    assert head.embedding is lm.model.get_input_embeddings()
    assert head.lm_head is lm.model.get_output_embeddings()


def test_layers_that_are_not_named_are_spaced_as_z_lab_does() -> None:
    assert default_block_layers(36, 5) == (2, 10, 18, 26, 34)
    assert default_block_layers(36, 1) == (19,)


def edit(directory: Path, **settings: Any) -> None:
    """Change keys of config.json; `table` those of its dflash_config."""
    file = directory / "config.json"
    data = json.loads(file.read_text())
    data.get("dflash_config", {}).update(settings.pop("table", {}))
    file.write_text(json.dumps({**data, **settings}))


REFUSED: list[tuple[Layout, dict[str, Any], str]] = [
    (z_lab, {"block_size": None}, "block_size"),
    (z_lab, {"block_size": 6, "table": {"block_size": 7}}, "config.json says block_size 6, its dflash_config 7"),
    (z_lab, {"block_size": "6"}, "block_size: Input should be a valid integer"),
    (z_lab, {"block_size": 1 << 20}, "less than or equal to 64"),
    (z_lab, {"table": {"mask_token_id": VOCABULARY}}, f"its mask token is {VOCABULARY}"),
    (z_lab, {"table": {"mask_token_id": -1}}, "mask_token_id"),
    (z_lab, {"table": {"target_layer_ids": [0, 1]}}, "it names 2 states and fuses 3"),
    (z_lab, {"table": {"target_layer_ids": [0, 1, 3]}}, "the target has 3 layers"),
    (z_lab, {"table": {"attention_sink_bias": True}}, "sinks"),
    (z_lab, {"table": {"selector_rank": 16}}, "DFlash 2"),
    (z_lab, {"architectures": ["DFlash2DraftModel"]}, "DFlash 2"),
    (z_lab, {"architectures": ["Gemma4DSparkModel"]}, "gemma"),
    (z_lab, {"num_target_layers": 36}, "num_target_layers 36, the target has 3"),
    (z_lab, {"hidden_size": 32}, "hidden_size 32, its tensors have 64"),
    (z_lab, {"num_hidden_layers": 5}, "num_hidden_layers 5, it has 2"),
    (z_lab, {"num_attention_heads": 3}, "do not divide among 3 heads"),
    (z_lab, {"layer_types": ["chunked_attention"] * 2}, "layer_types"),
    (z_lab, {"dflash_config": []}, "not an object"),
    (
        z_lab_windows,
        {"rope_parameters": {"sliding_attention": {"rope_theta": 500.0}, "full_attention": {"rope_theta": 1e6}}},
        "different position encodings",
    ),
    (z_lab_windows, {"sliding_window": 4}, "sliding_window is 4"),
    (deepspec_dspark, {"markov_rank": 16}, "a Markov head"),
    (deepspec_dspark, {"markov_head_type": "rnn"}, "a Markov head"),
    (deepspec_dspark, {"enable_confidence_head": False}, "enable_confidence_head"),
    (deepspec_dspark, {"confidence_head_with_markov": False}, "confidence_head_with_markov"),
    (deepspec_dspark, {"rope_parameters": {"rope_type": "longrope"}}, "rope_type"),
    (modelopt, {"table": {"markov_head_type": "other"}}, "markov_head_type"),
    (speculators_dflash, {"draft_vocab_size": 50}, "draft_vocab_size 50"),
]


@pytest.mark.parametrize(("layout", "changes", "why"), REFUSED)
def test_a_configuration_that_contradicts_itself_or_its_tensors_is_refused(
    layout: Layout, changes: dict[str, Any], why: str, tmp_path: Path
) -> None:
    layout(tmp_path)
    edit(tmp_path, **changes)
    with pytest.raises(ModelError) as raised:
        load_block_head(tmp_path, LanguageModel(tiny()))
    assert why in f"{raised.value} {raised.value.why}"


TENSORS: list[tuple[Layout, str, Any, str]] = [
    (z_lab, "layers.0.self_attn.g_proj.weight", torch.ones(2, 2), "a tensor that no such head has"),
    (z_lab, "layers.1.mlp.up_proj.weight", None, "tensors are missing"),
    (z_lab, "fc.weight", torch.ones(64, 100), "its fc reads 100 numbers"),
    (z_lab, "layers.0.self_attn.q_norm.weight", torch.ones(7), "size mismatch"),
    (z_lab, "layers.0.mlp.gate_proj.weight", torch.ones(96, 64, dtype=torch.int8), "no weight_scale"),
    (z_lab, "mask_hidden", torch.ones(64), "an embedding of its own"),
    (speculators_dflash, "d2t", torch.zeros(40, dtype=torch.long), "d2t and t2d name different tokens"),
    (speculators_dflash, "d2t", torch.full((40,), VOCABULARY), "d2t names tokens that the target does not have"),
]


@pytest.mark.parametrize(("layout", "name", "tensor", "why"), TENSORS)
def test_tensors_that_do_not_fit_are_refused(layout: Layout, name: str, tensor: Any, why: str, tmp_path: Path) -> None:
    layout(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors.pop(name, None)
    save_file(tensors | ({} if tensor is None else {name: tensor}), tmp_path / "model.safetensors")
    with pytest.raises(ModelError) as raised:
        load_block_head(tmp_path, LanguageModel(tiny()))
    assert why in f"{raised.value.why}"


def test_pickles_are_read_for_tensors_only(tmp_path: Path) -> None:
    z_lab(tmp_path)
    (tmp_path / "model.safetensors").unlink()

    class Harmful:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "touched",)

    with (tmp_path / "pytorch_model.bin").open("wb") as file:
        pickle.dump({"fc.weight": Harmful()}, file, protocol=2)
    with pytest.raises(ModelError, match="damaged"):
        load_block_head(tmp_path, LanguageModel(tiny()))
    assert not (tmp_path / "touched").exists()


def test_each_loader_refuses_the_other_kind(tmp_path: Path) -> None:
    z_lab(tmp_path)
    with pytest.raises(ModelError) as raised:
        load_head(tmp_path, LanguageModel(tiny()))
    assert "DFlash" in f"{raised.value.why}"
    other = tmp_path / "eagle"
    other.mkdir()
    safeailab_3(other)
    assert not is_block_head(other)
    assert HeadSettings.read(other).is_eagle3
    with pytest.raises(ModelError):
        load_block_head(other, LanguageModel(tiny()))
    assert not is_block_head(tmp_path / "nowhere")
