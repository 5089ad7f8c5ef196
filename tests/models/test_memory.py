from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specextend_cli.errors import ModelError
from specextend_cli.models.footprint import HEADROOM, Estimate
from specextend_cli.models.memory import estimate, fits, prefill_bytes, target_shape
from specextend_cli.models.preset import Draft, Preset, Target
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


@pytest.mark.parametrize("setting", ["num_hidden_layers", "vocab_size"])
def test_a_target_with_other_sizes_is_of_unknown_memory(setting: str, tmp_path: Path) -> None:
    """As transformers runs some; sizes that are none are an error."""
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(bytes(9))
    target = Target(source=LocalSource(kind="local", path=tmp_path))
    sizes: dict[str, Any] = {"model_type": "llama", **SIZES}
    for found in (sizes, sizes | {setting: -1}, {name: size for name, size in sizes.items() if name != setting}):
        (tmp_path / "config.json").write_text(json.dumps(found))
        if found.get(setting) == -1:
            with pytest.raises(ModelError):
                target_shape(target)
        else:
            assert (target_shape(target) is None) == (setting not in found)


FULL_AND_SLIDING = {"layer_types": ["sliding_attention", "full_attention"] * 2, "global_head_dim": 40}
GEMMA_4: dict[str, dict[str, Any]] = {
    "keys of others": {"num_kv_shared_layers": 2, "use_double_wide_mlp": True, "hidden_size_per_layer_input": 16},
    "keys as values": {"attention_k_eq_v": True, "num_global_key_value_heads": 1, "hidden_size_per_layer_input": 0},
    "experts": {
        **{"enable_moe_block": True, "num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 24},
        "hidden_size_per_layer_input": 0,
    },
    "unified": {"tie_word_embeddings": False, "attention_k_eq_v": True},
}


@pytest.mark.parametrize("name", GEMMA_4)
@pytest.mark.parametrize("published", [True, False])
def test_counts_of_gemma_4_are_those_of_a_real_model(name: str, published: bool, tmp_path: Path) -> None:
    """By what its publisher's configurations say, and by those that transformers writes of each layer."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    from specextend_cli.engine.lm import LanguageModel

    sizes = {
        **SIZES,
        "num_hidden_layers": 4,
        "vocab_size_per_layer_input": SIZES["vocab_size"],
        **FULL_AND_SLIDING,
        **GEMMA_4[name],
    }
    kind = "Gemma4UnifiedTextConfig" if name == "unified" else "Gemma4TextConfig"
    model = transformers.AutoModelForCausalLM.from_config(getattr(transformers, kind)(**sizes)).float()
    model.config.save_pretrained(tmp_path)
    shape = Shape.of(tmp_path)
    if published:
        shape = Shape.from_config({**sizes, "model_type": model.config.model_type})
    assert shape.parameters == sum(weight.numel() for weight in model.parameters())
    decoder = model.get_decoder()
    layers = [module for module in decoder.modules() if isinstance(module, torch.nn.Linear)]
    routers = 4 * SIZES["hidden_size"] * 4 if name == "experts" else 0  # bitsandbytes would take them, too
    assert shape.linear == sum(module.weight.numel() for module in layers) - routers
    cache = LanguageModel(model).new_cache(256)
    assert shape.kv_bytes_per_token(4) * 256 == cache.nbytes


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


RECURRENT: dict[str, dict[str, Any]] = {
    "Qwen3_5Text": {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 12}
    | {"linear_value_head_dim": 16, "layer_types": ["linear_attention", "linear_attention", "full_attention"]},
    "Lfm2": {"layer_types": ["conv", "full_attention", "conv"], "block_ff_dim": 1000},
    "Lfm2-as-said": {"layer_types": ["conv", "full_attention", "conv"], "block_auto_adjust_ff_dim": False},
    "Lfm2-biased": {"full_attn_idxs": [2], "conv_bias": True, "block_ffn_dim_multiplier": 1.3},
}


@pytest.mark.parametrize("name", RECURRENT)
@pytest.mark.parametrize("tied", [False, True])
def test_counts_of_recurrent_layers_are_those_of_a_real_model(name: str, tied: bool, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    family = name.partition("-")[0]
    sizes: dict[str, Any] = SIZES | RECURRENT[name] | {"tie_word_embeddings": tied}
    if family == "Lfm2":
        sizes["head_dim"] = 16
    config = getattr(transformers, f"{family}Config")(**sizes)
    model = transformers.AutoModelForCausalLM.from_config(config)
    model.config.save_pretrained(tmp_path)
    shape = Shape.of(tmp_path)
    assert shape.parameters == sum(weight.numel() for weight in model.parameters())
    assert shape.attending == 1
    assert shape.kv_bytes_per_token() == 2 * 2 * 2 * shape.head_dim


def test_a_prediction_layer_and_states_are_counted() -> None:
    transformers = pytest.importorskip("transformers")
    from tests.helpers.published_mtp import prediction_layer

    preset = load_preset("qwen3.5-9b-mtp")
    net = transformers.AutoModelForCausalLM.from_config(
        transformers.Qwen3_5TextConfig(**SIZES, **RECURRENT["Qwen3_5Text"])
    )
    layer = prediction_layer(net)
    tiny = Shape.from_config(net.config.to_dict())
    assert tiny.prediction_parameters == sum(weight.numel() for weight in layer.parameters())
    plain, shape = changed(preset, kind="ngram", of=()), preset.target.shape
    assert shape is not None
    without, with_ = estimated(plain), estimated(preset)
    assert with_.draft_weights - without.draft_weights == 2 * shape.prediction_parameters
    working = preset.retrieval.size + preset.window.context
    assert with_.draft_kv - without.draft_kv == 2 * 4 * 256 * 2 * working  # one layer's keys and values
    short, long = estimated(preset, context=4096), estimated(preset, context=8192)
    assert long.kv - short.kv == 4096 * 8 * 2 * 4 * 256 * 2  # of 8 of 32 layers
    assert shape.state_bytes == 24 * 4 * (32 * 128 * 128 + 8192 * 4)
    target = preset.target.model_copy(update={"shape": shape.model_copy(update={"state": 0})})
    without_states = preset.model_copy(update={"target": target})
    assert short.workspace - estimated(without_states, context=4096).workspace == 4 * shape.state_bytes


def test_the_shapes_of_recurrent_presets_are_those_of_their_configurations() -> None:
    delta_net = {"linear_num_key_heads": 16, "linear_key_head_dim": 128, "linear_value_head_dim": 128}
    text = {"num_key_value_heads": 4, "head_dim": 256, "vocab_size": 248320, "model_type": "qwen3_5_text", **delta_net}
    qwen = {
        "qwen3.5-4b-mtp": (32, 2560, 16, 9216, 32, True),
        "qwen3.5-9b-mtp": (32, 4096, 16, 12288, 32, False),
        "qwen3.5-27b-mtp": (64, 5120, 24, 17408, 48, False),
        "qwen3.8-27b-mtp": (64, 5120, 24, 17408, 48, False),
    }
    for name, (layers, hidden, heads, intermediate, values, tied) in qwen.items():
        sizes = {"num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads}
        sizes |= {"intermediate_size": intermediate, "linear_num_value_heads": values, **text}
        config = {"model_type": "qwen3_5", "text_config": sizes, "vision_config": {}, "tie_word_embeddings": tied}
        assert load_preset(name).target.shape == Shape.from_config(config)
    lfm = {"model_type": "lfm2", "hidden_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 8}
    lfm |= {"vocab_size": 65536, "conv_L_cache": 3}
    attending = {16: (2, 5, 8, 10, 12, 14), 30: (2, 5, 9, 13, 17, 21, 24, 27)}
    for name, layers, width, adjusted in (("lfm2-1.2b", 16, 12288, True), ("lfm2-2.6b", 30, 10752, False)):
        types = ["full_attention" if layer in attending[layers] else "conv" for layer in range(layers)]
        sizes = {"num_hidden_layers": layers, "block_ff_dim": width, "intermediate_size": width, "layer_types": types}
        shape = Shape.from_config({**lfm, **sizes, "block_auto_adjust_ff_dim": adjusted})
        assert load_preset(name).target.shape == shape


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
    from specextend_cli.runtime.options import Engine

    preset = load_preset("qwen3-8b-eagle3")
    largest = prefill_bytes(preset, 4096)
    assert largest == 4 * prefill_bytes(preset, 1024) > 10**9
    for free, tokens in ((2 * largest, 4096), (2 * largest - 1, 2048), (largest, 2048), (largest - 1, 1024), (0, 1024)):
        monkeypatch.setattr(loading, "free_memory", lambda device, free=free: free)
        assert loading.prefill_step(preset, torch.device("cuda"), Engine()) == tokens
        assert loading.prefill_step(preset, torch.device("cpu"), Engine()) == 1024
