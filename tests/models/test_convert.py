from __future__ import annotations

import json
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from tokenizers import Tokenizer

from specextend_cli.errors import ModelError
from specextend_cli.models.four_bit import to_bf16
from specextend_cli.models.gguf.convert import convert
from specextend_cli.models.load import load_model
from specextend_cli.models.tokens import load_tokenizer

from .conftest import SIZES, SPECIALS, write_gguf


def permute(weights: np.ndarray, heads: int) -> np.ndarray:
    """What llama.cpp's converter does to the rows of q and k."""
    return weights.reshape(heads, 2, weights.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(weights.shape)


def test_converted_model_equals_the_original(tmp_path: Path, smollm: Tokenizer) -> None:
    torch = pytest.importorskip("torch")
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=smollm.get_vocab_size(),
        hidden_size=SIZES["hidden"],
        intermediate_size=SIZES["intermediate"],
        num_hidden_layers=SIZES["layers"],
        num_attention_heads=SIZES["heads"],
        num_key_value_heads=SIZES["kv_heads"],
        max_position_embeddings=256,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 100000.0},
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
    )
    original = LlamaForCausalLM(config).to(torch.bfloat16).eval()
    names = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"} | {
        f"self_attn.{ours}_proj": f"attn_{theirs}"
        for ours, theirs in (("q", "q"), ("k", "k"), ("v", "v"), ("o", "output"))
    }
    names |= {f"mlp.{part}_proj": f"ffn_{part}" for part in ("gate", "up", "down")}
    tensors = {}
    for name, value in original.state_dict().items():
        array = value.float().numpy()
        if name == "lm_head.weight":
            continue
        if name.startswith("model.layers."):
            _, _, number, part = name.removesuffix(".weight").split(".", 3)
            if part.endswith(("q_proj", "k_proj")):
                array = permute(array, SIZES["heads"] if part.endswith("q_proj") else SIZES["kv_heads"])
            tensors[f"blk.{number}.{names[part]}.weight"] = array
        else:
            tensors["token_embd.weight" if "embed" in name else "output_norm.weight"] = array
    into = tmp_path / "model"
    into.mkdir()
    convert(write_gguf(tmp_path / "own.gguf", smollm, tensors, quantized=False), into)
    converted = load_model(into)
    assert converted.dtype == torch.bfloat16
    assert not converted.training
    assert converted.config.eos_token_id == converted.generation_config.eos_token_id == 2
    for name, value in original.state_dict().items():
        assert torch.equal(converted.state_dict()[name], value), name
    ids = torch.tensor([[5, 9, 30, 2, 77]])
    with torch.inference_mode():
        assert torch.equal(converted(ids).logits, original(ids).logits)


def test_quantized_tensors_are_dequantized_and_rounded(tmp_path: Path, tiny_gguf: Path) -> None:
    convert(tiny_gguf, tmp_path)
    reader = gguf.GGUFReader(tiny_gguf)
    expected = {tensor.name: gguf.dequantize(tensor.data, tensor.tensor_type) for tensor in reader.tensors}
    with safe_open(tmp_path / "model.safetensors", "pt") as file:
        assert len(list(file.keys())) == len(expected)
        for ours, theirs in (
            ("model.embed_tokens.weight", "token_embd.weight"),
            ("model.layers.1.mlp.down_proj.weight", "blk.1.ffn_down.weight"),
        ):
            found = file.get_tensor(ours).float().numpy()
            assert np.abs(found - expected[theirs]).max() <= 2**-7 * np.abs(expected[theirs]).max()


def test_four_bit_weights_are_kept_and_mean_the_same(tmp_path: Path, tiny_gguf: Path) -> None:
    convert(tiny_gguf, tmp_path)
    reader = gguf.GGUFReader(tiny_gguf)
    four = [tensor.name for tensor in reader.tensors if tensor.tensor_type.name in ("Q4_1", "Q8_0")]
    codes, full = load_file(tmp_path / "four_bit.safetensors"), load_file(tmp_path / "model.safetensors")
    names = [name.removesuffix(".codes") for name in codes if name.endswith("weight.codes")]
    assert len(names) == len(four) > 1

    def meant(name: str) -> torch.Tensor:
        packed, scales = codes[f"{name}.codes"], codes[f"{name}.scales"].float()
        unpacked = torch.stack((packed & 15, packed >> 4), -1).reshape(len(packed), -1, 32).float() - 8
        return (unpacked * scales[..., :1] + scales[..., 1:]).flatten(1)

    for name in names:
        values = meant(name) + (meant(f"{name}.low") if f"{name}.low.codes" in codes else 0)
        ours = "model.embed_tokens.weight" if name == "lm_head.weight" else name
        assert torch.equal(values.bfloat16(), full[ours])
    assert "lm_head.weight.low.codes" in codes


def test_the_tokenizer_is_the_original_one(tmp_path: Path, tiny_gguf: Path, smollm: Tokenizer) -> None:
    convert(tiny_gguf, tmp_path)
    ours = load_tokenizer(tmp_path)
    for text in ("It's 1931.\n\n  40,000 x", "<|im_start|>user\nhello<|im_end|>", "a\x04b \U00100000 c"):
        assert ours.encode(text).ids == smollm.encode(text).ids
    assert [ours.token_to_id(token) for token in SPECIALS] == [0, 1, 2]
    assert "im_start" in json.loads((tmp_path / "tokenizer_config.json").read_text())["chat_template"]


def test_bf16_rounds_as_torch_does() -> None:
    torch = pytest.importorskip("torch")
    values = np.random.default_rng(1).normal(0, 1, 5000).astype(np.float32)
    values = np.concatenate([values, np.float32([0.0, -0.0, 1.00390625, 1.01171875, 3e38, -3e38, 1e-40])])
    expected = torch.from_numpy(values).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
    assert np.array_equal(to_bf16(values), expected)
    with pytest.raises(ValueError, match="not finite"):
        to_bf16(np.float32([np.nan]))


@pytest.mark.parametrize(
    ("facts", "why"), [({"architecture": "gpt2"}, "architecture is gpt2"), ({"pre": "odd"}, "pre-tokenizer is odd")]
)
def test_unsupported_kinds(tmp_path: Path, smollm: Tokenizer, facts: dict[str, str], why: str) -> None:
    file = write_gguf(tmp_path / "odd.gguf", smollm, **facts)
    with pytest.raises(ModelError) as caught:
        convert(file, tmp_path)
    assert why in caught.value.why


@pytest.mark.parametrize("length", [0, 20, 2000, 60000])
def test_a_cut_off_gguf(tmp_path: Path, tiny_gguf: Path, length: int) -> None:
    file = tmp_path / "cut.gguf"
    file.write_bytes(tiny_gguf.read_bytes()[:length])
    with pytest.raises(ModelError, match=r"cannot convert cut\.gguf"):
        convert(file, tmp_path)
