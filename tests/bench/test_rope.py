"""Prompts past the trained window: RoPE stretched for everybody, and put back."""

from __future__ import annotations

import copy

import pytest
import torch
import transformers

from specextend_cli.bench.models import stretched
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.target import Target
from specextend_cli.errors import FitError
from tests.engine.tiny_models import COMMON, make, prompt, rope, tiny


def logits(model: transformers.PreTrainedModel, tokens: list[int]) -> torch.Tensor:
    target = Target(LanguageModel(model))
    target.begin(len(tokens))
    return target.prefill(torch.tensor(tokens)).logits


def test_stretching_equals_a_model_configured_so() -> None:
    model, tokens = tiny(), prompt(200)
    before = logits(model, tokens)
    config = copy.deepcopy(model.config)
    config.rope_parameters = rope("yarn", factor=2.0, original_max_position_embeddings=100)
    config.max_position_embeddings = 200
    judge = make(config)
    judge.load_state_dict(model.state_dict())
    with stretched(model, 100, 200) as scaled:
        assert scaled
        torch.testing.assert_close(logits(model, tokens), logits(judge, tokens))
    torch.testing.assert_close(logits(model, tokens), before)
    rotary = model.model.rotary_emb
    with stretched(model, 200, 200) as scaled:
        assert not scaled
        assert model.model.rotary_emb is rotary
    assert not torch.allclose(logits(judge, tokens), before)


def test_a_stretch_of_a_stretch_is_refused() -> None:
    with pytest.raises(FitError, match="do not fit") as caught, stretched(tiny("llama3-rope"), 100, 200):
        pass
    assert "llama3" in caught.value.why
    model = make(transformers.LlamaConfig(**COMMON, rope_parameters=rope("linear")))
    with pytest.raises(FitError), stretched(model, 100, 200):
        pass
