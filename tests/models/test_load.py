from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import save_file

from specextend_cli.engine import native
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.native import Library
from specextend_cli.engine.native import shared_library as native_library
from specextend_cli.engine.packed import can_pack
from specextend_cli.errors import ModelError
from specextend_cli.models.chat_template import render_chat
from specextend_cli.models.checkpoint import read_header
from specextend_cli.models.load import load_model
from specextend_cli.models.presets import list_presets
from specextend_cli.models.shape import Shape
from specextend_cli.models.tokens import load_tokenizer
from tests.engine.tiny_models import ARCHITECTURES, COMMON, make, tiny

from .test_memory import SIZES

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES)).save_pretrained(tmp_path)
    return tmp_path


def test_dtype_and_attention(model: Path) -> None:
    loaded = load_model(model, dtype="float32")
    assert loaded.dtype == torch.float32
    assert loaded.config._attn_implementation == "sdpa"
    assert not loaded.training
    assert load_model(model, dtype=torch.bfloat16).dtype == torch.bfloat16


def test_kernels_of_another_test_are_not_used(library: Library) -> None:
    """Models read packed weights by the kernels that are loaded, and a process cannot unload them."""
    library.load()
    assert native_library.is_loaded()
    assert not native.is_loaded()
    assert not can_pack(torch.device("cpu"), torch.bfloat16)


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_models_are_built_as_transformers_builds_them(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parameters and buffers, those of no file, too."""
    tiny(kind).save_pretrained(tmp_path)
    ours = load_model(tmp_path)
    monkeypatch.setattr("specextend_cli.models.load.SkipInit", nullcontext)
    theirs = load_model(tmp_path)
    for mine, other in (
        (ours.named_parameters(), theirs.named_parameters()),
        (ours.named_buffers(), theirs.named_buffers()),
    ):
        named = dict(other)
        for name, tensor in mine:
            assert torch.equal(tensor, named.pop(name)), name
        assert not named
    tokens = torch.arange(9)[None]
    assert torch.equal(ours(tokens).logits, theirs(tokens).logits)


def test_positions_that_depend_on_the_length_are_refused_once_loaded(tmp_path: Path) -> None:
    rope = {"rope_type": "longrope", "rope_theta": 10000.0, "factor": 2.0, "original_max_position_embeddings": 64}
    rope |= {"long_factor": [2.0] * 8, "short_factor": [1.0] * 8}
    make(transformers.LlamaConfig(**COMMON, rope_parameters=rope)).save_pretrained(tmp_path)
    loaded = load_model(tmp_path)
    with pytest.raises(ModelError) as caught:
        LanguageModel(loaded)
    assert "length" in caught.value.why


def test_quantization_without_its_libraries_says_what_to_install(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specextend_cli.models.load.find_spec", lambda name: None)
    with pytest.raises(ModelError, match="accelerate and bitsandbytes") as caught:
        load_model(model, quantization="nf4")
    assert caught.value.fix == "pip install 'specextend-cli[quantized]'"


def test_quantized_linear_layers_take_what_is_estimated(model: Path) -> None:
    pytest.importorskip("bitsandbytes")
    pytest.importorskip("accelerate")
    loaded = load_model(model, quantization="nf4", dtype=torch.bfloat16)
    assert loaded.dtype == torch.bfloat16
    scales = sum(4 * module.in_features * module.out_features // 64 for module in linears(loaded))
    assert loaded.get_memory_footprint() + scales == pytest.approx(shape_of(model).weight_bytes(2, "nf4"), rel=0.01)


def shape_of(model: Path) -> Shape:
    shape = Shape.of(model)
    assert shape is not None
    return shape


def linears(model: Any) -> list[Any]:
    return [module for module in model.model.layers.modules() if isinstance(module, torch.nn.Linear)]


def test_linear_layers_are_counted(model: Path) -> None:
    count = sum(module.weight.numel() for module in linears(load_model(model)))
    shape = shape_of(model)
    assert shape.linear == count
    assert shape.weight_bytes(2, "nf4") == 2 * (shape.weights - count) + count // 2 + count // 16


@pytest.mark.parametrize("length", [0, 4, 100, -10])
def test_truncated_weights(model: Path, length: int) -> None:
    file = model / "model.safetensors"
    content = file.read_bytes()
    file.write_bytes(content[:length])
    with pytest.raises(ModelError, match="damaged") as caught:
        load_model(model, name="mine")
    assert caught.value.fix == "specextend models rm mine && specextend models pull mine"
    file.write_bytes(content + b"x")
    with pytest.raises(ModelError, match="damaged"):
        read_header(file)


def test_missing_weights_and_tensors(model: Path) -> None:
    from safetensors.torch import load_file

    weights = load_file(model / "model.safetensors")
    weights.pop("model.norm.weight")
    save_file(weights, model / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match="damaged") as caught:
        load_model(model)
    assert "model.norm.weight" in caught.value.why
    (model / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="damaged"):
        load_model(model)


def test_bin_files_load_as_weights_only(model: Path) -> None:
    from safetensors.torch import load_file

    weights = load_file(model / "model.safetensors")
    (model / "model.safetensors").unlink()
    torch.save(weights, model / "pytorch_model.bin")
    loaded = load_model(model, dtype="float32")
    assert torch.equal(loaded.state_dict()["model.norm.weight"], weights["model.norm.weight"])
    torch.save({"evil": Path("x")}, model / "pytorch_model.bin")
    with pytest.raises(ModelError):
        load_model(model)


def test_a_model_that_needs_its_own_code(model: Path) -> None:
    config = json.loads((model / "config.json").read_text())
    config |= {"model_type": "odd", "auto_map": {"AutoModelForCausalLM": "modeling_odd.Odd"}}
    (model / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="cannot load the model"):
        load_model(model)


def test_load_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot read the tokenizer"):
        load_tokenizer(tmp_path)


MESSAGES = [{"role": "system", "content": "Be brief & <b>."}, {"role": "user", "content": "Hello\n {{ x }}"}]
TEMPLATES = [
    "{{ bos_token }}{% for m in messages %}\n  {%- if loop.first %}[{{ m.role | upper }}]{% endif %}\n"
    "{{ m['content'] | trim }}{{ eos_token }}\n{% endfor %}{% if add_generation_prompt %}go:{% endif %}",
    "{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}{{ m | tojson }}{% endfor %}",
    "{{ messages | length }}{{ enable_thinking }}",
    "{{ messages | selectattr('role', 'equalto', 'user') | list | length }}"
    "{{ messages | rejectattr('role', 'equalto', 'user') | map(attribute='content') | join(', ') }}",
]


@pytest.mark.parametrize("template", TEMPLATES)
def test_templates_render_as_in_transformers(tmp_path: Path, template: str) -> None:
    from transformers.utils.chat_template_utils import render_jinja_template

    settings = {"chat_template": template, "bos_token": "<s>", "eos_token": {"content": "</s>"}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    expected, _ = render_jinja_template(
        [MESSAGES],
        chat_template=template,
        add_generation_prompt=True,
        bos_token="<s>",
        eos_token="</s>",
        enable_thinking=False,
    )
    assert render_chat(tmp_path, MESSAGES, options={"enable_thinking": False}) == expected[0]


def test_a_template_in_a_file_of_its_own_comes_first(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": "old"}))
    (tmp_path / "chat_template.jinja").write_text("new")
    assert render_chat(tmp_path, MESSAGES) == "new"
    assert render_chat(tmp_path, MESSAGES, template="mine") == "mine"
    (tmp_path / "chat_template.jinja").unlink()
    named = [{"name": "rag", "template": "rag"}, {"name": "default", "template": "plain"}]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))
    assert render_chat(tmp_path, MESSAGES) == "plain"


def test_a_template_beside_the_tokenizer_of_an_older_wrapper(tmp_path: Path) -> None:
    (tmp_path / "chat_template.json").write_text(json.dumps({"chat_template": "older"}))
    assert render_chat(tmp_path, MESSAGES) == "older"
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": "tokenizer's"}))
    assert render_chat(tmp_path, MESSAGES) == "tokenizer's"
    (tmp_path / "tokenizer_config.json").write_text("{}")
    for content in ("[]", '{"chat_template": 3}', "{", json.dumps({"chat_template": "x" * 1_000_001})):
        (tmp_path / "chat_template.json").write_text(content)
        with pytest.raises(ModelError, match="cannot read the chat template"):
            render_chat(tmp_path, MESSAGES)


def test_templates_that_refuse_or_are_missing(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no chat template"):
        render_chat(tmp_path, MESSAGES)
    with pytest.raises(ModelError, match="refuses the prompt") as caught:
        render_chat(tmp_path, MESSAGES, template="{{ raise_exception('no system role') }}")
    assert caught.value.why == "no system role"
    with pytest.raises(ModelError, match="refuses the prompt"):
        render_chat(tmp_path, MESSAGES, template="{{ messages.__class__.__mro__[1].__subclasses__() }}")


def test_vicuna_template(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>"}))
    preset = next(preset for preset in list_presets() if preset.name == "vicuna-7b-16k")
    rendered = render_chat(tmp_path, MESSAGES, template=preset.prompts.chat_template)
    assert rendered == "<s>Be brief & <b>. USER: Hello\n {{ x }} ASSISTANT:"
