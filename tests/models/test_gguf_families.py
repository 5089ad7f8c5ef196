"""Files of every family, written from tiny models, converted, and compared with the models."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

from specextend_cli.models.gguf.convert import convert, converted_size
from specextend_cli.models.gguf.families import config_of
from specextend_cli.models.gguf.file import Gguf
from tests.helpers import gguf_files
from tests.helpers.gguf_writer import add_tokenizer, finish


def converted(folder: Path, file: Path) -> Path:
    folder.mkdir()
    convert(file, folder)
    return folder


@pytest.mark.parametrize("name", gguf_files.FAMILIES)
def test_a_converted_model_computes_what_the_original_does(name: str, tmp_path: Path, smollm: Tokenizer) -> None:
    original = gguf_files.make(name, smollm.get_vocab_size())
    file = gguf_files.write(tmp_path / "tiny.gguf", name, original, smollm)
    into = converted(tmp_path / "model", file)
    model, info = AutoModelForCausalLM.from_pretrained(into, dtype=torch.float32, output_loading_info=True)
    assert not any(info[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    ids = torch.arange(90)[None] * 7 % smollm.get_vocab_size()
    with torch.inference_mode():
        ours, theirs = model.eval()(ids).logits, original(ids).logits
    assert (ours - theirs).abs().max() < 1e-4 * theirs.abs().max()
    assert theirs.std() > 0.1
    assert model.config.tie_word_embeddings == original.config.tie_word_embeddings


def test_sliding_windows_of_gemma_3_as_the_file_says(tmp_path: Path, smollm: Tokenizer) -> None:
    original = gguf_files.make("gemma3", smollm.get_vocab_size())
    model = Gguf.read(gguf_files.write(tmp_path / "tiny.gguf", "gemma3", original, smollm))
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
    original = gguf_files.make("gemma3", smollm.get_vocab_size())
    file = gguf_files.write(tmp_path / "tiny.gguf", "gemma3", original, smollm)
    model = Gguf.read(file)
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
    original = gguf_files.make("qwen2vl", smollm.get_vocab_size())
    plain = gguf_files.write(tmp_path / "plain.gguf", "qwen2vl", original, smollm)
    file = gguf_files.write(
        tmp_path / "both.gguf", "qwen2vl", original, smollm, more={tower: np.ones((32, 64), np.float32)}
    )
    assert converted_size(file) == converted_size(plain)
    whole = load_file(converted(tmp_path / "both", file) / "model.safetensors")
    assert whole.keys() == load_file(converted(tmp_path / "plain", plain) / "model.safetensors").keys()


def test_names_that_ollama_has_for_the_same(tmp_path: Path, smollm: Tokenizer) -> None:
    file = gguf_files.write(tmp_path / "a.gguf", "qwen2vl", gguf_files.make("qwen2vl", 448), smollm)
    model = Gguf.read(file)
    config = config_of(model)
    facts = {key.replace("qwen2vl.", "qwen25vl."): value for key, value in model.facts.items()}
    model.facts.clear()
    model.facts.update(facts, **{"general.architecture": "qwen25vl", "qwen25vl.vision.block_count": 32})
    assert config_of(model) == config
    file = gguf_files.write(tmp_path / "b.gguf", "ministral3", gguf_files.make("ministral3", 448), smollm)
    model = Gguf.read(file)
    config = config_of(model)
    for theirs, ours in {
        "rope.scaling_beta": "attention.temperature_scale",
        "rope.scaling.mscale_all_dim": "rope.scaling.yarn_log_multiplier",
        "rope.scaling.beta_fast": "rope.scaling.yarn_beta_fast",
    }.items():
        model.facts[f"mistral3.{theirs}"] = model.facts.pop(f"mistral3.{ours}")
    assert config_of(model) == config


def test_queries_that_grow_from_nowhere(tmp_path: Path, smollm: Tokenizer) -> None:
    file = gguf_files.write(tmp_path / "a.gguf", "ministral3", gguf_files.make("ministral3", 448), smollm)
    model = Gguf.read(file)
    model.facts["mistral3.rope.scaling.type"] = "none"
    with pytest.raises(ValueError, match="from where on"):
        config_of(model)
    del model.facts["mistral3.attention.temperature_scale"]
    assert config_of(model)["model_type"] == "mistral"  # Mistral Small 3 in ollama's store


@pytest.mark.parametrize("kind", [Kind.F16, Kind.BF16, Kind.Q5_0, Kind.Q5_1, Kind.Q5_K, Kind.IQ4_XS])
def test_other_kinds_become_what_they_mean(kind: Kind, tmp_path: Path, smollm: Tokenizer) -> None:
    file = gguf_files.write(tmp_path / "tiny.gguf", "qwen2", gguf_files.make("qwen2", 448), smollm, kind)
    into = converted(tmp_path / "model", file)
    weights = load_file(into / "model.safetensors")
    for tensor in gguf.GGUFReader(file).tensors:
        if tensor.name.endswith(("ffn_up.weight", "output.weight")) and "attn" not in tensor.name:
            ours = tensor.name.replace("blk.", "model.layers.").replace("ffn_up", "mlp.up_proj")
            full = weights["lm_head.weight" if ours == "output.weight" else ours]
            meant = torch.from_numpy(gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32))
            assert torch.equal(full, meant.bfloat16())
    assert not (into / "four_bit.safetensors").exists()


@pytest.mark.parametrize("kind", [Kind.Q4_0, Kind.Q4_1, Kind.Q4_K, Kind.Q6_K, Kind.Q8_0])
def test_four_and_eight_bits_keep_their_codes(kind: Kind, tmp_path: Path, smollm: Tokenizer) -> None:
    """The full weights are the codes' own values, within bfloat16's rounding of scale and zero from what they mean."""
    file = gguf_files.write(tmp_path / "tiny.gguf", "llama", gguf_files.make("llama", 448), smollm, kind)
    into = converted(tmp_path / "model", file)
    codes, weights = load_file(into / "four_bit.safetensors"), load_file(into / "model.safetensors")
    assert ("lm_head.weight.low.codes" in codes) == (kind in (Kind.Q6_K, Kind.Q8_0))

    def value(name: str) -> torch.Tensor:
        packed, scales = codes[f"{name}.codes"], codes[f"{name}.scales"].float()
        unpacked = torch.stack((packed & 15, packed >> 4), -1).reshape(*scales.shape[:2], -1).float() - 8
        return (unpacked * scales[..., :1] + scales[..., 1:]).flatten(1)

    meant = {t.name: gguf.dequantize(t.data, t.tensor_type) for t in gguf.GGUFReader(file).tensors}
    originals = {
        "lm_head.weight": "token_embd.weight",
        "model.layers.1.mlp.down_proj.weight": "blk.1.ffn_down.weight",
        "model.layers.1.self_attn.v_proj.weight": "blk.1.attn_v.weight",
    }
    names = [name.removesuffix(".codes") for name in codes if name.endswith("weight.codes")]
    assert originals.keys() <= set(names)
    for name in names:
        values = value(name) + (value(f"{name}.low") if f"{name}.low.codes" in codes else 0)
        assert torch.equal(
            values.bfloat16(), weights["model.embed_tokens.weight" if name == "lm_head.weight" else name]
        )
        if name in originals:
            exact = meant[originals[name]]
            assert np.abs(values.numpy() - exact).max() <= 2**-7 * np.abs(exact).max()
    sizes = sum((into / name).stat().st_size for name in ("model.safetensors", "four_bit.safetensors"))
    assert 0 < sizes - converted_size(file) < 20_000  # headers


def test_a_split_file_is_one_model(tmp_path: Path, smollm: Tokenizer) -> None:
    original = gguf_files.make("qwen3", smollm.get_vocab_size())
    whole = gguf_files.write(tmp_path / "whole.gguf", "qwen3", original, smollm)
    first, second = (tmp_path / f"model-0000{n}-of-00002.gguf" for n in (1, 2))
    model = Gguf.read(whole)
    reader = gguf.GGUFReader(whole)
    for file, some in ((first, reader.tensors[:5]), (second, reader.tensors[5:])):
        writer = gguf.GGUFWriter(file, "qwen3")
        writer.add_uint16("split.count", 2)
        writer.add_int32("split.tensors.count", len(reader.tensors))
        if file == first:
            gguf_files._add_settings(writer, "qwen3", original.config)
            add_tokenizer(writer, smollm)
        for tensor in some:
            writer.add_tensor(tensor.name, tensor.data)
        finish(writer)
    assert Gguf.read(first).tensors.keys() == model.tensors.keys()
    one = load_file(converted(tmp_path / "one", whole) / "model.safetensors")
    two = load_file(converted(tmp_path / "two", first) / "model.safetensors")
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert one.keys() == two.keys()
