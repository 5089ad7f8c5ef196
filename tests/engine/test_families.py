"""Models with sliding windows, sinks, capped logits: their working sets, scores and checks at load."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import pytest
import torch
import transformers

from specextend_cli.engine.drafters import LMDrafter
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.target import Target
from specextend_cli.errors import ModelError
from tests.engine.tiny_models import COMMON, FAMILIES, RECURRENT, UNTIED, generate, make, prompt, tiny
from tests.helpers.decoding import FAMILY_DRAFTERS, NEW, POLICIES, run, small
from tests.helpers.grid import but_for, pairs

WINDOWED = [
    name for name in FAMILIES if "window" in name or name in ("gemma2", "gemma3", "gemma4", "gpt-oss", "granite-swa")
]


def gemma3() -> transformers.PreTrainedModel:
    types = ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]
    sizes = {**UNTIED, "num_hidden_layers": 4, "sliding_window": 64, "layer_types": types}
    return make(transformers.Gemma3TextConfig(**sizes, query_pre_attn_scalar=9))


@cache
def long_answer() -> list[int]:
    return generate(gemma3(), prompt(300), NEW)


@pairs(("self", "lm-sliding", "blend-eagle"), drafter=FAMILY_DRAFTERS, policy=POLICIES)
def test_windows_in_long_prompts(drafter: str, policy: str) -> None:
    target = Target(LanguageModel(gemma3()))
    assert target.score_layers == {2}  # the last layer sees 64 tokens only
    retrieval = small(policy)
    written = run(target, FAMILY_DRAFTERS[drafter](target, retrieval), prompt(300), retrieval)[0]
    assert written == long_answer()
    assert len(set(written)) > 5


@pytest.mark.parametrize("policy", ["streaming", "retrieval"])
def test_a_working_set_keeps_to_its_draft_s_windows(policy: str) -> None:
    """With everything in it the draft is the target; its windows then are those of positions, not of rows."""
    target = Target(LanguageModel(gemma3()))
    retrieval = small(policy, top_k=100)
    for lm in (target.lm, LanguageModel(gemma3())):
        _, meter = run(target, LMDrafter(lm, target, retrieval), prompt(300), retrieval)
        assert meter.accepted_lengths[1] <= 1


SHOWN = [*(name for name in WINDOWED if name != "granite-swa"), *RECURRENT]
"""Granite returns attention before its sinks have taken their share."""


@pytest.mark.parametrize("name", but_for(("gemma2", "gpt-oss", "qwen3.5"), SHOWN))
@torch.inference_mode()
def test_attention_is_the_model_s_own(name: str) -> None:
    """The rows of eager attention, made to sum to 1, in all layers that attend."""
    model = tiny(name)
    lm = LanguageModel(model)
    tokens, target = torch.tensor(prompt(90)), Target(lm)
    layers = list(target.cache.buffer_of)
    target.score_layers = frozenset(layers)
    target.begin(100)
    target.prefill(tokens[:60])
    rows = []
    for layer in layers:
        target.score_layers = frozenset([layer])
        rows.append(target.attention_from(-1))
    model.set_attn_implementation("eager")
    own = model(input_ids=tokens[None, :60], output_attentions=True, use_cache=False).attentions
    for row, layer in zip(rows, own, strict=True):
        expected = layer[0, :, -1].mean(0)
        torch.testing.assert_close(row, expected / expected.sum(), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (transformers.Llama4TextConfig, "chunked_attention"),
        (
            partial(transformers.LlamaConfig, layer_types=["full_attention"] * 2 + ["deepseek_sparse_attention"]),
            "",  # some versions of transformers call it "indexed_attention"
        ),
    ],
)
def test_layers_of_other_kinds_are_refused(config: Callable[..., transformers.PreTrainedConfig], why: str) -> None:
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config(**COMMON))
    with pytest.raises(ModelError) as caught:
        LanguageModel(model)
    assert f"layers of the kind {why}" in caught.value.why


@pytest.mark.parametrize("wider", [1, -1])
def test_windows_of_another_width_are_found_at_load(wider: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the tokens of the check at load would all fit into the model's window."""
    from specextend_cli.engine.attention import function

    blocks = function.blocks
    monkeypatch.setattr(function, "blocks", lambda n, total, window, *rest: blocks(n, total, window + wider, *rest))
    with pytest.raises(ModelError) as caught:
        LanguageModel(gemma3())
    assert "differ" in caught.value.why
