"""Text models inside others: their logits and tokens are the whole model's, and nothing else of the files is read."""

from __future__ import annotations

import ctypes
import json
import mmap
import struct
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedModel

from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.native import Library
from specextend_cli.engine.native_runner import use_natively
from specextend_cli.engine.target import Target
from specextend_cli.errors import ModelError
from specextend_cli.models.load import WRAPPERS, load_model, text_name
from specextend_cli.runtime.loading import end_tokens
from tests.engine.tiny_models import generate, prompt
from tests.helpers import wrappers
from tests.helpers.decoding import FAMILY_DRAFTERS, NEW, run, small
from tests.helpers.grid import but_for
from tests.helpers.wrappers import save, tensor_names


@cache
def whole(name: str) -> PreTrainedModel:
    return wrappers.make(name)


@torch.inference_mode()
def logits(model: PreTrainedModel) -> Tensor:
    model.set_attn_implementation("eager")
    ids = torch.tensor([prompt(60)])
    return model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(whole("mistral3"), tmp_path_factory.mktemp("saved"))


@pytest.fixture
def model(saved: Path, tmp_path: Path) -> Path:
    for file in saved.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def change(directory: Path, **settings: Any) -> None:
    file = directory / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))


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


def test_the_native_forward_takes_it(library: Library, tmp_path: Path) -> None:
    library.load()
    lm = LanguageModel(load_model(save(whole("mistral3"), tmp_path)), backend="split")
    use_natively(lm)
    assert lm.runner is not lm.stock
    target = Target(lm)
    written, _ = run(target, FAMILY_DRAFTERS["blend"](target, small("full")), prompt(), small("full"))
    assert written == generate(whole("mistral3"), prompt(), NEW)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel is asked which pages of a file were read")
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
    assert torch.equal(logits(load_model(model)), logits(whole("mistral3")))
    assert read_bytes(tower) < 1 << 20
    tower.read_bytes()
    assert read_bytes(tower) > size // 2  # the kernel may have dropped some again


def read_bytes(file: Path) -> int:
    """Of the file's pages, those in memory."""
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        pages = np.empty(-(-len(mapped) // mmap.PAGESIZE), np.uint8)
        view = np.frombuffer(mapped, np.uint8)
        status = ctypes.CDLL(None).mincore(*map(ctypes.c_void_p, (view.ctypes.data, len(mapped), pages.ctypes.data)))
        del view
    assert status == 0
    return int((pages & 1).sum()) * mmap.PAGESIZE


def test_what_the_wrapper_says_for_both(model: Path) -> None:
    change(model, eos_token_id=[5, 7], dtype="bfloat16")
    config = json.loads((model / "config.json").read_text())
    for key in ("dtype", "eos_token_id", "tie_word_embeddings"):
        config["text_config"].pop(key, None)
    change(model, text_config=config["text_config"])
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


def test_a_wrapper_without_a_part_for_text(model: Path) -> None:
    change(model, model_type="internvl_chat", text_config=None, auto_map={"AutoConfig": "x.Y"})
    with pytest.raises(ModelError) as caught:
        load_model(model)
    assert "not known of 'internvl_chat'" in caught.value.why
    assert "models list" in str(caught.value.fix)


def edit(directory: Path, **settings: Any) -> None:
    config = json.loads((directory / "config.json").read_text())
    change(directory, text_config={**config["text_config"], **settings})


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"num_hidden_layers": 2}, "model.layers.2."),
        ({"vocab_size": 98}, "vocab_size 98, its embedding has 97"),
        ({"vocab_size": 10**12}, "more than any model has"),
        ({"model_type": "bert"}, ""),
        ({"model_type": 3}, ""),
        ({"model_type": "llama"}, ""),
    ],
)
def test_text_parts_that_contradict_the_tensors(settings: dict[str, Any], why: str, model: Path) -> None:
    edit(model, **settings)
    if settings == {"model_type": "llama"}:
        assert load_model(model)  # Mistral's layers are Llama's
        return
    with pytest.raises(ModelError) as caught:
        load_model(model)
    assert why in caught.value.why


def test_whole_numbers_are_no_weights_of_a_text_part(model: Path) -> None:
    tensors = load_file(model / "model.safetensors")
    tower, text = "multi_modal_projector.linear_1.weight", "language_model.model.layers.0.mlp.up_proj.weight"
    save_file({**tensors, tower: tensors[tower].to(torch.int8)}, model / "model.safetensors", {"format": "pt"})
    assert load_model(model)
    save_file({**tensors, text: tensors[text].to(torch.int8)}, model / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match="is not what"):
        load_model(model)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("language_model.model.layers.3.mlp.up_proj.weight", "model.layers.3.mlp.up_proj.weight"),
        ("model.language_model.layers.3.mlp.up_proj.weight", "model.layers.3.mlp.up_proj.weight"),
        ("model.embed_tokens.weight", "model.embed_tokens.weight"),
        ("language_model.lm_head.weight", "lm_head.weight"),
        ("lm_head.weight", "lm_head.weight"),
        ("vision_tower.vision_model.encoder.layers.0.mlp.fc1.weight", None),
        ("model.visual.blocks.0.attn.qkv.weight", None),
        ("visual.blocks.0.attn.qkv.weight", None),
        ("model.multi_modal_projector.linear_1.weight", None),
        ("audio_tower.layers.0.fc1.weight", None),
    ],
)
def test_names_of_tensors(name: str, expected: str | None) -> None:
    assert text_name(name) == expected
