"""The models of GGUF files, as they are loaded: dense where the library is not, packed where it is."""

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
from specextend_cli.models.gguf.settings import read_gguf
from specextend_cli.models.load import load_model
from specextend_cli.models.presets import load_preset
from specextend_cli.models.sources import fetch
from tests.helpers import gguf_files
from tests.helpers.grid import grid

TOKENS = torch.arange(90)[None] * 7 % 448


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
    original = gguf_files.make(name, smollm.get_vocab_size())
    file = gguf_files.write(tmp_path / "tiny.gguf", name, original, smollm, kind)
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
    file = gguf_files.write(tmp_path / "tiny.gguf", "qwen2", gguf_files.make("qwen2", 448), smollm, kind)
    model = loaded(file)
    for tensor in gguf.GGUFReader(file).tensors:
        if tensor.name in ("blk.1.ffn_up.weight", "output.weight"):
            ours = "model.layers.1.mlp.up_proj.weight" if "blk" in tensor.name else "lm_head.weight"
            meant = torch.from_numpy(gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32))
            assert torch.equal(model.get_parameter(ours), meant.bfloat16())


@pytest.mark.parametrize("kernels", ["ours"], indirect=True, scope="module")
@pytest.mark.parametrize("at", ["norm", "matrix"])
def test_numbers_that_are_not_finite(at: str, kernels: str, tmp_path: Path, smollm: Tokenizer) -> None:
    file = gguf_files.write(tmp_path / "nan.gguf", "llama", gguf_files.make("llama", 448), smollm, Kind.Q8_0)
    weight = read_gguf(file)[0].tensors["blk.0.ffn_norm.weight" if at == "norm" else "blk.1.ffn_up.weight"]
    with file.open("r+b") as opened:
        opened.seek(weight.offset)
        opened.write(b"\x00\x7e\xc0\x7f")  # NaN, in float16 and, of all four bytes, in float32
    with pytest.raises(ModelError, match=r"cannot read nan\.gguf") as caught:
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
