"""EAGLE heads in every published layout: the same logits whatever the names, and refusals with reasons."""

from __future__ import annotations

import dataclasses
import json
import math
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from specextend_cli.engine.attention import ForwardContext
from specextend_cli.engine.drafters import EagleDrafter
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.target import Target
from specextend_cli.errors import ModelError
from specextend_cli.models.head_config import default_layers
from specextend_cli.models.heads import load_head
from tests.engine.tiny_heads import tiny_head
from tests.engine.tiny_models import VOCABULARY, generate, prompt, tiny
from tests.helpers.decoding import NEW, run, small
from tests.helpers.draft_files import save_head
from tests.helpers.plain_eagle import Plain, follows
from tests.helpers.published_heads import (
    LAYOUTS,
    SIZES,
    angelslim,
    bare,
    deepspec,
    named,
    safeailab_1,
    safeailab_3,
    specbundle,
    specforge_31,
    speculators,
    yarn,
)


class PlainYarn(Plain):
    """YaRN (arXiv 2309.00071) by its formula: slow dimensions are stretched, fast ones not, and both made larger."""

    def turn(self, x: Tensor) -> Tensor:
        c, half = self.c, self.c.head_dim // 2
        theta, factor, trained = c.rope["rope_theta"], c.rope["factor"], c.rope["original_max_position_embeddings"]
        fast, slow = (half * math.log(trained / (turns * 2 * math.pi)) / math.log(theta) for turns in (32, 1))
        if c.rope.get("truncate", True):
            fast, slow = math.floor(fast), math.ceil(slow)
        low, high = max(fast, 0), min(slow, c.head_dim - 1)
        ramp = ((torch.arange(half).double() - low) / (high - low)).clamp(0, 1)
        angle = theta ** (-torch.arange(half).double() / half) * (ramp / factor + 1 - ramp)
        turned = torch.complex(x[..., :half], x[..., half:]) * torch.polar(
            torch.full((len(x), 1, half), 0.1 * math.log(factor) + 1).double(),
            torch.arange(len(x)).double()[:, None, None] * angle,
        )
        return torch.cat((turned.real, turned.imag), -1)


def logits(head: EagleHead, lm: LanguageModel, tokens: Tensor, features: Tensor) -> Tensor:
    cache = head.new_cache(len(tokens))
    cache.reserve(len(tokens))
    return head(tokens, head.fuse(features), torch.arange(len(tokens)), cache, ForwardContext(lm.backend)).logits


@pytest.mark.parametrize("layout", LAYOUTS)
@torch.inference_mode()
def test_every_published_layout(layout: Any, tmp_path: Path) -> None:
    """Logits equal an independent computation from the tensors that were written, step by step through a chain."""
    written, lm = layout(tmp_path), LanguageModel(tiny())
    plain = (PlainYarn if layout is yarn else Plain)(written)
    if layout in (safeailab_3, yarn, specbundle, specforge_31, bare):
        plain.w["embedding.weight"] = lm.model.get_input_embeddings().weight.double()
    if layout in (safeailab_1, bare):
        plain.w["lm_head.weight"] = lm.model.get_output_embeddings().weight.double()
    loaded = load_head(tmp_path, lm).head
    silent = layout in (safeailab_3, angelslim, yarn, specbundle, specforge_31, bare)
    expected_layers = default_layers(3) if silent else written.config.feature_layers
    assert loaded.config.feature_layers == expected_layers
    variants = ("norm_before_residual", "norm_before_fc", "fc_norm", "feeds_normed", "qk_norm", "sliding_window")
    assert all(getattr(loaded.config, variant) == getattr(written.config, variant) for variant in variants)
    assert torch.equal(loaded.vocabulary, written.vocabulary)
    follows(loaded, plain)


@pytest.fixture(scope="module")
def expected() -> list[int]:
    return generate(tiny(), prompt(), NEW)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_drafts_without_changing_a_token(layout: Any, tmp_path: Path, expected: list[int]) -> None:
    layout(tmp_path)
    target, retrieval = Target(LanguageModel(tiny())), small("retrieval", positions="compact")
    drafter = EagleDrafter(load_head(tmp_path, target.lm).head, target, retrieval)
    written, meter = run(target, drafter, prompt(), retrieval)
    assert written == expected
    assert meter.nodes > len(written)


@pytest.mark.parametrize("name", ["eagle3-residual", "eagle3.1", "eagle3-qk-norm", "eagle3-norm-before-fc"])
@torch.inference_mode()
def test_what_is_saved_can_be_loaded(name: str, tmp_path: Path) -> None:
    lm, head = LanguageModel(tiny()), tiny_head(name)
    head.embedding = lm.model.get_input_embeddings()
    save_head(head, tmp_path)
    loaded = load_head(tmp_path, lm)
    assert loaded.head.config == dataclasses.replace(head.config, embedding=0)
    assert {reading.feeds_normed for reading in loaded.readings} == {head.config.feeds_normed}
    tokens, features = torch.tensor(prompt(60)[:20]), torch.randn(20, 192)
    assert torch.equal(logits(loaded.head, lm, tokens, features), logits(head, lm, tokens, features))
    with pytest.raises(ValueError, match="EAGLE-3"):
        save_head(tiny_head("eagle1"), tmp_path)
    for unknown in ({"sliding_window": 128}, {"feeds_normed": True}):
        with pytest.raises(ValueError, match="this layout"):
            save_head(tiny_head("eagle3", **unknown), tmp_path)


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, ("raise SystemExit('code ran')",))


def change(directory: Path, **settings: Any) -> None:
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps({**config, **settings}))


def without_bias(directory: Path) -> None:
    tensors = torch.load(directory / "pytorch_model.bin", weights_only=True)
    del tensors["fc.bias"]
    torch.save(tensors, directory / "pytorch_model.bin")


def add(directory: Path, **shapes: tuple[int, ...]) -> None:
    tensors = load_file(directory / "model.safetensors")
    tensors |= {name: torch.ones(shape) for name, shape in shapes.items()}
    save_file(tensors, directory / "model.safetensors")


def tied(directory: Path) -> None:
    tensors = load_file(directory / "model.safetensors")
    del tensors["lm_head.weight"]
    save_file(tensors, directory / "model.safetensors")
    change(directory, tie_word_embeddings=True)


BROKEN: dict[str, tuple[Any, Any, str]] = {
    "pickle with code": (
        safeailab_3,
        lambda d: (d / "pytorch_model.bin").write_bytes(pickle.dumps({"fc.weight": Evil()}, protocol=2)),
        "damaged",
    ),
    "truncated": (
        angelslim,
        lambda d: (d / "model.safetensors").write_bytes((d / "model.safetensors").read_bytes()[:-9]),
        "damaged",
    ),
    "no weights": (angelslim, lambda d: (d / "model.safetensors").unlink(), "damaged"),
    "no config": (angelslim, lambda d: (d / "config.json").unlink(), "config.json"),
    "a list as config": (angelslim, lambda d: (d / "config.json").write_text("[1]"), "config.json"),
    "EAGLE-1 said to be EAGLE-3": (
        safeailab_1,
        lambda d: change(d, architectures=["LlamaForCausalLMEagle3"]),
        "cannot be used",
    ),
    "layers of a deeper target": (
        speculators,
        lambda d: change(d, eagle_aux_hidden_state_layer_ids=[40, 41, 42]),
        "cannot be used",
    ),
    "an unknown RoPE": (angelslim, lambda d: change(d, rope_scaling={"rope_type": "longrope"}), "cannot be used"),
    "a list as .bin": (safeailab_3, lambda d: torch.save([1, 2], d / "pytorch_model.bin"), "damaged"),
    "numbers in .bin": (safeailab_3, lambda d: torch.save({"fc.weight": 3}, d / "pytorch_model.bin"), "damaged"),
    "two layers named": (speculators, lambda d: change(d, eagle_aux_hidden_state_layer_ids=[0, 1]), "cannot be used"),
    "states that are not there": (deepspec, lambda d: change(d, target_layer_ids=[0, 1, 2, 3, 1]), "cannot be used"),
    "three of five states": (deepspec, lambda d: change(d, target_layer_ids=[0, 1, 2]), "cannot be used"),
    "five unnamed states": (deepspec, lambda d: change(d, target_layer_ids=None), "cannot be used"),
    "Gemma's layers": (deepspec, lambda d: change(d, model_type="gemma4_text"), "cannot be used"),
    "logits by a factor": (angelslim, lambda d: change(d, logit_scale=0.25), "cannot be used"),
    "the last state as it is": (
        angelslim,
        lambda d: change(d, eagle_config={"use_aux_hidden_state": False}),
        "cannot be used",
    ),
    "an embedding that is its output layer": (angelslim, tied, "cannot be used"),
    "several tokens at once": (speculators, lambda d: change(d, speculators_model_type="peagle"), "cannot be used"),
    "states of tokens that are not there yet": (
        speculators,
        lambda d: add(d, mask_hidden=(1, 1, 192)),
        "cannot be used",
    ),
    "SGLang's norms before fc": (specbundle, lambda d: add(d, **{"aux_norm_low.weight": (64,)}), "cannot be used"),
    "layers counted from the end": (
        speculators,
        lambda d: change(d, eagle_aux_hidden_state_layer_ids=[-3, -2, -1]),
        "cannot be used",
    ),
    "a RoPE that changes with the length": (
        angelslim,
        lambda d: change(d, rope_scaling={"type": "dynamic", "factor": 2.0}),
        "cannot be used",
    ),
    "a RoPE of pictures": (
        angelslim,
        lambda d: change(d, rope_scaling={"rope_type": "default", "mrope_section": [3, 3, 2]}),
        "cannot be used",
    ),
    "another kind of draft model": (
        speculators,
        lambda d: change(d, speculators_model_type="dflash", architectures=["DFlashDraftModel"]),
        "cannot be used",
    ),
    "a bias that is lost": (safeailab_1, without_bias, "cannot be used"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_does_not_fit_is_refused(name: str, tmp_path: Path) -> None:
    layout, damage, message = BROKEN[name]
    layout(tmp_path)
    damage(tmp_path)
    with pytest.raises(ModelError, match=message) as error:
        load_head(tmp_path, LanguageModel(tiny()))
    assert error.value.why
    assert "EAGLE-3 layout" in error.value.fix or message != "cannot be used"


def test_copies_of_the_targets_matrices_are_shared(tmp_path: Path) -> None:
    """DeepSpec trains with both frozen. One number that differs, and the head keeps its own."""
    lm = LanguageModel(tiny())
    written = deepspec(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    theirs = lm.model.get_input_embeddings(), lm.model.get_output_embeddings()
    keys = "embed_tokens.weight", "lm_head.weight"
    for key, module in zip(keys, theirs, strict=True):
        tensors[key] = module.weight.detach().clone()
    save_file(tensors, tmp_path / "model.safetensors")
    loaded = load_head(tmp_path, lm).head
    assert (loaded.embedding, loaded.lm_head) == theirs
    written.embedding.weight.data.copy_(theirs[0].weight)
    written.lm_head.weight.data.copy_(theirs[1].weight)
    follows(loaded, Plain(written))
    for key in keys:
        tensors[key][-1, -1] += 1
    save_file(tensors, tmp_path / "model.safetensors")
    loaded = load_head(tmp_path, lm).head
    assert loaded.embedding is not theirs[0]
    assert loaded.lm_head is not theirs[1]


@pytest.mark.parametrize("key", ["layers.0.self_attn.qk_norm.weight", "fc.weight", "norm.weight", "t2d"])
def test_a_tensor_too_many_or_too_few_is_refused(key: str, tmp_path: Path) -> None:
    head = tiny_head("eagle3")
    tensors = named(head, "midlayer.")
    if key in tensors and key != "t2d":
        del tensors[key]
    else:
        tensors[key] = torch.ones(VOCABULARY)
    save_file(tensors, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({**SIZES, "draft_vocab_size": 40}))
    with pytest.raises(ModelError, match="cannot be used"):
        load_head(tmp_path, LanguageModel(tiny()))


def test_empty_layer_ids_are_the_default_ones(tmp_path: Path) -> None:
    speculators(tmp_path)
    change(tmp_path, eagle_aux_hidden_state_layer_ids=[])
    assert load_head(tmp_path, LanguageModel(tiny())).head.config.feature_layers == default_layers(3)


def test_default_layers_are_not_written(tmp_path: Path) -> None:
    """Engines count explicit ids in two ways, so a head that needs none names none."""
    lm, head = LanguageModel(tiny()), tiny_head("eagle3")
    head.config = dataclasses.replace(head.config, feature_layers=default_layers(3))
    save_head(head, tmp_path, target_layers=3)
    assert "eagle_config" not in json.loads((tmp_path / "config.json").read_text())
    loaded = load_head(tmp_path, lm)
    assert [reading.feature_layers for reading in loaded.readings] == [default_layers(3)]


def test_angles_stay_exact_in_half_precision(tmp_path: Path) -> None:
    safeailab_3(tmp_path)
    head = load_head(tmp_path, LanguageModel(tiny().to(torch.bfloat16))).head
    assert head.fc.weight.dtype == torch.bfloat16
    assert head.rotary.inv_freq.dtype == torch.float32
    assert torch.equal(head.frequencies, tiny_head("eagle3").frequencies)


def test_a_layer_number_out_of_line_is_refused_at_once(tmp_path: Path) -> None:
    safeailab_3(tmp_path)
    tensors = torch.load(tmp_path / "pytorch_model.bin", weights_only=True)
    torch.save({**tensors, "layers.900.mlp.up_proj.weight": torch.ones(1)}, tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelError, match="cannot be used") as error:
        load_head(tmp_path, LanguageModel(tiny()))
    assert "numbered" in error.value.why
