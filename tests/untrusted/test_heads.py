"""A draft head that says otherwise than its tensors, or what is not known here, is refused: never read wrongly."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from specextend_cli.engine.lm import LanguageModel
from specextend_cli.errors import ModelError
from specextend_cli.models.head_config import PublishedHead, read_head_config
from specextend_cli.models.heads import load_head
from tests.engine.tiny_models import VOCABULARY, tiny
from tests.helpers.published_heads import (
    angelslim,
    bare,
    safeailab_1,
    safeailab_3,
    specforge,
    specforge_31,
    speculators,
    yarn,
)

Settings = dict[str, Any]


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return LanguageModel(tiny())


def change(directory: Path, **settings: Any) -> None:
    file = directory / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))


def change_inner(directory: Path, **settings: Any) -> None:
    """The settings of speculators' decoder layer."""
    inner = json.loads((directory / "config.json").read_text())["transformer_layer_config"]
    change(directory, transformer_layer_config={**inner, **settings})


def change_tensors(directory: Path, edit: Callable[[dict[str, Tensor]], None]) -> None:
    file = directory / "model.safetensors"
    tensors = load_file(file)
    edit(tensors)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, file)


def refused(directory: Path, lm: LanguageModel, *because: str) -> str:
    with pytest.raises(ModelError) as caught:
        load_head(directory, lm)
    assert all(word in caught.value.why for word in because), caught.value.why
    return caught.value.why


SIZES = {
    "hidden_size": 128,
    "intermediate_size": 95,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "num_hidden_layers": 2,
    "vocab_size": VOCABULARY + 1,
    "draft_vocab_size": 41,
    "head_dim": 32,
    "target_hidden_size": 128,
}


@pytest.mark.parametrize("key", SIZES)
@pytest.mark.parametrize("layout", [safeailab_3, speculators])
def test_a_size_that_contradicts_the_tensors(layout: Any, key: str, tmp_path: Path, lm: LanguageModel) -> None:
    layout(tmp_path)
    if layout is speculators and key not in ("draft_vocab_size", "target_hidden_size"):
        change_inner(tmp_path, **{key: SIZES[key]})
    else:
        change(tmp_path, **{key: SIZES[key]})
    refused(tmp_path, lm)


UNFIT: list[tuple[Any, Settings, str]] = [
    (angelslim, {"num_hidden_layers": 2}, "num_hidden_layers 2, it has 1"),
    (angelslim, {"layer_types": ["chunked_attention"]}, "one kind"),
    (bare, {"vocab_size": VOCABULARY - 1}, "vocab_size 96"),  # no embedding of its own would tell
    (safeailab_3, {"vocab_size": VOCABULARY - 1}, "vocab_size 96"),
    (yarn, {"qkv_bias": True}, "q_proj.bias"),
    (bare, {"norm_before_fc": False}, "input_norm"),
    (speculators, {"fc_norm": False}, "fc_norm"),
]


@pytest.mark.parametrize(("layout", "settings", "word"), UNFIT)
def test_settings_that_contradict_the_tensors_or_are_not_known(
    layout: Any, settings: Settings, word: str, tmp_path: Path, lm: LanguageModel
) -> None:
    layout(tmp_path)
    change(tmp_path, **settings)
    refused(tmp_path, lm, word)


LEAST = {key: SIZES[key] for key in ("hidden_size", "intermediate_size", "num_attention_heads", "vocab_size")}
WORDS = ["64", "many", 64.5, True, [64], {"a": 1}, -64, 0, 10**30, float("nan")]


@pytest.mark.parametrize("key", [*SIZES, "max_position_embeddings"])
def test_sizes_are_whole_numbers(key: str, tmp_path: Path, lm: LanguageModel) -> None:
    for value in WORDS:
        with pytest.raises(ValueError, match=key):
            PublishedHead(**{**LEAST, key: value})
    angelslim(tmp_path)
    change(tmp_path, **{key: "64"})
    refused(tmp_path, lm, key)
    with pytest.raises(ModelError):
        read_head_config(tmp_path)


FLAGS = ["norm_before_residual", "norm_before_fc", "fc_norm", "norm_output", "tie_word_embeddings"]


@pytest.mark.parametrize("flag", [*FLAGS, "qkv_bias", "bias", "use_sliding_window", "use_aux_hidden_state"])
def test_flags_are_true_or_false(flag: str, tmp_path: Path, lm: LanguageModel) -> None:
    """`bool("false")` is True."""
    for value in ("true", "no", "", 0, 1, [], {}):
        with pytest.raises(ValueError, match=flag):
            PublishedHead(**LEAST, **{flag: value})
    speculators(tmp_path)
    change(tmp_path, **{flag: "false"})
    refused(tmp_path, lm, flag)
    with pytest.raises(ModelError):
        read_head_config(tmp_path)


@pytest.mark.parametrize("flag", ["norm_before_residual", "norm_before_fc", "fc_norm", "norm_output"])
def test_flags_in_a_table_are_true_or_false(flag: str, tmp_path: Path, lm: LanguageModel) -> None:
    specforge(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config.pop(flag, None)
    config["eagle_config"][flag] = "false"
    (tmp_path / "config.json").write_text(json.dumps(config))
    refused(tmp_path, lm, flag)


@pytest.mark.parametrize("table", [False, True])
@pytest.mark.parametrize("said", [False, True])
def test_an_older_flag_of_specforge_means_nothing(said: bool, table: bool, tmp_path: Path, lm: LanguageModel) -> None:
    """Without norms of the target's states, it is the norm before lm_head, which every head has."""
    specforge(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["norm_output"]
    (config["eagle_config"] if table else config)["norm_output"] = said
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert not load_head(tmp_path, lm).head.config.feeds_normed


@pytest.mark.parametrize("layout", [speculators, specforge_31])
def test_normed_states_are_fed_back_where_the_configuration_says_so(
    layout: Any, tmp_path: Path, lm: LanguageModel
) -> None:
    layout(tmp_path)
    for said in (False, True):
        change(tmp_path, norm_output=said)
        assert load_head(tmp_path, lm).head.config.feeds_normed == said


@pytest.mark.parametrize(
    "settings",
    [
        {"layer_types": ["sliding_attention"], "sliding_window": 64},
        {"layer_types": ["chunked_attention"]},
        {"layer_types": "sliding_attention"},
        {"sliding_window": 64},
        {"sliding_window": 64, "use_sliding_window": True},
        {"layer_types": ["sliding_attention"]},
        {"layer_types": ["sliding_attention"], "sliding_window": "512"},
        {"layer_types": ["sliding_attention"], "sliding_window": True},
        {"layer_types": ["sliding_attention"], "sliding_window": 512.0},
        {"layer_types": [["sliding_attention"]], "sliding_window": 512},
        {"attention_chunk_size": 64},
        {"model_type": "gemma"},
        {"partial_rotary_factor": 0.5},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5}},
    ],
)
def test_attention_that_is_not_known_here(settings: Settings, tmp_path: Path, lm: LanguageModel) -> None:
    speculators(tmp_path)
    change_inner(tmp_path, **settings)
    refused(tmp_path, lm)


@pytest.mark.parametrize(
    "settings",
    [
        {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 512},  # of the one layer there is
        {"sliding_window": 512},
        {"sliding_window": 512, "use_sliding_window": True},
    ],
)
def test_a_sliding_window_is_kept(settings: Settings, tmp_path: Path, lm: LanguageModel) -> None:
    speculators(tmp_path)
    change_inner(tmp_path, **settings)
    assert load_head(tmp_path, lm).head.config.sliding_window == 512


@pytest.mark.parametrize(
    "settings",
    [
        {"layer_types": ["full_attention"], "sliding_window": None},
        {"sliding_window": 64, "use_sliding_window": False},
        {"sliding_window": 64, "layer_types": ["full_attention"]},
        {"model_type": "qwen3"},
        {"partial_rotary_factor": 1.0},
    ],
)
def test_full_attention_in_other_words(settings: Settings, tmp_path: Path, lm: LanguageModel) -> None:
    speculators(tmp_path)
    change_inner(tmp_path, **settings)
    assert load_head(tmp_path, lm).head.config.sliding_window is None


def test_a_copy_of_its_targets_configuration(tmp_path: Path, lm: LanguageModel) -> None:
    """As SafeAILab's: more layers than a head can have, and a window that its layers never look at."""
    safeailab_3(tmp_path)
    change(tmp_path, num_hidden_layers=32, sliding_window=4096, model_type="mistral")
    assert load_head(tmp_path, lm)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32, torch.bool, torch.float8_e4m3fn])
@pytest.mark.parametrize("name", ["fc.weight", "midlayer.mlp.up_proj.weight", "norm.weight", "lm_head.weight"])
def test_weights_are_numbers_with_a_point(dtype: torch.dtype, name: str, tmp_path: Path, lm: LanguageModel) -> None:
    """Quantized ones mean something only with their scales."""
    angelslim(tmp_path)
    change_tensors(tmp_path, lambda tensors: tensors.update({name: tensors[name].to(dtype)}))
    refused(tmp_path, lm, str(dtype).removeprefix("torch."))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.bfloat16])
def test_tokens_are_whole_numbers(dtype: torch.dtype, tmp_path: Path, lm: LanguageModel) -> None:
    angelslim(tmp_path)
    change_tensors(tmp_path, lambda tensors: tensors.update(d2t=tensors["d2t"].to(dtype)))
    refused(tmp_path, lm, "d2t")


def test_two_rows_for_one_token(tmp_path: Path, lm: LanguageModel) -> None:
    """Siblings of a tree are distinct tokens."""
    angelslim(tmp_path)

    def twice(tensors: dict[str, Tensor]) -> None:
        tensors["d2t"] = torch.zeros_like(tensors["d2t"])
        tensors["d2t"][1] = -1
        del tensors["t2d"]

    change_tensors(tmp_path, twice)
    refused(tmp_path, lm, "d2t")


@pytest.mark.parametrize("eps", [-1, 0, "1e-6", float("nan"), float("inf"), 2.0, None, True])
def test_a_norm_that_divides_by_nothing(eps: Any, tmp_path: Path, lm: LanguageModel) -> None:
    angelslim(tmp_path)
    change(tmp_path, rms_norm_eps=eps)
    if eps is None:  # the default
        assert load_head(tmp_path, lm)
    else:
        refused(tmp_path, lm, "rms_norm_eps")


ROPES: list[Settings] = [
    {"rope_theta": -5},
    {"rope_theta": float("nan")},
    {"rope_theta": "10000"},
    {"rope_theta": 0.5},
    {"rope_scaling": {"type": "linear", "factor": 0}},
    {"rope_scaling": {"type": "linear", "factor": -1.0}},
    {"rope_scaling": {"type": "linear", "factor": "2"}},
    {"rope_scaling": {"type": "linear", "factor": float("inf")}},
    {"rope_scaling": {"type": "linear"}},
    {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 0}},
    {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "beta_fast": float("nan")}},
    {"rope_scaling": {"rope_type": "llama3", "factor": 4.0}},
    {"rope_scaling": {"rope_type": ["linear"]}},
    {"rope_scaling": "linear"},
    {"rope_scaling": {"rope_type": "default", "sections": [1, 2, 3]}},
    {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": -5.0}}},
]


@pytest.mark.parametrize("settings", ROPES, ids=json.dumps)
def test_positions_that_make_no_sense(settings: Settings, tmp_path: Path, lm: LanguageModel) -> None:
    angelslim(tmp_path)
    change(tmp_path, **settings)
    refused(tmp_path, lm)


@pytest.mark.parametrize(
    "settings",
    [
        {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 500.0}}},
    ],
)
def test_positions_in_other_words(settings: Settings, tmp_path: Path, lm: LanguageModel) -> None:
    angelslim(tmp_path)
    change(tmp_path, rope_theta=500.0, **settings)
    assert load_head(tmp_path, lm).head.config.rope == {"rope_type": "default", "rope_theta": 500.0}


@pytest.mark.parametrize("key", ["eagle_aux_hidden_state_layer_ids", "target_layer_ids"])
@pytest.mark.parametrize("ids", [["0", 1, 2], [0.5, 1, 2], [True, 1, 2], {"0": 1}, "012", 3, [[0], 1, 2]])
def test_layers_are_named_by_numbers(ids: Any, key: str, tmp_path: Path, lm: LanguageModel) -> None:
    speculators(tmp_path)
    change(tmp_path, **{key: ids})
    refused(tmp_path, lm, key)
    with pytest.raises(ModelError):
        read_head_config(tmp_path)


@pytest.mark.parametrize("activation", ["__import__", 3, None, ["silu"], "nothing"])
def test_an_activation_that_does_not_exist(activation: Any, tmp_path: Path, lm: LanguageModel) -> None:
    angelslim(tmp_path)
    change(tmp_path, hidden_act=activation)
    if activation is None:
        assert load_head(tmp_path, lm)
    else:
        refused(tmp_path, lm)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 500 + "1" + "}" * 500, "null", "3", '"x"', "\x00", '{"eagle_config": 3}', "{}"]
)
def test_damaged_configurations_are_refused(text: str, tmp_path: Path, lm: LanguageModel) -> None:
    safeailab_1(tmp_path)
    (tmp_path / "config.json").write_text(text)
    refused(tmp_path, lm)
    with pytest.raises(ModelError):
        read_head_config(tmp_path)


def test_tensors_that_are_something_else(tmp_path: Path, lm: LanguageModel) -> None:
    for name, tensor in {
        "fc.weight": torch.ones(3),
        "midlayer.self_attn.q_proj.weight": torch.ones(0, 64),
        "midlayer.self_attn.k_proj.weight": torch.ones(7, 64),
        "midlayer.mlp.gate_proj.weight": torch.ones(96, 1, 32),
    }.items():
        angelslim(tmp_path)
        change_tensors(tmp_path, lambda tensors, name=name, tensor=tensor: tensors.update({name: tensor}))  # type: ignore[misc]
        refused(tmp_path, lm)
