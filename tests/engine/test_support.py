"""Which models the engine refuses; windows, sinks and capped logits of those that it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers
from transformers import PreTrainedModel

from specextend_cli.engine import self_check
from specextend_cli.engine.config import Retrieval
from specextend_cli.engine.drafters import LMDrafter
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.target import Target
from specextend_cli.engine.tree import DraftTree
from specextend_cli.errors import ModelError
from tests.engine.tiny_models import COMMON, FAMILIES, MAMBA, OTHERS, RECURRENT, UNTIED, make, prompt, rope, tiny
from tests.helpers.decoding import run, small
from tests.helpers.grid import but_for


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


def unmade(config: Callable[..., transformers.PreTrainedConfig], **sizes: Any) -> Callable[[], PreTrainedModel]:
    """A model without weights: nothing is computed before it is refused."""

    def made() -> PreTrainedModel:
        with torch.device("meta"):
            return transformers.AutoModelForCausalLM.from_config(config(**COMMON, **sizes))

    return made


FACTORS: dict[str, Any] = {"long_factor": [2.0] * 8, "short_factor": [1.0] * 8}
LONG_ROPE = rope("longrope", original_max_position_embeddings=64, **FACTORS)
NEMOTRON = {**COMMON, "num_attention_heads": 2}
REFUSED: dict[str, tuple[Callable[[], PreTrainedModel], str]] = {
    "positions that depend on the length": (lambda: make(OTHERS["dynamic-rope"]()), "length"),
    "the same, by factors": (lambda: make(transformers.LlamaConfig(**COMMON, rope_parameters=LONG_ROPE)), "length"),
    "its own attention": (lambda: make(transformers.NemotronConfig(**NEMOTRON)), "handed down"),
    "masks of its own": (lambda: strong(transformers.DogeConfig(**COMMON)), "differ"),
    "later tokens are seen": (
        lambda: strong(transformers.BertConfig(**{**COMMON, "num_key_value_heads": 4, "pad_token_id": 0})),
        "differ",
    ),
    "four key heads, not two": (lambda: make(transformers.BertConfig(**{**COMMON, "pad_token_id": 0})), "does not run"),
    "NaN": (with_nan, "not numbers"),
    "keys that none keeps": (without_keys, "'full_attention'"),
    "chunks": (unmade(transformers.Llama4TextConfig), "layers of the kind chunked_attention"),
    "sparse layers": (  # some versions of transformers call them "indexed_attention"
        unmade(transformers.LlamaConfig, layer_types=["full_attention"] * 2 + ["deepseek_sparse_attention"]),
        "layers of the kind ",
    ),
    "Mamba-2": (unmade(transformers.BambaConfig, **MAMBA, attn_layer_indices=[1]), "neither gated delta nets"),
    "no attention": (unmade(transformers.BambaConfig, **MAMBA, attn_layer_indices=[]), "none of its layers attends"),
    "lightning attention": (unmade(transformers.MiniMaxConfig), "neither gated delta nets"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_the_engine_does_not_compute_is_refused(what: str) -> None:
    model, why = REFUSED[what]
    with pytest.raises(ModelError) as caught:
        LanguageModel(model())
    assert why in caught.value.why


def test_a_model_that_rounds_more_is_given_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between its own attentions logits of Gemma 3 270M differ by up to 28% of a row in bfloat16."""
    model = tiny().bfloat16()
    stock, kept = self_check.stock_logits(model), model.config._attn_implementation

    def found(share: float) -> str | None:
        return self_check.difference(model, stock, lambda prompt, tree: stock * (1 + share))

    assert found(0.08) is None
    wrong = found(0.5) or ""
    assert wrong.startswith("its logits of a prompt differ from transformers' by up to 50.")
    assert wrong.endswith("in rows 0, 1, 2, 3, 4, 5, 6, 7, …")
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


def gemma3() -> transformers.PreTrainedModel:
    types = ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]
    sizes = {**UNTIED, "num_hidden_layers": 4, "sliding_window": 64, "layer_types": types}
    return make(transformers.Gemma3TextConfig(**sizes, query_pre_attn_scalar=9))


@pytest.mark.parametrize("policy", ["streaming", "retrieval"])
def test_a_draft_with_windows_sees_everything(policy: str) -> None:
    """Whatever the policy: so the draft is the target."""
    target = Target(LanguageModel(gemma3()))
    assert target.score_layers == {2}  # the last layer sees 64 tokens only
    retrieval = small(policy)
    for lm in (target.lm, LanguageModel(gemma3())):
        drafter = LMDrafter(lm, target, retrieval)
        _, meter = run(target, drafter, prompt(300), retrieval)
        assert drafter.visible().tolist() == list(range(target.length))
        assert meter.accepted_lengths[1] <= 1


SHOWN = ["llama", "qwen3", "olmo2", *(name for name in FAMILIES if "window" in name)]
SHOWN += ["gemma2", "gemma3", "gemma4", "gpt-oss", *RECURRENT]
"""Without Granite, which returns attention before its sinks have taken their share."""


@pytest.mark.parametrize("name", but_for(("llama", "gemma2", "gpt-oss", "qwen3.5"), SHOWN))
@torch.inference_mode()
def test_scores_are_the_eager_attention_row_of_the_accepted_node(name: str) -> None:
    """The mean of the layers that score, whose rows are made to sum to 1."""
    model = tiny(name)
    for key, parameter in model.named_parameters():
        parameter.data += 8 * key.endswith("sinks")  # random ones take next to nothing
    target = Target(LanguageModel(model))
    layers = sorted(target.cache.buffer_of)
    target.score_layers = frozenset(layers)
    target.begin(100)
    target.prefill(torch.tensor(prompt(70)))
    if name in RECURRENT:  # whose trees are chains
        tree, path = DraftTree([3, 5, 6, 7], [0, 0, 1, 2], [1, 0.9, 0.8, 0.7]), [0, 1, 2]
    else:
        tree, path = DraftTree([3, 4, 5, 6, 7], [0, 0, 0, 2, 3], [1, 0.9, 0.8, 0.7, 0.6]), [0, 2, 3]
    target.verify(tree, record=True)
    target.commit(path)
    scores = target.attention_from(path[-1])
    model.set_attn_implementation("eager")
    own = model(torch.tensor([[*prompt(70), 3, 5, 6]]), output_attentions=True, use_cache=False).attentions
    rows = [attention[0, :, -1].mean(0) for attention in own]
    expected = sum(row / row.sum() for row in rows) / len(rows)
    torch.testing.assert_close(scores, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("wider", [1, -1])
def test_windows_of_another_width_are_found_at_load(wider: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the tokens of the check at load would all fit into the model's window."""
    from specextend_cli.engine.attention import function

    blocks = function.blocks
    monkeypatch.setattr(function, "blocks", lambda n, total, window, *rest: blocks(n, total, window + wider, *rest))
    with pytest.raises(ModelError) as caught:
        LanguageModel(gemma3())
    assert "differ" in caught.value.why
