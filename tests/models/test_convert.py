from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from specextend_cli.models.four_bit import to_bf16
from specextend_cli.models.gguf.convert import convert
from specextend_cli.models.load import load_model
from specextend_cli.models.tokens import load_tokenizer
from tests.helpers import gguf_files

from .conftest import SPECIALS


def test_converted_model_equals_the_original(tmp_path: Path, smollm: Tokenizer) -> None:
    original = gguf_files.make("llama", smollm.get_vocab_size())
    file = gguf_files.write(tmp_path / "own.gguf", "llama", original, smollm)
    into = tmp_path / "model"
    into.mkdir()
    convert(file, into)
    converted = load_model(into)
    assert converted.dtype == torch.bfloat16
    assert not converted.training
    assert converted.config.eos_token_id == converted.generation_config.eos_token_id == 2
    for name, value in original.state_dict().items():
        assert torch.equal(converted.state_dict()[name].float(), value), name
    ids = torch.tensor([[5, 9, 30, 2, 77]])
    with torch.inference_mode():
        assert torch.equal(load_model(into, dtype="float32")(ids).logits, original(ids).logits)


def test_the_tokenizer_is_the_original_one(tmp_path: Path, tiny_gguf: Path, smollm: Tokenizer) -> None:
    convert(tiny_gguf, tmp_path)
    ours = load_tokenizer(tmp_path)
    for text in ("It's 1931.\n\n  40,000 x", "<|im_start|>user\nhello<|im_end|>", "a\x04b \U00100000 c"):
        assert ours.encode(text).ids == smollm.encode(text).ids
    assert [ours.token_to_id(token) for token in SPECIALS] == [0, 1, 2]
    assert "im_start" in json.loads((tmp_path / "tokenizer_config.json").read_text())["chat_template"]


def test_bf16_rounds_as_torch_does() -> None:
    values = np.random.default_rng(1).normal(0, 1, 5000).astype(np.float32)
    values = np.concatenate([values, np.float32([0.0, -0.0, 1.00390625, 1.01171875, 3e38, -3e38, 1e-40])])
    expected = torch.from_numpy(values).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
    assert np.array_equal(to_bf16(values), expected)
    with pytest.raises(ValueError, match="not finite"):
        to_bf16(np.float32([np.nan]))
