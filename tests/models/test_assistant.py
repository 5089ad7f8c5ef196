"""Gemma 4's assistant models from disk: their drafts, refusals with reasons, and the memory that is counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from specextend_cli.engine.drafters import AssistantDrafter
from specextend_cli.errors import FitError, ModelError
from specextend_cli.models.assistant import load_assistant
from specextend_cli.models.head_config import is_assistant
from specextend_cli.models.presets import load_preset
from specextend_cli.models.shape import Sizes
from specextend_cli.runtime.draft_heads import with_head
from specextend_cli.runtime.loading import drafter_of
from specextend_cli.runtime.options import Engine
from tests.engine.tiny_assistants import assistant_drafter, target_of, tiny_assistant
from tests.engine.tiny_models import VOCABULARY, by_generate, prompt, tiny
from tests.helpers.decoding import NEW, run, small

CLUSTERED = {"clusters": VOCABULARY}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    tiny_assistant(**CLUSTERED).save_pretrained(tmp_path)
    return tmp_path


def test_what_is_loaded_drafts_as_what_was_saved(saved: Path) -> None:
    target, retrieval = target_of(tiny("gemma4")), small("retrieval")
    loaded = AssistantDrafter(load_assistant(saved, target.lm), target, retrieval)
    written, meter = run(target, loaded, prompt(), retrieval)
    again, same = run(target, assistant_drafter(target, **CLUSTERED), prompt(), retrieval)
    assert written == again == by_generate(NEW, name="gemma4")
    assert meter.accepted_lengths == same.accepted_lengths
    assert meter.nodes == same.nodes > 0


def test_its_memory(saved: Path) -> None:
    assert is_assistant(saved)
    sizes = Sizes.counted(saved)
    model = tiny_assistant(**CLUSTERED)
    counted = sum(weight.numel() for weight in model.parameters()) + VOCABULARY  # the order of tokens
    assert 0 <= sizes.weights - counted <= 8  # and factors of layers
    assert sizes.cached == 0


def test_as_a_draft_head_of_any_preset(saved: Path) -> None:
    draft = with_head(load_preset("qwen3-8b"), saved).draft
    assert draft.drafters == ("assistant", "ngram")
    assert draft.has_head
    assert draft.model == "assistant"


def change(directory: Path, **settings: Any) -> None:
    file = directory / "config.json"
    data = json.loads(file.read_text())
    data["text_config"] |= settings.pop("text", {})
    file.write_text(json.dumps(data | settings))


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"model_type": "gemma4_text"}, "'gemma4_text', not gemma4_assistant or"),
        ({"model_type": ["x"]}, "not gemma4_assistant or"),
        ({"backbone_hidden_size": 64}, "of a wrong shape"),
        ({"text": {"vocab_size": 96}}, "vocab_size 96, its embedding has 97"),
        ({"text": {"num_hidden_layers": 10**9}}, "more than any model has"),
        ({"text": {"hidden_size_per_layer_input": 16}}, "must be 0"),
        ({"text": {"layer_types": ["mystery"] * 3}}, ""),
        ({"num_centroids": 5}, "of a wrong shape"),
        ({"centroid_intermediate_top_k": 98}, "it chooses 98 of 97 clusters of 97 tokens"),
        ({"centroid_intermediate_top_k": 0}, "it chooses 0 of 97 clusters"),
        ({"text_config": None}, ""),
    ],
)
def test_a_configuration_that_contradicts_its_tensors(settings: dict[str, Any], why: str, saved: Path) -> None:
    change(saved, **settings)
    with pytest.raises(ModelError) as caught:
        load_assistant(saved, target_of(tiny("gemma4")).lm)
    assert why in caught.value.why


@pytest.mark.parametrize("tensor", ["pre_projection.weight", "model.layers.1.mlp.up_proj.weight"])
def test_missing_tensors(tensor: str, saved: Path) -> None:
    tensors = load_file(saved / "model.safetensors")
    del tensors[tensor]
    save_file(tensors, saved / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match="damaged"):
        load_assistant(saved, target_of(tiny("gemma4")).lm)


def test_clusters_that_name_no_tokens(saved: Path) -> None:
    tensors = load_file(saved / "model.safetensors")
    tensors["masked_embedding.token_ordering"] += 1
    save_file(tensors, saved / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError) as caught:
        load_assistant(saved, target_of(tiny("gemma4")).lm)
    assert "order" in caught.value.why


def test_clusters_of_unequal_size(tmp_path: Path) -> None:
    tiny_assistant(clusters=10).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="cannot draft") as caught:
        load_assistant(tmp_path, target_of(tiny("gemma4")).lm)
    assert "it chooses 1 of 10 clusters of 97 tokens" in caught.value.why


def test_too_little_memory_is_no_fault_of_the_assistant(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("specextend_cli.models.assistant.Assistant", fail)
    preset, target = with_head(load_preset("qwen3-8b"), saved), target_of(tiny("gemma4"))
    with pytest.raises(FitError, match="does not fit into memory"):
        drafter_of(preset, Engine(), target, small("full"), saved, lambda *given: target.lm)


def test_one_of_another_target(saved: Path) -> None:
    with pytest.raises(ModelError) as caught:
        load_assistant(saved, target_of(tiny()).lm)
    assert "states of 84, the target's have 64" in caught.value.why
    assert "published with this target" in str(caught.value.fix)


def test_pickles_are_not_read(saved: Path) -> None:
    torch.save(load_file(saved / "model.safetensors"), saved / "pytorch_model.bin")
    (saved / "model.safetensors").unlink()
    with pytest.raises(ModelError) as caught:
        load_assistant(saved, target_of(tiny("gemma4")).lm)
    assert "safetensors" in caught.value.why


def test_other_directories_hold_none(tmp_path: Path) -> None:
    assert not is_assistant(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    assert not is_assistant(tmp_path)
