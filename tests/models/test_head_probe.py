"""Which of several readings is kept: heads that repeat the target, if they are read as they were made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.step import Step
from specextend_cli.models.heads import LEAST, agreements, load_head, probe
from tests.engine.tiny_heads import tiny_head
from tests.engine.tiny_models import prompt, tiny
from tests.helpers.draft_files import save_head
from tests.helpers.model_files import change

SAME = torch.full((40,), 3)
"""A text of one token: whatever the head says next is right."""


@pytest.fixture
def lm() -> LanguageModel:
    return LanguageModel(tiny())


def repeating(lm: LanguageModel, **changes: Any) -> EagleHead:
    """A head whose layer adds nothing to the last of its three states, and which writes as the target does."""
    head = tiny_head("eagle3-whole-vocabulary", **changes)
    for name, parameter in head.named_parameters():
        parameter.detach().fill_(float("norm" in name))
    head.fc.weight.data[:, 128:] = torch.eye(64)
    head.lm_head.weight.data.copy_(lm.model.get_output_embeddings().weight)
    head.embedding.weight.data.copy_(lm.model.get_input_embeddings().weight)
    return head


@torch.inference_mode()
def test_the_reading_of_layer_ids_that_agrees_better_is_kept(tmp_path: Path, lm: LanguageModel) -> None:
    """The head repeats the target's last state, and agrees if it reads that state and not the one before."""
    save_head(repeating(lm), tmp_path)
    change(tmp_path, eagle_config={"eagle_aux_hidden_state_layer_ids": [0, 1, 2]})
    loaded = load_head(tmp_path, lm)
    assert [reading.feature_layers for reading in loaded.readings] == [(0, 1, 2), (1, 2, 3)]
    assert probe(loaded.head, loaded.readings, lm, SAME) > 0.9
    assert loaded.head.config.feature_layers == (1, 2, 3)
    # In a target whose last layer adds nothing, the state before it says as much: then the ids are believed.
    for part in (lm.model.model.layers[-1].self_attn.o_proj, lm.model.model.layers[-1].mlp.down_proj):
        part.weight.zero_()
    loaded = load_head(tmp_path, lm)
    assert probe(loaded.head, loaded.readings, lm, SAME) > 0.9
    assert loaded.head.config.feature_layers == (0, 1, 2)


def test_ids_of_outputs_begin_with_one(tmp_path: Path, lm: LanguageModel) -> None:
    save_head(tiny_head("eagle3"), tmp_path)
    change(tmp_path, eagle_config={"eagle_aux_hidden_state_layer_ids": [1, 1, 2]})
    assert [reading.feature_layers for reading in load_head(tmp_path, lm).readings] == [(2, 2, 3), (1, 1, 2)]


@pytest.mark.parametrize("fc_norm", [False, True])
@pytest.mark.parametrize("fed", [False, True])
@torch.inference_mode()
def test_the_reading_of_norm_output_that_agrees_better_is_kept(
    fed: bool, fc_norm: bool, tmp_path: Path, lm: LanguageModel
) -> None:
    """A norm that turns half the signs tells a state that passed it from one that did not."""
    head = repeating(lm, fc_norm=fc_norm, feature_layers=(1, 2, 3))
    signs = torch.ones(64)
    signs[::2] = -1
    head.norm.weight.copy_(signs)
    if not fed:  # every step's output is the state after the norm
        head.lm_head.weight.mul_(signs)
    save_head(head, tmp_path)
    change(tmp_path, norm_output=True, feeds_normed=None, eagle_config={})
    change(tmp_path, target_layer_ids=[0, 1, 2])
    loaded = load_head(tmp_path, lm)
    assert [reading.feeds_normed for reading in loaded.readings] == ([True, False] if fc_norm else [False, True])
    shares = agreements(loaded.head, loaded.readings, lm, SAME)
    assert shares == agreements(loaded.head, loaded.readings, lm, SAME)
    assert probe(loaded.head, loaded.readings, lm, SAME) == max(shares) > min(shares) + 0.2
    assert loaded.head.config.feeds_normed == fed


@pytest.mark.parametrize("layout", ["speculators", "specforge", "without fc_norm", "before 3.1"])
def test_what_is_clear_is_not_tried(layout: str, tmp_path: Path, lm: LanguageModel) -> None:
    save_head(tiny_head("eagle3.1" if layout in ("speculators", "specforge") else "eagle3"), tmp_path)
    change(tmp_path, feeds_normed=None, eagle_config={}, norm_before_residual=False, target_layer_ids=[0, 1, 2])
    said: Any = {"speculators": True, "specforge": False, "without fc_norm": False, "before 3.1": None}[layout]
    change(tmp_path, norm_output=said, **({"speculators_model_type": "eagle3"} if layout == "speculators" else {}))
    assert [reading.feeds_normed for reading in load_head(tmp_path, lm).readings] == [said is True]


@torch.inference_mode()
def test_a_residual_that_is_left_out_is_tried(tmp_path: Path, lm: LanguageModel) -> None:
    """In speculators' layout: true to vLLM, false to speculators. A norm that turns signs tells them apart."""
    head = repeating(lm, feature_layers=(1, 2, 3))
    head.layers[0].hidden_norm.weight[::2] = -1
    save_head(head, tmp_path)
    change(tmp_path, norm_before_residual=None, speculators_model_type="eagle3", target_layer_ids=[0, 1, 2])
    loaded = load_head(tmp_path, lm)
    assert [reading.norm_before_residual for reading in loaded.readings] == [True, False]
    assert probe(loaded.head, loaded.readings, lm, SAME) > 0.9
    assert not loaded.head.config.norm_before_residual


@torch.inference_mode()
def test_agreement_is_that_of_drafts_made_one_by_one(lm: LanguageModel) -> None:
    """Chains from every position, each with a cache of its own, and the target's choices behind the same tokens."""
    head, tokens = repeating(lm, feature_layers=(1, 2, 3), feeds_normed=True), torch.tensor([3] * 12 + prompt(40)[:18])
    torch.manual_seed(4)
    for parameter in head.layers[0].self_attn.parameters():
        parameter.add_(0.03 * torch.randn(parameter.shape))
    out = lm.forward(tokens, torch.arange(30), lm.new_cache(30), feature_layers=head.config.feature_layers)
    assert out.features is not None
    chosen = out.logits.argmax(-1)

    def drafted(position: int, depth: int) -> Tensor:
        """The most likely token after the text's tokens up to `position + 1 + depth`, the last `depth` drafted."""
        rows, cache = position + 1, head.new_cache(64)
        read = {"backend": lm.backend, "features": out.features[:rows]}
        made = head.run(Step(tokens[1 : rows + 1], torch.arange(rows), cache, **read))
        for step in range(depth):
            cache.commit()
            at = torch.tensor([rows + step])
            made = head.run(Step(tokens[at + 1], at, cache, backend=lm.backend, states=made.state[-1:]))
        return made.logits[-1].argmax()

    shares = [
        sum(int(drafted(i, depth) == chosen[i + 1 + depth]) for i in range(29 - depth)) / (29 - depth)
        for depth in range(3)
    ]
    assert agreements(head, [head.config], lm, tokens) == pytest.approx((sum(shares) / 3,))
    assert 0 < sum(shares) < 3


def test_a_head_of_random_numbers_agrees_with_nothing(tmp_path: Path, lm: LanguageModel) -> None:
    save_head(tiny_head("eagle3-whole-vocabulary"), tmp_path)
    loaded = load_head(tmp_path, lm)
    assert probe(loaded.head, loaded.readings, lm, torch.tensor(prompt())) < LEAST
