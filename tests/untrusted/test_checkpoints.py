"""A model's directory that lies, is nested without end or asks for code: an error of the model, at once."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file

from specextend_cli.engine.lm import LanguageModel
from specextend_cli.errors import ModelError
from specextend_cli.models.checkpoint import weight_files
from specextend_cli.models.load import check_sizes, load_model
from specextend_cli.models.shape import Shape
from specextend_cli.models.tokens import TextEncoder, load_tokenizer
from tests.engine.tiny_models import tiny
from tests.helpers import wrappers
from tests.helpers.model_files import change, change_tensors

from .test_heads import Evil

DEEP = ["[" * 100_000 + "]" * 100_000, '{"a":' * 100_000 + "1" + "}" * 100_000, '{"a":' * 300 + "1" + "}" * 300]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("saved")
    tiny().save_pretrained(directory)
    return directory


@pytest.fixture
def model(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "model"))


def refused(directory: Path, because: str = "") -> ModelError:
    with pytest.raises(ModelError) as caught:
        load_model(directory)
    assert because in caught.value.why
    return caught.value


def test_a_wrapper_of_another_model(model: Path) -> None:
    """CLIP generates no text."""
    (model / "config.json").write_text(transformers.CLIPConfig().to_json_string())
    error = refused(model, "it also reads images or sound, and it is not known of 'clip'")
    assert "models list" in error.fix
    assert Shape.of(model) is None


def test_a_wrapper_that_is_loaded_already() -> None:
    with pytest.raises(ModelError) as caught:
        LanguageModel(wrappers.make("gemma3"))
    assert "images or sound" in caught.value.why


@pytest.mark.parametrize("text", [*DEEP, "[]", "null", "3", '"x"', "{", "", "\x00", "{}"])
def test_damaged_configurations_are_refused(text: str, model: Path) -> None:
    (model / "config.json").write_text(text)
    refused(model)
    assert Shape.of(model) is None


TOKENIZERS = [*DEEP, "[]", "{}", '{"model": 3}', '{"model": {"vocab": []}, "added_tokens": 3}', "\x00", None]


@pytest.mark.parametrize("text", TOKENIZERS)
def test_damaged_tokenizers_are_refused(text: str | None, model: Path) -> None:
    if text is not None:  # else there is none
        (model / "tokenizer.json").write_text(text)
    for read in (TextEncoder.of, load_tokenizer):
        with pytest.raises(ModelError, match="cannot read the tokenizer"):
            read(model)


def long_header(length: int) -> Callable[[Path], None]:
    def write(file: Path) -> None:
        file.write_bytes(struct.pack("<Q", length))
        os.truncate(file, 300_000_000)  # sparse

    return write


DAMAGE: list[tuple[Callable[[Path], object], str]] = [
    *((partial(os.truncate, length=length), "model.safetensors is no safetensors file") for length in (0, 4, 100)),
    (lambda file: os.truncate(file, file.stat().st_size - 10), "bytes instead of"),
    (lambda file: os.truncate(file, file.stat().st_size + 1), "bytes instead of"),
    *((long_header(length), "cut off, or too long") for length in (1 << 40, (1 << 64) - 1, 200_000_000)),
    *((partial(Path.write_bytes, data=struct.pack("<Q", len(text)) + text.encode()), "recursion") for text in DEEP),
    (Path.unlink, "a file of weights is missing"),
]


@pytest.mark.parametrize(("damage", "why"), DAMAGE, ids=range(len(DAMAGE)))
def test_damaged_weights_are_refused_at_once(damage: Callable[[Path], object], why: str, model: Path) -> None:
    damage(model / "model.safetensors")
    with pytest.raises(ModelError, match="are damaged") as caught:
        load_model(model, name="mine")
    assert why in caught.value.why
    assert caught.value.fix == "specextend models rm mine && specextend models pull mine"


def test_pickles_are_read_for_tensors_only(model: Path) -> None:
    weights = load_file(model / "model.safetensors")
    (model / "model.safetensors").unlink()
    torch.save(weights, model / "pytorch_model.bin")
    loaded = load_model(model, dtype="float32")
    assert torch.equal(loaded.state_dict()["model.norm.weight"], weights["model.norm.weight"])
    torch.save({"model.norm.weight": Evil()}, model / "pytorch_model.bin")
    refused(model)


def index(directory: Path, text: str) -> Path:
    """A directory with that index, and files for it; the one that another index may name is `y.safetensors`."""
    (directory / "sub").mkdir(parents=True)
    for file in ("../x.safetensors", "sub/x.safetensors", "x.txt", "x.bin", "y.safetensors"):
        (directory / file).touch()
    (directory / "model.safetensors.index.json").write_text(text)
    return directory


NAMES = ["../x.safetensors", "sub/x.safetensors", "x.txt", "x.bin", "", "..", 3, None, ["x"], "absent.safetensors"]
MAPS = [*({"a": name, "b": "y.safetensors"} for name in NAMES), [], "x", {}]
INDEXES = [None, 3, "x", [], {}, *({"weight_map": map_} for map_ in MAPS)]


@pytest.mark.parametrize("text", [*DEEP, *map(json.dumps, INDEXES), "{"])
def test_a_broken_index_or_one_that_leads_elsewhere_has_no_files(tmp_path: Path, text: str) -> None:
    assert weight_files(index(tmp_path / "model", text)) == []


def test_an_index_names_files_beside_it(tmp_path: Path) -> None:
    whole = {"weight_map": {"a": str(tmp_path / "x.safetensors")}}
    assert weight_files(index(tmp_path / "whole", json.dumps(whole))) == []
    directory = index(tmp_path / "model", json.dumps({"weight_map": dict.fromkeys("ab", "y.safetensors")}))
    assert weight_files(directory) == [directory / "y.safetensors"]


@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation", "_attn_implementation_internal"])
@pytest.mark.parametrize("value", ["owner/kernel", "flash_attention_2", {"": "owner/kernel"}, "eager"])
def test_a_configuration_chooses_no_kernels(key: str, value: Any, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the `kernels` package there, `owner/kernel` would be downloaded from the Hub and run."""
    change(model, **{key: value, "_experts_implementation": "owner/kernel"})
    assert load_model(model).config._attn_implementation == "sdpa"


def test_code_of_a_repository_is_never_run(model: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    code = f"import pathlib; pathlib.Path({str(mark)!r}).touch()\nclass Odd: ...\n"
    for name in ("modeling_odd.py", "configuration_odd.py", "tokenization_odd.py"):
        (model / name).write_text(code)
    classes = {
        "AutoConfig": "configuration_odd.Odd",
        "AutoModelForCausalLM": "modeling_odd.Odd",
        "AutoTokenizer": ["tokenization_odd.Odd", None],
    }
    change(model, auto_map=classes)
    load_model(model)  # transformers has a Llama of its own
    change(model, model_type="odd")
    refused(model)
    assert not mark.exists()


IMPOSSIBLE: list[dict[str, Any]] = [
    *({"num_hidden_layers": value} for value in (10**9, -1, "3", [3])),
    *({"vocab_size": value} for value in (10**12, -5, 98)),
    *({"num_attention_heads": value} for value in (0, -4, 3)),
    *({key: 10**12} for key in ("hidden_size", "intermediate_size", "max_position_embeddings", "num_key_value_heads")),
    {"hidden_size": 32},  # these contradict the tensors
    {"intermediate_size": 95},
    {"num_key_value_heads": 4},
    {"num_labels": 10**8},
    {"hidden_act": "__import__"},
    {"hidden_act": 3},
    {"rope_parameters": "linear"},
    {"rope_parameters": {"rope_type": "nothing"}},
    {"rope_scaling": {"type": "linear", "factor": "2"}, "rope_parameters": None},
    *({"model_type": value} for value in (["llama"], {}, None, "../../x")),
    *({"dtype": value} for value in ("load", "__name__", ["float32"])),
    *({"id2label": value} for value in ("x", {"a": "b"})),
    {"quantization_config": "x"},
    {"quantization_config": {"quant_method": "gptq", "bits": 4}},
    *({"transformers_weights": value} for value in ("../x.safetensors", "/etc/x.safetensors")),
]


@pytest.mark.parametrize("settings", IMPOSSIBLE, ids=json.dumps)
def test_sizes_that_no_model_has_are_refused(settings: dict[str, Any], model: Path) -> None:
    change(model, **settings)
    refused(model)


@pytest.mark.parametrize(("layers", "why"), [(2, "no place"), (4, "missing")])
def test_tensors_of_another_number_of_layers(layers: int, why: str, model: Path) -> None:
    """transformers leaves out what has no place, and fills in what is missing, without a word."""
    change(model, num_hidden_layers=layers)
    assert f"model.layers.{layers - layers // 4}." in refused(model, why).why


def test_what_old_checkpoints_have_besides(model: Path) -> None:
    names = ("model.layers.0.self_attn.rotary_emb.inv_freq", "v_head.weight")
    change_tensors(model, lambda tensors: tensors.update({name: torch.ones(8) for name in names}))
    assert load_model(model)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.float8_e4m3fn])
def test_whole_numbers_are_no_weights(dtype: torch.dtype, model: Path) -> None:
    name = "model.layers.1.mlp.up_proj.weight"
    change_tensors(model, lambda tensors: tensors.update({name: tensors[name].to(dtype)}))
    refused(model, "nothing says their scale")


def test_sizes_of_real_models_are_believed() -> None:
    """The largest there are."""
    check_sizes(
        {"num_hidden_layers": 126, "vocab_size": 262_208, "max_position_embeddings": 10_485_760, "hidden_size": 53_248}
    )
