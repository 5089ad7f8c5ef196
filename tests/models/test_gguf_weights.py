"""The models of GGUF files: what files of every family say, dense where the library is not, packed where it is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from tokenizers import Tokenizer
from transformers import PreTrainedModel

from specextend_cli.engine import native
from specextend_cli.engine.packed import PackedEmbedding, PackedLinear
from specextend_cli.errors import ModelError
from specextend_cli.models.gguf.families import config_of
from specextend_cli.models.gguf.file import Gguf
from specextend_cli.models.gguf.settings import read_gguf
from specextend_cli.models.load import load_model
from specextend_cli.models.presets import load_preset
from specextend_cli.models.sources import fetch
from tests.helpers import gguf_files
from tests.helpers.gguf_writer import add_tokenizer, finish
from tests.helpers.grid import grid

TOKENS = torch.arange(90)[None] * 7 % 448


def written(tmp_path: Path, smollm: Tokenizer, name: str, **options: Any) -> Path:
    """A file of that family."""
    file = tmp_path / f"{name}{len(options)}.gguf"
    return gguf_files.write(file, name, gguf_files.make(name, smollm.get_vocab_size()), smollm, **options)


def loaded(file: Path, **options: Any) -> PreTrainedModel:
    """The model of a file, by its settings' directory."""
    return load_model(fetch(load_preset(str(file)).target.source), **options)


@pytest.mark.parametrize("name", gguf_files.FAMILIES)
def test_a_model_computes_what_the_original_does(name: str, tmp_path: Path, smollm: Tokenizer) -> None:
    original = gguf_files.make(name, smollm.get_vocab_size())
    model = loaded(gguf_files.write(tmp_path / "tiny.gguf", name, original, smollm), dtype="float32")
    assert not model.training
    with torch.inference_mode():
        ours, theirs = model(TOKENS).logits, original(TOKENS).logits
    assert (ours - theirs).abs().max() < 1e-4 * theirs.abs().max()
    assert theirs.std() > 0.1
    assert model.config.tie_word_embeddings == original.config.tie_word_embeddings
    tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert tied == original.config.tie_word_embeddings
    assert model.config.eos_token_id == model.generation_config.eos_token_id == 2
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


@pytest.mark.parametrize("kernels", ["ours"], indirect=True, scope="module")
@grid(
    name=["llama", "llama-untied-biased", "qwen2", "phi3", "gemma3"],
    kind=[Kind.Q4_0, Kind.Q5_0, Kind.Q5_1, Kind.Q8_0],
)
def test_a_packed_model_computes_what_its_blocks_mean(
    name: str, kind: Kind, kernels: str, tmp_path: Path, smollm: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of q and k in their order, biases, a tied embedding, one that is multiplied, norms without 1."""
    file = written(tmp_path, smollm, name, kind=kind)
    model = loaded(file, dtype="float32")
    assert isinstance(model.get_input_embeddings(), PackedEmbedding)
    assert isinstance(model.get_output_embeddings(), PackedLinear)
    assert not any(parameter.ndim > 1 for parameter in model.parameters())
    with torch.inference_mode():
        ours, few = model(TOKENS).logits, model(TOKENS[:, :9]).logits  # few by the kernel
        monkeypatch.setattr(native, "is_loaded", lambda: False)
        theirs = loaded(file, dtype="float32")(TOKENS).logits
    assert (ours - theirs).norm() < 0.02 * theirs.norm()  # scales are rounded to bfloat16
    assert (few - ours[:, :9]).norm() < 1e-4 * ours[:, :9].norm()


@pytest.mark.parametrize("kind", [Kind.F16, Kind.BF16, Kind.Q4_0, Kind.Q4_K, Kind.Q6_K, Kind.IQ4_XS, Kind.Q3_K])
def test_kinds_of_numbers_without_the_library(kind: Kind, tmp_path: Path, smollm: Tokenizer) -> None:
    file = written(tmp_path, smollm, "qwen2", kind=kind)
    model = loaded(file)
    for tensor in gguf.GGUFReader(file).tensors:
        if tensor.name in ("blk.1.ffn_up.weight", "output.weight"):
            ours = "model.layers.1.mlp.up_proj.weight" if "blk" in tensor.name else "lm_head.weight"
            meant = torch.from_numpy(gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32))
            assert torch.equal(model.get_parameter(ours), meant.bfloat16())


@pytest.mark.parametrize("kernels", ["ours"], indirect=True, scope="module")
@pytest.mark.parametrize("at", ["norm", "matrix"])
def test_numbers_that_are_not_finite(at: str, kernels: str, tmp_path: Path, smollm: Tokenizer) -> None:
    file = written(tmp_path, smollm, "llama", kind=Kind.Q8_0)
    weight = read_gguf(file)[0].tensors["blk.0.ffn_norm.weight" if at == "norm" else "blk.1.ffn_up.weight"]
    with file.open("r+b") as opened:
        opened.seek(weight.offset)
        opened.write(b"\x00\x7e\xc0\x7f")  # NaN, in float16 and, of all four bytes, in float32
    with pytest.raises(ModelError, match=r"cannot read llama1\.gguf") as caught:
        loaded(file)
    assert "not finite" in caught.value.why


def test_a_file_that_is_cut_short_after_its_header_was_read(tiny_gguf: Path, tmp_path: Path) -> None:
    file = tmp_path / "cut.gguf"
    file.write_bytes(tiny_gguf.read_bytes())
    tensor = read_gguf(file)[0].tensors["blk.1.ffn_up.weight"]
    os.truncate(file, tensor.offset + 10)
    with pytest.raises(ValueError, match="became shorter"):
        tensor.blocks()
    directory = fetch(load_preset(str(tiny_gguf)).target.source)
    (directory / "gguf.path").write_text(str(file))
    with pytest.raises(ModelError, match=r"cannot read cut\.gguf") as caught:
        load_model(directory)
    assert "cut off" in caught.value.why
    file.unlink()
    with pytest.raises(ModelError, match=r"cannot read .*cut\.gguf"):
        load_model(directory)


def test_sliding_windows_of_gemma_3_as_the_file_says(tmp_path: Path, smollm: Tokenizer) -> None:
    model = Gguf.read(written(tmp_path, smollm, "gemma3"))
    key = "gemma3.attention.sliding_window_pattern"

    def full(pattern: object) -> list[int]:
        model.facts[key] = pattern
        return [n for n, kind in enumerate(config_of(model)["layer_types"]) if kind == "full_attention"]

    assert full(3) == [2, 5]
    assert full([True, False, True, True, True, True, False]) == [1, 6]
    del model.facts[key]
    assert full(6) == [5]
    for wrong in (0, "x", [True]):
        with pytest.raises(ValueError, match="sliding_window_pattern"):
            full(wrong)


def test_gemma_3_as_in_ollama_s_store(tmp_path: Path, smollm: Tokenizer) -> None:
    """With the tower in the same file, other names of RoPE's bases, and without the scale of positions."""
    model = Gguf.read(written(tmp_path, smollm, "gemma3"))
    scaled = config_of(model)
    for key in ("rope.freq_base", "rope.scaling.type", "rope.scaling.factor"):
        del model.facts[f"gemma3.{key}"]
    model.facts.update({"gemma3.rope.global.freq_base": 1e6, "gemma3.rope.local.freq_base": 20000.0})
    config = config_of(model)
    assert config["rope_parameters"]["full_attention"] == {"rope_type": "default", "rope_theta": 1e6}
    assert config["rope_parameters"]["sliding_attention"] == {"rope_type": "default", "rope_theta": 20000.0}
    model.facts["gemma3.block_count"] = 34
    assert config_of(model)["rope_parameters"]["full_attention"] == scaled["rope_parameters"]["full_attention"]


@pytest.mark.parametrize("tower", ["v.blk.0.attn_q.weight", "mm.mm_input_projection.weight", "a.conv1d.1.weight"])
def test_towers_in_the_same_file_are_left_out(tower: str, tmp_path: Path, smollm: Tokenizer) -> None:
    plain = written(tmp_path, smollm, "qwen2vl")
    file = written(tmp_path, smollm, "qwen2vl", more={tower: np.ones((32, 64), np.float32)})
    assert read_gguf(file)[2] == read_gguf(plain)[2]
    assert tower in read_gguf(file)[0].tensors


def test_names_that_ollama_has_for_the_same(tmp_path: Path, smollm: Tokenizer) -> None:
    model = Gguf.read(written(tmp_path, smollm, "qwen2vl"))
    config = config_of(model)
    facts = {key.replace("qwen2vl.", "qwen25vl."): value for key, value in model.facts.items()}
    model.facts.clear()
    model.facts.update(facts, **{"general.architecture": "qwen25vl", "qwen25vl.vision.block_count": 32})
    assert config_of(model) == config
    model = Gguf.read(written(tmp_path, smollm, "ministral3"))
    config = config_of(model)
    for theirs, ours in {
        "rope.scaling_beta": "attention.temperature_scale",
        "rope.scaling.mscale_all_dim": "rope.scaling.yarn_log_multiplier",
        "rope.scaling.beta_fast": "rope.scaling.yarn_beta_fast",
    }.items():
        model.facts[f"mistral3.{theirs}"] = model.facts.pop(f"mistral3.{ours}")
    assert config_of(model) == config


def test_queries_that_grow_from_nowhere(tmp_path: Path, smollm: Tokenizer) -> None:
    model = Gguf.read(written(tmp_path, smollm, "ministral3"))
    model.facts["mistral3.rope.scaling.type"] = "none"
    with pytest.raises(ValueError, match="from where on"):
        config_of(model)
    del model.facts["mistral3.attention.temperature_scale"]
    assert config_of(model)["model_type"] == "mistral"  # Mistral Small 3 in ollama's store


def test_a_split_file_is_one_model(tmp_path: Path, smollm: Tokenizer) -> None:
    whole = written(tmp_path, smollm, "qwen3")
    model, tensors = Gguf.read(whole), gguf.GGUFReader(whole).tensors
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "qwen3", split_max_tensors=5)
    gguf_files._add_settings(writer, "qwen3", gguf_files.make("qwen3", 448).config)
    add_tokenizer(writer, smollm)
    for tensor in tensors:
        writer.add_tensor(tensor.name, tensor.data)
    finish(writer)
    first = tmp_path / f"model-00001-of-{-(-len(tensors) // 5):05}.gguf"
    assert Gguf.read(first).tensors.keys() == model.tensors.keys()
    for name, tensor in model.tensors.items():
        assert np.array_equal(Gguf.read(first).tensors[name].blocks(), tensor.blocks())
    assert read_gguf(first)[1:] == read_gguf(whole)[1:]
