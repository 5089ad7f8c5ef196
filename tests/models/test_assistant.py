"""Gemma 4's assistant models from disk: their drafts, refusals with reasons, and the memory that is counted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from specextend_cli.engine.drafters import AssistantDrafter
from specextend_cli.errors import FitError, ModelError
from specextend_cli.models.draft_modules import load_assistant
from specextend_cli.models.head_config import is_assistant
from specextend_cli.models.presets import load_preset
from specextend_cli.models.shape import count_weights
from specextend_cli.runtime.loading import drafter_of, with_head
from specextend_cli.runtime.options import Engine
from tests.engine.tiny_models import VOCABULARY, by_generate, prompt, tiny
from tests.helpers.decoding import NEW, run, small
from tests.helpers.model_files import change, change_tensors, change_text
from tests.helpers.tiny_assistants import assistant_drafter, target_of, tiny_assistant

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


def test_it_is_told_from_other_directories_and_its_memory_is_counted(saved: Path) -> None:
    assert is_assistant(saved)
    model = tiny_assistant(**CLUSTERED)
    counted = sum(weight.numel() for weight in model.parameters()) + VOCABULARY  # the order of tokens
    assert 0 <= count_weights(saved) - counted <= 8  # and factors of layers
    (saved / "config.json").write_text("[]")
    assert not is_assistant(saved)
    assert not is_assistant(saved / "absent")


def without(name: str) -> Callable[[Path], object]:
    return partial(change_tensors, edit=lambda tensors: tensors.pop(name))


CLUSTERS = "centroid_intermediate_top_k"
REFUSED: list[tuple[Callable[[Path], object], str]] = [
    (partial(change, model_type="gemma4_text"), "not that of a gemma4_assistant or"),
    (partial(change, model_type=["x"]), "not that of a gemma4_assistant or"),
    (partial(change, backbone_hidden_size=64), "of a wrong shape"),
    (partial(change_text, vocab_size=96), "vocab_size 96, its embedding has 97"),
    (partial(change_text, num_hidden_layers=10**9), "more than any model has"),
    (partial(change_text, hidden_size_per_layer_input=16), "must be 0"),
    (partial(change_text, layer_types=["mystery"] * 3), ""),
    (partial(change, num_centroids=5), "of a wrong shape"),
    (partial(change, **{CLUSTERS: 98}), "it chooses 98 of 97 clusters of 97 tokens"),
    (partial(change, **{CLUSTERS: 0}), "it chooses 0 of 97 clusters"),
    (partial(change, text_config=None), ""),
    (without("pre_projection.weight"), ""),
    (without("model.layers.1.mlp.up_proj.weight"), ""),
    (partial(change_tensors, edit=lambda tensors: tensors["masked_embedding.token_ordering"].add_(1)), "order"),
    (lambda into: tiny_assistant(clusters=10).save_pretrained(into), "it chooses 1 of 10 clusters of 97 tokens"),
    (
        lambda into: tiny_assistant(**CLUSTERED, backbone=64).save_pretrained(into),
        "reads states of 64, the target's have 84",
    ),
]


@pytest.mark.parametrize(("edit", "why"), REFUSED, ids=range(len(REFUSED)))
def test_what_contradicts_itself_or_its_target(edit: Callable[[Path], object], why: str, saved: Path) -> None:
    edit(saved)
    with pytest.raises(ModelError) as caught:
        load_assistant(saved, target_of(tiny("gemma4")).lm)
    assert why in caught.value.why
    assert "states of" not in why or "published with this target" in str(caught.value.fix)


def test_too_little_memory_is_no_fault_of_the_assistant(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = Mock(side_effect=torch.OutOfMemoryError("CUDA out of memory"))
    monkeypatch.setattr("specextend_cli.models.draft_modules.Assistant", full)
    preset, target = with_head(load_preset("qwen3-8b"), saved), target_of(tiny("gemma4"))
    assert preset.draft.drafters == ("assistant", "ngram")
    assert preset.draft.model == "assistant"
    with pytest.raises(FitError, match="does not fit into memory"):
        drafter_of(preset, Engine(), target, small("full"), saved, lambda *given: target.lm, full)
