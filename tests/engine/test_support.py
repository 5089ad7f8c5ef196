"""Which models the engine's forward refuses, and that no mask of prompt size is built."""

from __future__ import annotations

import pytest
import torch
import transformers

from specextend_cli.engine.config import Retrieval
from specextend_cli.engine.drafters import LMDrafter
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.target import Target
from specextend_cli.errors import ModelError
from tests.engine.tiny_models import COMMON, make, tiny


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_positions_that_depend_on_the_length_are_refused(kind: str) -> None:
    rope = {"rope_type": kind, "rope_theta": 10000.0, "factor": 2.0, "original_max_position_embeddings": 64}
    rope |= {"long_factor": [2.0] * 8, "short_factor": [1.0] * 8} if kind == "longrope" else {}
    with pytest.raises(ModelError) as caught:
        LanguageModel(make(transformers.LlamaConfig(**COMMON, rope_parameters=rope)))
    assert "length" in caught.value.why


def test_models_that_bypass_the_attention_function_are_refused() -> None:
    sizes = {"vocab_size": 97, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    config = transformers.NemotronConfig(**sizes, num_attention_heads=2, num_key_value_heads=2)
    with pytest.raises(ModelError) as caught:
        LanguageModel(make(config))
    assert "handed down" in caught.value.why


@pytest.mark.parametrize(
    "config",
    [
        transformers.DogeConfig(**COMMON),  # hands every layer a mask of its own
        transformers.XLMRobertaConfig(
            **{**COMMON, "num_key_value_heads": 4, "pad_token_id": 1}
        ),  # attends to later tokens
        transformers.BertConfig(**{**COMMON, "num_key_value_heads": 4, "pad_token_id": 0}),
    ],
    ids=lambda config: config.model_type,
)
def test_models_whose_logits_differ_from_their_own_attention_are_refused(config: transformers.PreTrainedConfig) -> None:
    model = make(config)
    for parameter in model.parameters():  # some begin as zeros, and do nothing
        torch.nn.init.normal_(parameter, std=0.2)
    with pytest.raises(ModelError) as caught:
        LanguageModel(model)
    assert "differ" in caught.value.why


def test_keys_of_another_shape_than_the_configuration_says_are_refused() -> None:
    with pytest.raises(ModelError) as caught:
        LanguageModel(make(transformers.BertConfig(**{**COMMON, "pad_token_id": 0})))  # it has 4 key heads, not 2
    assert "does not run" in caught.value.why


@pytest.mark.parametrize("wrong", ["prompt", "tree"])
def test_wrong_attention_is_found_at_load(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a back end that is wrong in one place only."""
    from specextend_cli.engine import lm as module
    from specextend_cli.engine.attention.reference import reference

    def careless(q, k, v, scale, tree_mask, softmax):
        if (tree_mask is None) == (wrong == "prompt") and q.shape[2] > 1:
            v = v.flip(2)
        return reference(q, k, v, scale, tree_mask, softmax)

    monkeypatch.setattr(module, "backend_for", lambda device, name: careless)
    with pytest.raises(ModelError) as caught:
        LanguageModel(tiny())
    assert wrong in caught.value.why


def test_a_model_that_computes_nan_is_refused() -> None:
    model = tiny()
    with torch.no_grad():
        model.get_decoder().layers[1].mlp.up_proj.weight[0, 0] = torch.nan
    with pytest.raises(ModelError) as caught:
        LanguageModel(model)
    assert "not numbers" in caught.value.why


def test_layers_that_attend_to_keys_that_none_keeps_are_refused() -> None:
    model = tiny("gemma4-shared")
    model.model.layers[1].self_attn.store_full_length_kv = False  # transformers before 5.23 builds such models
    with pytest.raises(ModelError) as caught:
        LanguageModel(model)
    assert "'full_attention'" in caught.value.why


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_rounding_is_tolerated(dtype: torch.dtype) -> None:
    LanguageModel(tiny().to(dtype))


def test_compact_positions_are_refused_where_keys_cannot_be_rotated() -> None:
    config = transformers.CohereConfig(**{**COMMON, "head_dim": 16})  # interleaved rotary dimensions
    lm = LanguageModel(make(config))
    target = Target(lm)
    LMDrafter(lm, target, Retrieval(positions="absolute"))
    with pytest.raises(ModelError) as caught:
        LMDrafter(lm, target, Retrieval(positions="compact"))
    assert 'positions = "absolute"' in caught.value.fix


@torch.inference_mode()
def test_no_mask_of_prompt_size_is_ever_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every attention call of a long prefill and a verification gets at most the tree's own mask."""
    from specextend_cli.engine.attention import function
    from specextend_cli.engine.tree import DraftTree

    seen: list[object] = []
    attend = function.attend

    def spy(module, query, key, value, attention_mask, **kwargs):
        seen.append((attention_mask, kwargs["context"].tree_mask))
        return attend(module, query, key, value, attention_mask, **kwargs)

    monkeypatch.setattr(function, "attend", spy)
    lm = LanguageModel(tiny())
    seen.clear()  # the probe at load
    target = Target(lm)
    target.begin(600)
    for _ in range(2):
        target.prefill(torch.zeros(256, dtype=torch.long))
    target.verify(DraftTree([1, 2, 3], [0, 0, 1], [1.0, 0.5, 0.4]))
    assert len(seen) == 3 * lm.layers
    assert all(mask is None for mask, _ in seen)
    assert {None if tree is None else tuple(tree.shape) for _, tree in seen} == {None, (3, 3)}
