"""What files of every family say of their models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from tokenizers import Tokenizer

from specextend_cli.models.gguf.families import config_of
from specextend_cli.models.gguf.file import Gguf
from specextend_cli.models.gguf.settings import read_gguf
from tests.helpers import gguf_files
from tests.helpers.gguf_writer import add_tokenizer, finish


def written(tmp_path: Path, smollm: Tokenizer, name: str, **options: Any) -> Path:
    """A file of that family."""
    file = tmp_path / f"{name}{len(options)}.gguf"
    return gguf_files.write(file, name, gguf_files.make(name, smollm.get_vocab_size()), smollm, **options)


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
