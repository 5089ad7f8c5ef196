"""Heads of eight bits: the numbers that were written; and what is refused, with the reason."""

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
from specextend_cli.models.head_quantization import multiply_out
from specextend_cli.models.heads import load_head
from tests.engine.tiny_models import tiny
from tests.helpers.published_heads import angelslim, eight_bits

CODES = torch.tensor([[1, -2, 3, 4], [5, 6, -7, 8]], dtype=torch.int8)
WRITTEN: dict[str, tuple[dict[str, Tensor], list[list[float]]]] = {
    "one scale": ({"weight_scale": torch.tensor(0.5)}, [[0.5, -1, 1.5, 2], [2.5, 3, -3.5, 4]]),
    "one in a list": ({"weight_scale": torch.tensor([2.0])}, [[2, -4, 6, 8], [10, 12, -14, 16]]),
    "of each row": ({"weight_scale": torch.tensor([[2.0], [0.5]])}, [[2, -4, 6, 8], [2.5, 3, -3.5, 4]]),
    "of each row, flat": ({"weight_scale": torch.tensor([2.0, 0.5])}, [[2, -4, 6, 8], [2.5, 3, -3.5, 4]]),
    "of groups": ({"weight_scale": torch.tensor([[1.0, 2], [0.5, 1]])}, [[1, -2, 6, 8], [2.5, 3, -7, 8]]),
    "of blocks": ({"weight_scale_inv": torch.tensor([[1.0, 2.0]])}, [[1, -2, 3, 8], [5, 6, -7, 16]]),
    "zero points": (
        {
            "weight_scale": torch.tensor([[2.0], [1.0]]),
            "weight_zero_point": torch.tensor([[1], [-1]], dtype=torch.int8),
        },
        [[0, -6, 4, 6], [6, 7, -6, 9]],
    ),
}


@pytest.mark.parametrize("way", WRITTEN)
def test_codes_are_multiplied_by_their_scales(way: str) -> None:
    beside, numbers = WRITTEN[way]
    tensors = {"a.weight": CODES, "b.weight": torch.ones(2), **{f"a.{name}": tensor for name, tensor in beside.items()}}
    tensors |= {"a.input_scale": torch.ones(()), "self_attn.k_scale": torch.ones(()), "kv_cache_scale": torch.ones(())}
    made = multiply_out(tensors, {"weight_block_size": [3, 3]}, torch.bfloat16)
    assert made.keys() == {"a.weight", "b.weight"}
    assert torch.equal(made["a.weight"], torch.tensor(numbers, dtype=torch.bfloat16))
    assert made["b.weight"] is tensors["b.weight"]


def test_blocks_by_the_name_of_compressed_tensors() -> None:
    settings = {"config_groups": {"group_0": {"weights": {"block_structure": [3, 3]}}}}
    tensors = {"a.weight": CODES, "a.weight_scale": torch.tensor([[1.0, 2.0]])}
    assert multiply_out(tensors, settings, torch.float32)["a.weight"].tolist() == [[1, -2, 3, 8], [5, 6, -7, 16]]


def test_the_loaded_head_has_the_numbers_that_were_written(tmp_path: Path) -> None:
    written = eight_bits(tmp_path)
    loaded = load_head(tmp_path, LanguageModel(tiny())).head
    for key, tensor in written.state_dict().items():
        assert torch.equal(loaded.state_dict()[key], tensor), key
    codes = load_file(tmp_path / "model.safetensors")
    assert {codes[f"midlayer.mlp.{part}_proj.weight"].dtype for part in ("gate", "up", "down")} <= {
        torch.int8,
        torch.float8_e4m3fn,
    }


Edit = Callable[[dict[str, Tensor]], Any]
REFUSED: dict[str, tuple[Edit, str]] = {
    "GPTQ": (lambda t: t.update({"fc.qweight": t.pop("fc.weight").int()}), "fc.qweight is packed by gptq"),
    "four bits": (lambda t: t.update({"fc.weight_packed": t.pop("fc.weight").int()}), "weight_packed is packed"),
    "NVFP4": (lambda t: t.update({"fc.weight_scale_2": torch.ones(())}), "packed"),
    "NF4": (lambda t: t.update({"fc.weight.absmax": torch.ones(3)}), "packed"),
    "LLM.int8": (lambda t: t.update({"fc.SCB": torch.ones(3)}), "packed"),
    "no scale": (lambda t: t.update({"fc.weight": t["fc.weight"].to(torch.int8)}), "has no weight_scale"),
    "scales that do not fit": (
        lambda t: t.update({"fc.weight": t["fc.weight"].to(torch.int8), "fc.weight_scale": torch.ones(5)}),
        "do not fit",
    ),
    "a scale without end": (
        lambda t: t.update({"fc.weight": t["fc.weight"].to(torch.int8), "fc.weight_scale": torch.tensor(float("inf"))}),
        "finite",
    ),
    "zero points of other shape": (
        lambda t: t.update(
            {
                "fc.weight": t["fc.weight"].to(torch.int8),
                "fc.weight_scale": torch.ones(()),
                "fc.weight_zero_point": torch.ones(3, dtype=torch.int8),
            }
        ),
        "zero points",
    ),
    "a scale too many": (lambda t: t.update({"fc.weight_scale": torch.ones(())}), "no such head has"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_read_is_refused_with_its_reason(name: str, tmp_path: Path) -> None:
    edit, why = REFUSED[name]
    angelslim(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    edit(tensors)
    save_file(tensors, tmp_path / "model.safetensors")
    settings = json.loads((tmp_path / "config.json").read_text()) | {"quantization_config": {"quant_method": "gptq"}}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    with pytest.raises(ModelError, match="cannot be used") as error:
        load_head(tmp_path, LanguageModel(tiny()))
    assert why in error.value.why
    assert ("eight bits" in error.value.fix) == ("packed" in why)


def test_a_configuration_copied_from_a_quantized_target_says_nothing(tmp_path: Path) -> None:
    angelslim(tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text()) | {"quantization_config": {"quant_method": "fp8"}}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    assert load_head(tmp_path, LanguageModel(tiny()))
