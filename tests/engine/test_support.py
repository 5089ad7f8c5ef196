"""Which models the engine's forward refuses, and that no mask of prompt size is built."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import transformers
from transformers import PreTrainedModel

from specextend_cli.engine import self_check
from specextend_cli.engine.config import Retrieval
from specextend_cli.engine.drafters import LMDrafter
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.target import Target
from specextend_cli.errors import ModelError
from tests.engine.tiny_models import COMMON, make, tiny


def rope(kind: str, **more: object) -> PreTrainedModel:
    parameters = {"rope_type": kind, "rope_theta": 10000.0, "factor": 2.0, "original_max_position_embeddings": 64}
    return make(transformers.LlamaConfig(**COMMON, rope_parameters={**parameters, **more}))


def strong(config: transformers.PreTrainedConfig) -> PreTrainedModel:
    """Some parameters begin as zeros, and do nothing."""
    model = make(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return model


def with_nan() -> PreTrainedModel:
    model = tiny()
    model.get_decoder().layers[1].mlp.up_proj.weight.data[0, 0] = torch.nan
    return model


def without_keys() -> PreTrainedModel:
    model = tiny("gemma4-shared")
    model.model.layers[1].self_attn.store_full_length_kv = False  # transformers before 5.23 builds such models
    return model


NEMOTRON = {**COMMON, "num_attention_heads": 2}
REFUSED: dict[str, tuple[Callable[[], PreTrainedModel], str]] = {
    "positions that depend on the length": (lambda: rope("dynamic"), "length"),
    "the same, by factors": (lambda: rope("longrope", long_factor=[2.0] * 8, short_factor=[1.0] * 8), "length"),
    "its own attention": (lambda: make(transformers.NemotronConfig(**NEMOTRON)), "handed down"),
    "masks of its own": (lambda: strong(transformers.DogeConfig(**COMMON)), "differ"),
    "later tokens are seen": (
        lambda: strong(transformers.BertConfig(**{**COMMON, "num_key_value_heads": 4, "pad_token_id": 0})),
        "differ",
    ),
    "four key heads, not two": (lambda: make(transformers.BertConfig(**{**COMMON, "pad_token_id": 0})), "does not run"),
    "NaN": (with_nan, "not numbers"),
    "keys that none keeps": (without_keys, "'full_attention'"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_the_engine_does_not_compute_is_refused(what: str) -> None:
    model, why = REFUSED[what]
    with pytest.raises(ModelError) as caught:
        LanguageModel(model())
    assert why in caught.value.why


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_rounding_is_tolerated(dtype: torch.dtype) -> None:
    LanguageModel(tiny().to(dtype))


def test_a_model_that_rounds_more_is_given_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between its own attentions logits of Gemma 3 270M differ by up to 28% of a row in bfloat16."""
    model = tiny().bfloat16()
    stock, kept = self_check.stock_logits(model), model.config._attn_implementation

    def found(share: float) -> str | None:
        return self_check.difference(model, stock, lambda prompt, tree: stock * (1 + share))

    assert found(0.08) is None
    assert found(0.5) == "its logits of a prompt differ from transformers', by 50.0% of their size"
    monkeypatch.setattr(self_check, "distances", lambda ours, theirs: (ours - theirs).abs().mean(-1) * 0 + 0.25)
    assert found(0.5) is None  # it moves as far by itself
    assert model.config._attn_implementation == kept


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
