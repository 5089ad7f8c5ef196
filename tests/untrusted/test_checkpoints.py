"""A model's directory that lies, is nested without end or asks for code: an error of the model, at once."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

from specextend_cli.engine.lm import LanguageModel
from specextend_cli.errors import ModelError
from specextend_cli.models.checkpoint import read_header, weight_files
from specextend_cli.models.load import check_sizes, load_model
from specextend_cli.models.shape import Shape
from specextend_cli.models.tokens import TextEncoder, load_tokenizer
from tests.engine.tiny_models import COMMON, make, tiny

DEEP = ["[" * 100_000 + "]" * 100_000, '{"a":' * 100_000 + "1" + "}" * 100_000, '{"a":' * 300 + "1" + "}" * 300]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("saved")
    tiny().save_pretrained(directory)
    return directory


@pytest.fixture
def model(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "model"))


def change(directory: Path, **settings: Any) -> None:
    file = directory / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))


def change_tensors(directory: Path, edit: Callable[[dict[str, Tensor]], None]) -> None:
    file = directory / "model.safetensors"
    tensors = {name: tensor.clone() for name, tensor in load_file(file).items()}
    edit(tensors)
    save_file(tensors, file, {"format": "pt"})


def refused(directory: Path, because: str = "") -> ModelError:
    with pytest.raises(ModelError) as caught:
        load_model(directory)
    assert because in caught.value.why
    return caught.value


def wrappers() -> dict[str, transformers.PreTrainedConfig]:
    text = {**COMMON, "head_dim": 16}
    vision = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1}
    return {
        "gemma3": transformers.Gemma3Config(text_config=text, vision_config=vision),
        "llava": transformers.LlavaConfig(text_config=COMMON | {"model_type": "qwen3"}, vision_config=vision),
        "qwen2-vl": transformers.Qwen2VLConfig(),
        "clip": transformers.CLIPConfig(),
    }


@pytest.mark.parametrize("kind", wrappers())
def test_wrappers_of_another_text_model(kind: str, model: Path) -> None:
    """`Gemma3Config` has no vocabulary, no layers and no heads of its own; CLIP generates no text."""
    (model / "config.json").write_text(wrappers()[kind].to_json_string())
    error = refused(model, "images or sound" if kind == "clip" else "")
    if kind == "clip":
        assert "models list" in str(error.fix)
        assert Shape.of(model) is None


def test_a_wrapper_that_is_loaded_already() -> None:
    with pytest.raises(ModelError) as caught:
        LanguageModel(make(wrappers()["gemma3"]))
    assert "images or sound" in caught.value.why


@pytest.mark.parametrize("text", [*DEEP, "[]", "null", "3", '"x"', "{", "", "\x00", "{}"])
def test_damaged_configurations_are_refused(text: str, model: Path) -> None:
    (model / "config.json").write_text(text)
    refused(model)
    assert Shape.of(model) is None


@pytest.mark.parametrize("text", DEEP)
def test_nesting_without_end_in_every_other_file(text: str, model: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (model / name).write_text(text)
    for read in (TextEncoder.of, load_tokenizer):
        with pytest.raises(ModelError, match="tokenizer"):
            read(model)
    index = model / "model.safetensors.index.json"
    index.write_text(text)
    assert weight_files(model) == []
    index.unlink()
    (model / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text.encode())
    with pytest.raises(ModelError, match="damaged"):
        read_header(model / "model.safetensors")


@pytest.mark.parametrize("length", [1 << 40, (1 << 64) - 1, 200_000_000])
def test_a_header_is_not_read_for_ever(length: int, model: Path) -> None:
    file = model / "model.safetensors"
    file.write_bytes(struct.pack("<Q", length))
    with file.open("r+b") as opened:
        opened.truncate(300_000_000)  # sparse
    with pytest.raises(ModelError, match="damaged"):
        read_header(file)


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
    *({"num_hidden_layers": value} for value in (10**9, -1, "3", [3], 4)),
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
    {"id2label": "x"},
    {"id2label": {"a": "b"}},
    {"quantization_config": "x"},
    {"quantization_config": {"quant_method": "gptq", "bits": 4}},
    {"transformers_weights": "../x.safetensors"},
    {"transformers_weights": "/etc/x.safetensors"},
]


@pytest.mark.parametrize("settings", IMPOSSIBLE, ids=json.dumps)
def test_sizes_that_no_model_has_are_refused(settings: dict[str, Any], model: Path) -> None:
    change(model, **settings)
    refused(model)


def test_a_model_cut_short(model: Path) -> None:
    """transformers leaves out what has no place, without a word."""
    change(model, num_hidden_layers=2)
    refused(model, "model.layers.2.")


def test_a_model_of_another_kind(model: Path) -> None:
    """Qwen3 has norms that Llama has not."""
    transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**COMMON, head_dim=16)).save_pretrained(model)
    assert load_model(model)
    change(model, model_type="llama", architectures=["LlamaForCausalLM"])
    refused(model, "k_norm")


def test_what_old_checkpoints_have_besides(model: Path) -> None:
    def add(tensors: dict[str, Tensor]) -> None:
        tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(8)
        tensors["v_head.weight"] = torch.ones(3)

    change_tensors(model, add)
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


@pytest.mark.parametrize("text", ["[]", "{}", '{"model": 3}', '{"model": {"vocab": []}, "added_tokens": 3}', "\x00"])
def test_damaged_tokenizers_are_refused(text: str, model: Path) -> None:
    (model / "tokenizer.json").write_text(text)
    for read in (TextEncoder.of, load_tokenizer):
        with pytest.raises(ModelError, match="tokenizer"):
            read(model)
