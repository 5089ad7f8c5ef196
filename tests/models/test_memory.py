from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from specextend_cli.errors import ModelError
from specextend_cli.models.memory import HEADROOM, Estimate, estimate, fits, prefill_bytes
from specextend_cli.models.preset import Draft, Preset
from specextend_cli.models.presets import load_preset
from specextend_cli.models.shape import Shape
from specextend_cli.models.source_kinds import LocalSource

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


def estimated(preset: Preset, **changes: Any) -> Estimate:
    need = estimate(preset, **changes)
    assert need is not None
    return need


@pytest.mark.parametrize("family", ["Llama", "Mistral", "Qwen2", "Qwen3", "Phi3"])
@pytest.mark.parametrize("tied", [False, True])
def test_counts_are_those_of_a_real_model(family: str, tied: bool, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    import transformers

    sizes: dict[str, Any] = SIZES | {"tie_word_embeddings": tied}
    if family in ("Qwen2", "Phi3"):  # they have no head_dim of their own
        sizes.pop("head_dim")
    model = getattr(transformers, f"{family}ForCausalLM")(getattr(transformers, f"{family}Config")(**sizes))
    model.config.save_pretrained(tmp_path)
    shape = Shape.of(tmp_path)
    assert shape.parameters == sum(weight.numel() for weight in model.parameters())
    assert shape.weight_bytes(4) == sum(weight.nbytes for weight in model.parameters())
    with torch.inference_mode():
        layers = model(torch.ones(1, 7, dtype=torch.long)).past_key_values.layers
    assert shape.kv_bytes_per_token(4) * 7 == sum(layer.keys.nbytes + layer.values.nbytes for layer in layers)


def test_experts_are_counted_and_not_quantized(tmp_path: Path) -> None:
    """Four bits are for linear layers; experts are stacked in one tensor, which bitsandbytes leaves as it is."""
    transformers = pytest.importorskip("transformers")
    sizes: dict[str, Any] = SIZES | {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 48}
    model = transformers.Qwen3MoeForCausalLM(transformers.Qwen3MoeConfig(**sizes))
    model.config.save_pretrained(tmp_path)
    shape = Shape.of(tmp_path)
    assert (shape.experts, shape.active, shape.intermediate) == (8, 2, 48)
    assert shape.parameters == sum(weight.numel() for weight in model.parameters())
    experts = sum(weight.numel() for name, weight in model.named_parameters() if ".experts." in name)
    assert shape.weight_bytes(2, "nf4") > 2 * experts


def test_shipped_shapes_have_the_published_sizes() -> None:
    published = {
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
    for name, parameters in published.items():
        shape = load_preset(name).target.shape
        assert shape is not None
        assert shape.parameters == parameters, name
    pair = load_preset("qwen3-8b")
    assert pair.target.shape is not None
    assert pair.draft.shape is not None
    assert pair.target.shape.kv_bytes_per_token() == 144 * 1024
    assert pair.draft.shape.kv_bytes_per_token() == 112 * 1024


def test_estimate_adds_up_and_grows_with_the_context() -> None:
    preset = load_preset("qwen3-8b")
    short, long = estimated(preset, context=8192), estimated(preset, context=16384)
    assert short.kv == 8192 * 144 * 1024
    assert long.total - short.total == 8192 * (144 + 112) * 1024
    assert short.total == short.weights + short.kv + short.draft_weights + short.draft_kv + short.workspace
    single = estimated(preset, context=8192, dtype="float32")
    assert single.weights == 2 * short.weights


def changed(preset: Preset, **draft: Any) -> Preset:
    return preset.model_copy(update={"draft": preset.draft.model_copy(update=draft)})


def test_a_self_draft_needs_only_a_working_set() -> None:
    plain = load_preset("smollm2-135m").model_copy(update={"draft": Draft(kind="ngram")})
    own = changed(plain, kind="self")
    without, with_ = estimated(plain), estimated(own)
    assert without.draft_kv == 0
    retrieval = own.retrieval
    working = retrieval.sinks + retrieval.recent + retrieval.top_k * retrieval.chunk
    assert with_.draft_kv == working * own.target.shape.kv_bytes_per_token()  # type: ignore[union-attr]


def test_fits_leaves_headroom() -> None:
    preset = load_preset("smollm2-135m")
    need = estimated(preset)
    assert fits(preset, int(need.total / HEADROOM) + 1) is True
    assert fits(preset, need.total) is False
    unknown = preset.model_copy(update={"target": preset.target.model_copy(update={"shape": None})})
    assert fits(unknown, 10**12) is None


def test_a_model_on_disk_is_believed_before_the_preset(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES)).save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    preset = load_preset("smollm2-135m")
    source = LocalSource(kind="local", path=tmp_path)
    local = estimated(preset.model_copy(update={"target": preset.target.model_copy(update={"source": source})}))
    assert local.weights == Shape.of(tmp_path).weight_bytes()


def test_a_configuration_without_sizes_cannot_be_estimated(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="does not describe"):
        Shape.from_config({"model_type": "bert"})
    with pytest.raises(ModelError, match="cannot read"):
        Shape.of(tmp_path)


def test_a_gpu_reads_in_larger_steps_where_it_has_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    from specextend_cli.runtime import loading
    from specextend_cli.runtime.options import EngineOptions

    preset = load_preset("qwen3-8b-eagle3")
    largest = prefill_bytes(preset, 4096)
    assert largest == 4 * prefill_bytes(preset, 1024) > 10**9
    for free, tokens in ((2 * largest, 4096), (2 * largest - 1, 2048), (largest, 2048), (largest - 1, 1024), (0, 1024)):
        monkeypatch.setattr(loading, "free_memory", lambda device, free=free: free)
        assert loading.prefill_step(preset, torch.device("cuda"), EngineOptions()) == tokens
        assert loading.prefill_step(preset, torch.device("cpu"), EngineOptions()) == 1024
