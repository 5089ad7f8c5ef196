"""Text models inside others: their logits and tokens are the whole model's, and nothing else of the files is read."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from specextend_cli.engine.lm import LanguageModel
from specextend_cli.errors import ModelError
from specextend_cli.models.load import WRAPPERS, load_model
from specextend_cli.runtime.loading import end_tokens
from tests.engine.tiny_models import prompt
from tests.helpers import wrappers
from tests.helpers.grid import but_for
from tests.helpers.model_files import change, change_tensors, change_text
from tests.helpers.wrappers import save, tensor_names


@cache
def whole(name: str) -> PreTrainedModel:
    return wrappers.make(name)


@torch.inference_mode()
def logits(model: PreTrainedModel) -> Tensor:
    model.set_attn_implementation("eager")
    ids = torch.tensor([prompt(60)])
    return model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save(whole("mistral3"), tmp_path)


@pytest.mark.parametrize("published", [True, False], ids=["published", "in-memory"])
@pytest.mark.parametrize("name", but_for(("gemma3", "mistral3-tied", "qwen3_5"), wrappers.ALL))
def test_the_text_part_computes_what_the_whole_does(name: str, published: bool, tmp_path: Path) -> None:
    original = whole(name)
    text = load_model(save(original, tmp_path, published=published))
    assert torch.equal(logits(text), logits(original))
    assert text.config.get_text_config() is text.config
    tied = text.get_output_embeddings().weight is text.get_input_embeddings().weight
    assert tied == text.config.tie_word_embeddings == name.endswith("-tied")


def test_all_that_are_loaded_are_tested() -> None:
    assert {name.partition("-")[0] for name in wrappers.ALL} == set(WRAPPERS)


@pytest.mark.skipif(shutil.which("fincore") is None, reason="the kernel is asked which pages of a file were read")
def test_towers_are_not_read(model: Path) -> None:
    """A large one is a hole in the disk, of which the kernel knows no pages until they are read."""
    size = 1 << 28
    name, entry = "vision_tower.large.weight", {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}
    header, tower = json.dumps({name: entry}).encode(), model / "model-2.safetensors"
    with tower.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + size)
    (model / "model.safetensors").rename(model / "model-1.safetensors")
    places = dict.fromkeys(tensor_names(model / "model-1.safetensors"), "model-1.safetensors")
    index = {"metadata": {}, "weight_map": {**places, name: "model-2.safetensors"}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))

    def read_bytes() -> int:
        return int(subprocess.check_output(["fincore", "--bytes", "--noheadings", "--output", "RES", tower]))

    assert torch.equal(logits(load_model(model)), logits(whole("mistral3")))
    assert read_bytes() < 1 << 20
    tower.read_bytes()
    assert read_bytes() > size // 2  # the kernel may have dropped some again


def test_what_the_wrapper_says_for_both(model: Path) -> None:
    change(model, eos_token_id=[5, 7], dtype="bfloat16")
    text = json.loads((model / "config.json").read_text())["text_config"]
    for key in ("dtype", "eos_token_id", "tie_word_embeddings"):
        text.pop(key, None)
    change(model, text_config=text)
    (model / "generation_config.json").unlink()
    loaded = load_model(model)
    assert loaded.dtype == torch.bfloat16
    assert end_tokens(LanguageModel(loaded)) == {5, 7}
    (model / "generation_config.json").write_text(json.dumps({"eos_token_id": [1, 9]}))
    assert end_tokens(LanguageModel(load_model(model))) == {1, 9}


def test_a_tied_wrapper_whose_file_has_an_output_layer(model: Path) -> None:
    """Mistral Small 3's configuration leaves out that its embeddings are not tied; the default says they are."""
    change(model, tie_word_embeddings=True)
    assert torch.equal(logits(load_model(model)), logits(whole("mistral3")))


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"num_hidden_layers": 2}, "model.layers.2."),
        ({"vocab_size": 98}, "vocab_size 98, its embedding has 97"),
        ({"vocab_size": 10**12}, "more than any model has"),
        ({"model_type": "bert"}, ""),
        ({"model_type": 3}, ""),
    ],
)
def test_text_parts_that_contradict_the_tensors(settings: dict[str, Any], why: str, model: Path) -> None:
    change_text(model, **settings)
    with pytest.raises(ModelError) as caught:
        load_model(model)
    assert why in caught.value.why


@pytest.mark.parametrize(
    ("published", "tower", "text"),
    [
        (True, "multi_modal_projector.linear_1.weight", "language_model.model.layers.0.mlp.up_proj.weight"),
        (False, "model.multi_modal_projector.linear_1.weight", "lm_head.weight"),
    ],
)
def test_whole_numbers_are_no_weights_of_a_text_part(published: bool, tower: str, text: str, tmp_path: Path) -> None:
    save(whole("mistral3"), tmp_path, published=published)
    change_tensors(tmp_path, lambda tensors: tensors.update({tower: tensors[tower].to(torch.int8)}))
    assert load_model(tmp_path)
    change_tensors(tmp_path, lambda tensors: tensors.update({text: tensors[text].to(torch.int8)}))
    with pytest.raises(ModelError, match="is not what"):
        load_model(tmp_path)
