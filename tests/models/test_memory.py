"""What models need, as estimated, and what devices have, whichever GPU is the current one."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
import transformers

from specextend_cli.engine.attention import hybrid
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.errors import FitError
from specextend_cli.models.head_config import PublishedHead
from specextend_cli.models.memory import draft_sizes, estimate, prefill_bytes, target_shape
from specextend_cli.models.preset import Draft, Preset, Target
from specextend_cli.models.presets import load_preset
from specextend_cli.models.shape import GRAPHS, HEADROOM, Shape, count_weights
from specextend_cli.models.source_kinds import LocalSource
from specextend_cli.runtime import loading
from specextend_cli.runtime.devices import dtype_of
from specextend_cli.runtime.loading import check_memory
from specextend_cli.runtime.options import Engine
from tests.helpers.published_heads import angelslim
from tests.helpers.published_mtp import prediction_layer

SIZES = {
    "vocab_size": 300,
    "hidden_size": 64,
    "intermediate_size": 112,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 24,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}


MODELS: dict[str, dict[str, Any]] = {
    "Llama": {},
    "Llama-tied": {"tie_word_embeddings": True},
    "Qwen2": {"head_dim": None},  # it has none of its own
    "Qwen3": {},
    "Phi3": {"head_dim": None},
    "Qwen3Moe": {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 48},
}
UNLIKE: dict[str, dict[str, Any]] = {
    "Qwen3_5Text": {"layer_types": ["linear_attention", "linear_attention", "full_attention"]},
    "Lfm2": {"layer_types": ["conv", "full_attention", "conv"], "head_dim": 16},
    "Gemma4Text": {"vocab_size_per_layer_input": SIZES["vocab_size"], "hidden_size_per_layer_input": 16},
}


def built(name: str) -> Any:
    sizes: dict[str, Any] = SIZES | {**MODELS, **UNLIKE}[name]
    family = getattr(transformers, f"{name.partition('-')[0]}Config")
    config = family(**{key: size for key, size in sizes.items() if size is not None})
    return transformers.AutoModelForCausalLM.from_config(config).float()


@pytest.mark.parametrize("name", MODELS)
def test_counts_are_those_of_a_real_model(name: str, tmp_path: Path) -> None:
    model = built(name)
    model.save_pretrained(tmp_path)
    shape, lm = Shape.of(tmp_path), LanguageModel(model)
    assert shape.weights == sum(weight.numel() for weight in model.parameters())
    assert (shape.layers, shape.hidden, shape.vocab) == (lm.layers, SIZES["hidden_size"], SIZES["vocab_size"])
    assert shape.cached * 4 * 256 == lm.new_cache(256).nbytes
    linear = sum(part.weight.numel() for part in model.model.layers.modules() if type(part) is torch.nn.Linear)
    routers = sum(weight.numel() for key, weight in model.named_parameters() if key.endswith("mlp.gate.weight"))
    assert shape.linear == linear + routers  # without experts
    four_bits = shape.linear // 2 + shape.linear // 16
    assert shape.weight_bytes(2, "nf4") == 2 * (shape.weights - shape.linear) + four_bits


@pytest.mark.parametrize("name", UNLIKE)
def test_layers_of_several_kinds_are_counted_by_presets_alone(name: str, tmp_path: Path) -> None:
    built(name).save_pretrained(tmp_path)
    assert Shape.of(tmp_path) is None


@pytest.mark.parametrize("setting", [{"num_hidden_layers": None}, {"vocab_size": -1}, {"hidden_size": "x"}])
def test_a_target_without_sizes_is_of_unknown_memory(setting: dict[str, Any], tmp_path: Path) -> None:
    """As transformers runs some, unless the preset states them; what is on disk is believed before it."""
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(bytes(9))
    stated = load_preset("smollm2-135m").target.shape
    for changes in ({}, setting):
        (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", **SIZES, **changes}))
        found = Shape.of(tmp_path)
        assert (found is None) == bool(changes)
        for told in (None, stated):
            target = Target(source=LocalSource(kind="local", path=tmp_path), shape=told)
            assert target_shape(target) == (found or told)


def test_a_prediction_layer_and_states_are_counted() -> None:
    net = built("Qwen3_5Text")
    layer, hidden = prediction_layer(net), SIZES["hidden_size"]
    attending = net.get_decoder().layers[-1]
    own = sum(weight.numel() for weight in attending.parameters()) + 2 * hidden**2 + 3 * hidden
    assert own == sum(weight.numel() for weight in layer.parameters())  # as the presets' are computed
    preset = load_preset("qwen3.5-9b-mtp")
    shape, sizes = preset.target.shape, preset.draft.shape
    assert sizes.cached == 2 * 4 * 256  # one layer's keys and values
    assert shape.cached == 8 * sizes.cached  # of 8 of 32 layers
    without = estimate(changed(preset, kind="mtp", of=(), shape=None))
    working = preset.retrieval.size + preset.window.context
    assert estimate(preset) - without == 2 * (sizes.weights + sizes.cached * working)
    assert shape.state == 24 * (32 * 128 * 128 + 8192 * 4)
    target = preset.target.model_copy(update={"shape": shape.model_copy(update={"state": 0})})
    stateless = preset.model_copy(update={"target": target})
    assert estimate(preset) - estimate(stateless) == 4 * 4 * shape.state


def test_shipped_shapes_have_the_published_sizes() -> None:
    published = {
        "lfm2-1.2b": 1_170_340_608,
        "lfm2-2.6b": 2_569_272_320,
        "smollm2-135m": 134_515_008,
        "llama-3.1-8b-eagle": 8_030_261_248,
        "qwen3-0.6b": 596_049_920,
        "qwen3-1.7b": 1_720_574_976,
        "qwen3-14b-eagle3": 14_768_307_200,
        "qwen3-30b-a3b-2507-eagle3": 30_532_122_624,
        "qwen3-32b-eagle3": 32_762_123_264,
        "smollm3-3b": 3_075_098_624,
        "granite-4.0-micro": 3_402_836_480,
        "qwen3-4b-eagle3": 4_022_468_096,
        "qwen3-8b": 8_190_735_360,
        "vicuna-7b-16k": 6_738_415_616,
    }
    assert {name: load_preset(name).target.shape.weights for name in published} == published


def test_estimate_adds_up_and_grows_with_the_context() -> None:
    preset = load_preset("qwen3-8b")
    short, long = estimate(preset, context=8192), estimate(preset, context=16384)
    shape, sizes = preset.target.shape, preset.draft.shape
    assert (2 * shape.cached, 2 * sizes.cached) == (144 * 1024, 112 * 1024)
    assert long - short == 8192 * (144 + 112) * 1024
    activations, logits = 1024 * 2 * 16 * shape.hidden, preset.tree.nodes * 8 * shape.vocab
    working = 8192 + preset.retrieval.size
    rest = activations + logits
    assert short == 2 * (shape.weights + shape.cached * 8192 + sizes.weights + sizes.cached * working) + rest
    assert estimate(preset, context=8192, dtype="float32") == 2 * short - logits


def changed(preset: Preset, **draft: Any) -> Preset:
    return preset.model_copy(update={"draft": preset.draft.model_copy(update=draft)})


def test_a_self_draft_needs_only_a_working_set() -> None:
    plain = load_preset("smollm2-135m").model_copy(update={"draft": Draft(kind="ngram")})
    own = changed(plain, kind="self")
    retrieval = own.retrieval
    working = retrieval.sinks + retrieval.recent + retrieval.top_k * retrieval.chunk
    assert estimate(own) - estimate(plain) == 2 * working * own.target.shape.cached


def test_a_gpu_reads_in_larger_steps_where_it_has_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    preset = load_preset("qwen3-8b-eagle3")
    largest = prefill_bytes(preset, 4096)
    assert largest == 4 * prefill_bytes(preset, 1024) > 10**9
    for free, tokens in ((2 * largest, 4096), (2 * largest - 1, 2048), (largest, 2048), (largest - 1, 1024), (0, 1024)):
        monkeypatch.setattr(loading, "free_memory", lambda device, free=free: free)
        assert loading.prefill_step(preset, torch.device("cuda"), Engine()) == tokens
        assert loading.prefill_step(preset, torch.device("cpu"), Engine()) == 1024


def test_a_published_head_has_the_size_of_its_preset() -> None:
    """In half precision: yuhuili's pytorch_model.bin, SpecForge's and Red Hat's model.safetensors."""
    published = {
        "llama-3.1-8b-eagle3-paper": 850e6,
        "llama-3.3-70b-4bit-eagle3": 2.81e9,
        "qwen3-32b-eagle3": 3_121_274_856,
    }
    for name, size in published.items():
        assert 2 * draft_sizes(load_preset(name)).weights == pytest.approx(size, rel=0.01)


def test_a_head_on_disk_is_believed_before_the_preset(tmp_path: Path) -> None:
    angelslim(tmp_path)
    preset = load_preset("llama-3.1-8b-eagle3-paper")
    sizes = draft_sizes(changed(preset, source=LocalSource(kind="local", path=tmp_path)))
    assert (sizes.weights, sizes.cached) == (count_weights(tmp_path), PublishedHead.read(tmp_path).cached)


SECOND = torch.device("cuda:1")


@pytest.fixture
def second(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Two GPUs, the first of which is current."""
    for name, answer in {"is_available": True, "current_device": 0}.items():
        monkeypatch.setattr(torch.cuda, name, lambda answer=answer: answer)
    yield monkeypatch
    hybrid.capability.cache_clear()


@pytest.mark.parametrize(
    ("capability", "dtype"),
    [((7, 0), "float16"), ((7, 5), "float16"), ((8, 0), "bfloat16"), ((8, 9), "bfloat16"), ((12, 0), "bfloat16")],
    ids=["V100", "T4", "A100", "RTX 4090", "RTX 5090"],
)
def test_bfloat16_where_the_gpu_multiplies_it(
    second: pytest.MonkeyPatch, capability: tuple[int, int], dtype: str
) -> None:
    """Not where it is computed in several steps; the other GPU has the other format."""
    capabilities = {SECOND: capability, torch.device("cuda:0"): (8, 0) if dtype == "float16" else (7, 5)}
    second.setattr(torch.cuda, "get_device_capability", lambda device: capabilities[device])
    second.setattr(
        torch.cuda, "is_bf16_supported", lambda including_emulation=True: capabilities[torch.device("cuda:0")][0] >= 8
    )
    assert dtype_of("auto", SECOND) == getattr(torch, dtype)
    assert dtype_of("float32", SECOND) == torch.float32


def test_what_torch_keeps_of_closed_models_is_free(second: pytest.MonkeyPatch) -> None:
    """A second model of the same size fits after the first, which its graphs still hold."""
    preset = load_preset("qwen3-8b-eagle3")
    need = estimate(preset)
    total = int((need + GRAPHS) / HEADROOM) + 1

    allocated = [total]
    second.setattr(torch.cuda, "mem_get_info", lambda device: (10**9, 2 * total))
    second.setattr(torch.cuda, "memory_reserved", lambda device: total - 10**9)
    second.setattr(torch.cuda, "memory_allocated", lambda device: sum(allocated) - 10**9 * len(allocated))
    closed = Mock()
    closed.runs_by = closed
    weakref.finalize(closed, allocated.clear)
    gc.collect()
    with pytest.raises(FitError, match="does not fit into memory"):
        check_memory(preset, SECOND, Engine())
    del closed
    assert allocated
    check_memory(preset, SECOND, Engine())
    assert not allocated


def test_graphs_need_no_memory_where_there_are_none(second: pytest.MonkeyPatch) -> None:
    """Where the user does without."""
    preset = load_preset("qwen3-8b-eagle3")
    need = estimate(preset)

    second.setattr(loading, "free_memory", lambda device: int(need / HEADROOM) + 1)
    second.delenv("SPECEXTEND_GRAPHS", raising=False)
    with pytest.raises(FitError):
        check_memory(preset, SECOND, Engine())
    second.setenv("SPECEXTEND_GRAPHS", "0")
    check_memory(preset, SECOND, Engine())
