"""A draft head that says otherwise than its tensors, or what is not known here, is refused: never read wrongly."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from specextend_cli.engine.lm import LanguageModel
from specextend_cli.errors import ModelError
from specextend_cli.models.head_config import default_layers
from specextend_cli.models.heads import load_head
from tests.engine.tiny_models import VOCABULARY, tiny
from tests.helpers.model_files import Edit, change_tensors
from tests.helpers.published_heads import (
    angelslim,
    bare,
    deepspec,
    safeailab_1,
    safeailab_3,
    specbundle,
    specforge,
    specforge_31,
    speculators,
    yarn,
)

Settings = dict[str, Any]
Layout = Callable[[Path], object]
NAN, FLAG = math.nan, (False, True)


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return LanguageModel(tiny())


IDS = "eagle_aux_hidden_state_layer_ids"
OUTER = ("draft_vocab_size", "target_hidden_size", "speculators_model_type", IDS, "target_layer_ids")


def change(directory: Path, **settings: Any) -> None:
    """Of speculators' layout, the settings of its decoder layer, but for a few that stand beside it."""
    file = directory / "config.json"
    config = json.loads(file.read_text())
    inner = config.get("transformer_layer_config", config)
    for key, value in settings.items():
        (config if key in OUTER or "norm" in key else inner)[key] = value
    file.write_text(json.dumps(config))


def refused(directory: Path, lm: LanguageModel, because: str) -> None:
    with pytest.raises(ModelError, match="cannot be used") as caught:
        load_head(directory, lm)
    assert because in caught.value.why
    assert "EAGLE-3 layout" in caught.value.fix


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
NO_NUMBERS: list[Any] = ["64", "many", 64.5, True, [64], {"a": 1}, -64, 0, 10**30, NAN]
NO_FLAGS: list[Any] = ["true", "no", "", 0, 1, [], {}]  # `bool("false")` is True
FLAGS = ["norm_before_residual", "norm_before_fc", "fc_norm", "norm_output", "tie_word_embeddings"]
FLAGS += ["qkv_bias", "bias", "use_aux_hidden_state"]


def scaled(**settings: Any) -> Settings:
    return {"rope_scaling": settings}


REFUSED: list[tuple[Layout, Settings, str]] = [
    *((safeailab_3, {key: value}, "") for key, value in SIZES.items()),  # they contradict the tensors
    *((speculators, {key: value}, "") for key, value in SIZES.items()),
    (angelslim, {"num_hidden_layers": 2}, "num_hidden_layers 2, it has 1"),
    (angelslim, {"layer_types": ["chunked_attention"]}, "layer_types"),
    (bare, {"vocab_size": VOCABULARY - 1}, "vocab_size 96"),  # no embedding of its own would tell
    (safeailab_3, {"vocab_size": VOCABULARY - 1}, "vocab_size 96"),
    (yarn, {"qkv_bias": True}, "q_proj.bias"),
    (bare, {"norm_before_fc": False}, "input_norm"),
    (speculators, {"fc_norm": False}, "fc_norm"),
    # Attention that is not known here.
    *((speculators, {"layer_types": kinds}, "") for kinds in ("full_attention", [["full_attention"]], ["conv"])),
    (speculators, {"attention_chunk_size": 64}, ""),
    (speculators, {"model_type": "gemma"}, ""),
    (speculators, {"partial_rotary_factor": 0.5}, ""),
    (speculators, {"rope_parameters": {"rope_type": "default", "rope_theta": 5e2, "partial_rotary_factor": 0.5}}, ""),
    # A norm that divides by nothing.
    *((angelslim, {"rms_norm_eps": eps}, "rms_norm_eps") for eps in (-1, 0, "1e-6", NAN, math.inf, 2.0, True)),
    # Positions that make no sense.
    *((angelslim, {"rope_theta": theta}, "") for theta in (-5, NAN, "10000", 0.5)),
    *((angelslim, scaled(type="linear", factor=factor), "") for factor in (0, -1.0, "2", math.inf, None)),
    (angelslim, scaled(rope_type="yarn", factor=4.0, original_max_position_embeddings=0), ""),
    (angelslim, scaled(rope_type="yarn", factor=4.0, beta_fast=NAN), ""),
    (angelslim, scaled(rope_type="llama3", factor=4.0), ""),
    (angelslim, scaled(rope_type=["linear"]), ""),
    (angelslim, {"rope_scaling": "linear"}, ""),
    (angelslim, scaled(rope_type="default", sections=[1, 2, 3]), ""),
    (angelslim, {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": -5.0}}}, ""),
    (angelslim, scaled(rope_type="longrope"), ""),
    (angelslim, scaled(type="dynamic", factor=2.0), ""),  # it changes with the length
    *((angelslim, {"hidden_act": name}, "") for name in ("__import__", 3, ["silu"], "nothing")),
    # Layers are named by numbers, and are those of the target.
    (speculators, {IDS: [40, 41, 42]}, "the target has 3"),
    (speculators, {IDS: [-3, -2, -1]}, ""),
    (speculators, {IDS: [0, 1]}, "names 2 layers and fuses 3 states"),
    (deepspec, {"target_layer_ids": [0, 1, 2, 3, 1]}, "the target has 3"),
    (deepspec, {"target_layer_ids": [0, 1, 2]}, "names 3 layers and fuses 5 states"),
    (deepspec, {"target_layer_ids": None}, "fuses 5 states of 3 layers and does not say which"),
    *(
        (speculators, {key: ids}, key)
        for key in (IDS, "target_layer_ids")
        for ids in (["0", 1, 2], [0.5, 1, 2], [True, 1, 2], {"0": 1}, "012", 3, [[0], 1, 2])
    ),
    # Other kinds of draft models.
    (safeailab_1, {"architectures": ["LlamaForCausalLMEagle3"]}, "an EAGLE-3 head's reads 128"),
    (deepspec, {"model_type": "gemma4_text"}, "of the kind 'gemma4_text'"),
    (angelslim, {"logit_scale": 0.25}, "logit_scale"),
    (angelslim, {"eagle_config": {"use_aux_hidden_state": False}}, "last state as it is"),
    *((speculators, {"speculators_model_type": kind}, f"of the kind {kind}") for kind in ("peagle", "dflash")),
    (bare, {"tie_word_embeddings": True}, "its output layer is its embedding"),
    (angelslim, {"bias": True}, "fc.bias"),
    # Sizes are whole numbers and flags true or false, whatever table they are in.
    *((angelslim, {"vocab_size": value}, "vocab_size") for value in NO_NUMBERS),
    *((angelslim, {size: "64"}, size) for size in (*SIZES, "max_position_embeddings")),
    *((angelslim, {"fc_norm": value}, "fc_norm") for value in NO_FLAGS),
    *((angelslim, {flag: "true"}, flag) for flag in FLAGS),
    (specforge, {"eagle_config": {"norm_before_fc": "false"}}, "norm_before_fc"),
    (speculators, {"qkv_bias": "no"}, "qkv_bias"),
]


@pytest.mark.parametrize(("layout", "settings", "word"), REFUSED)
def test_settings_that_contradict_the_tensors_or_are_not_known(
    layout: Layout, settings: Settings, word: str, tmp_path: Path, lm: LanguageModel
) -> None:
    layout(tmp_path)
    change(tmp_path, **settings)
    refused(tmp_path, lm, word)


SILENT = {"rope_theta": 500.0, "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 500.0}}}
ACCEPTED: list[tuple[Layout, Settings, str, object]] = [
    # An older flag of SpecForge's: without norms of the target's states, it is the norm before lm_head.
    *((specforge, {"norm_output": said}, "feeds_normed", False) for said in (False, True)),
    *((layout, {"norm_output": said}, "feeds_normed", said) for said in FLAG for layout in (speculators, specforge_31)),
    # Windows are not used, and may say anything.
    (speculators, {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": "x"}, "layers", 1),
    (speculators, {"sliding_window": 64, "use_sliding_window": 3}, "layers", 1),
    (speculators, {"model_type": "qwen3", "partial_rotary_factor": 1.0}, "layers", 1),
    # A copy of its target's: more layers than a head can have.
    (safeailab_3, {"num_hidden_layers": 32, "sliding_window": 4096, "model_type": "mistral"}, "layers", 1),
    (angelslim, {"rms_norm_eps": None, "hidden_act": None}, "eps", 1e-6),
    (speculators, {IDS: []}, "feature_layers", default_layers(3)),
    (angelslim, {"eagle_config": {"norm_before_residual": True}}, "norm_before_residual", True),
    (
        angelslim,
        {"eagle_config": {"norm_before_residual": True}, "norm_before_residual": False},
        "norm_before_residual",
        False,
    ),
    (angelslim, {"eagle_config": None, "transformer_layer_config": None}, "layers", 1),
    (angelslim, SILENT, "rope", {"rope_type": "default", "rope_theta": 500.0}),
]


@pytest.mark.parametrize(("layout", "settings", "field", "value"), ACCEPTED)
def test_settings_that_are_understood(
    layout: Layout, settings: Settings, field: str, value: object, tmp_path: Path, lm: LanguageModel
) -> None:
    layout(tmp_path)
    change(tmp_path, **settings)
    assert getattr(load_head(tmp_path, lm).head.config, field) == value


def other(name: str, dtype: torch.dtype) -> Edit:
    return lambda tensors: tensors.update({name: tensors[name].to(dtype)})


def adding(name: str, *shape: int) -> Edit:
    return lambda tensors: tensors.update({name: torch.ones(shape)})


def without(name: str) -> Edit:
    return lambda tensors: tensors.pop(name)


def twice(tensors: dict[str, Tensor]) -> None:
    """Siblings of a tree are distinct tokens."""
    tensors["d2t"] = torch.zeros_like(tensors["d2t"])
    tensors["d2t"][1] = -1
    del tensors["t2d"]


DTYPES = [torch.int8, torch.uint8, torch.int32, torch.bool, torch.float8_e4m3fn]
UNKNOWN = "no such head has"
EDITS: list[tuple[Layout, Edit, str]] = [
    # Quantized weights mean something only with their scales.
    *((angelslim, other("fc.weight", dtype), str(dtype).removeprefix("torch.")) for dtype in DTYPES),
    (angelslim, other("norm.weight", torch.int8), "int8"),
    *((angelslim, other("d2t", dtype), "draft_to_target") for dtype in (torch.float32, torch.bool, torch.bfloat16)),
    (angelslim, twice, "d2t names a token twice"),
    (angelslim, adding("fc.weight", 3), ""),
    (angelslim, adding("midlayer.self_attn.q_proj.weight", 0, 64), ""),
    (angelslim, adding("midlayer.self_attn.k_proj.weight", 7, 64), ""),
    (angelslim, adding("midlayer.mlp.gate_proj.weight", 96, 1, 32), ""),
    (speculators, adding("mask_hidden", 1, 1, 192), UNKNOWN),  # states of tokens that are not there yet
    (specbundle, adding("aux_norm_low.weight", 64), UNKNOWN),  # SGLang's norms before fc
    (specbundle, adding("midlayer.self_attn.qk_norm.weight", 97), UNKNOWN),
    (specbundle, adding("layers.900.mlp.up_proj.weight", 1), "layers are numbered"),
    (specbundle, without("fc.weight"), "it has no 'fc.weight'"),
    (specbundle, without("norm.weight"), "norm.weight first"),
]


@pytest.mark.parametrize(("layout", "edit", "word"), EDITS, ids=range(len(EDITS)))
def test_tensors_that_are_something_else(
    layout: Layout, edit: Edit, word: str, tmp_path: Path, lm: LanguageModel
) -> None:
    layout(tmp_path)
    change_tensors(tmp_path, edit)
    refused(tmp_path, lm, word)


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, ("raise SystemExit('code ran')",))


TEXTS = ["[" * 100_000, '{"a":' * 500 + "1" + "}" * 500, "null", "3", '"x"', "\x00", "[1]", '{"eagle_config": 3}', "{}"]
DAMAGED: list[tuple[Layout, str, Callable[[Path], object]]] = [
    (safeailab_3, "pytorch_model.bin", lambda file: file.write_bytes(pickle.dumps({"fc.weight": Evil()}, protocol=2))),
    (safeailab_3, "pytorch_model.bin", lambda file: torch.save([1, 2], file)),
    (safeailab_3, "pytorch_model.bin", lambda file: torch.save({"fc.weight": 3}, file)),
    (angelslim, "model.safetensors", lambda file: file.write_bytes(file.read_bytes()[:-9])),
    (angelslim, "model.safetensors", Path.unlink),
    (angelslim, "config.json", Path.unlink),
    *((safeailab_1, "config.json", partial(Path.write_text, data=text)) for text in TEXTS),
]


@pytest.mark.parametrize(("layout", "name", "damage"), DAMAGED, ids=range(len(DAMAGED)))
def test_damaged_files_are_refused(
    layout: Layout, name: str, damage: Callable[[Path], object], tmp_path: Path, lm: LanguageModel
) -> None:
    layout(tmp_path)
    damage(tmp_path / name)
    with pytest.raises(ModelError, match="config.json|cannot be used" if name == "config.json" else "damaged") as error:
        load_head(tmp_path, lm)
    assert error.value.why
