from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
import transformers
from transformers.utils.chat_template_utils import render_jinja_template

from specextend_cli.errors import ModelError
from specextend_cli.models.chat_template import render_chat
from specextend_cli.models.load import load_model
from specextend_cli.models.presets import load_preset
from specextend_cli.models.shape import Shape
from tests.engine.tiny_models import ARCHITECTURES, tiny

from .test_memory import SIZES


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


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_models_are_built_as_transformers_builds_them(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parameters and buffers, those of no file, too."""
    tiny(kind).save_pretrained(tmp_path)
    ours = load_model(tmp_path)
    monkeypatch.setattr("specextend_cli.models.load.SkipInit", nullcontext)
    theirs = load_model(tmp_path)
    mine, other = ({**dict(model.named_parameters()), **dict(model.named_buffers())} for model in (ours, theirs))
    assert mine.keys() == other.keys()
    for name, tensor in mine.items():
        assert torch.equal(tensor, other[name]), name
    tokens = torch.arange(9)[None]
    assert torch.equal(ours(tokens).logits, theirs(tokens).logits)


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
    linears = [module for module in loaded.model.layers.modules() if isinstance(module, torch.nn.Linear)]
    scales = sum(4 * module.in_features * module.out_features // 64 for module in linears)
    assert loaded.get_memory_footprint() + scales == pytest.approx(Shape.of(model).weight_bytes(2, "nf4"), rel=0.01)


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


NAMED = [{"name": "rag", "template": "rag"}, {"name": "default", "template": "plain"}]
FILES: list[tuple[dict[str, str], str | None, str]] = [
    (
        {"tokenizer_config.json": json.dumps({"chat_template": "tokenizer's"}), "chat_template.jinja": "new"},
        None,
        "new",
    ),
    ({"chat_template.jinja": "new"}, "mine", "mine"),
    ({"tokenizer_config.json": json.dumps({"chat_template": NAMED})}, None, "plain"),
    ({"chat_template.json": json.dumps({"chat_template": "an older wrapper's"})}, None, "an older wrapper's"),
    (
        {name: json.dumps({"chat_template": name}) for name in ("chat_template.json", "tokenizer_config.json")},
        None,
        "tokenizer_config.json",
    ),
]


@pytest.mark.parametrize(("files", "template", "rendered"), FILES)
def test_which_template_is_taken(files: dict[str, str], template: str | None, rendered: str, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert render_chat(tmp_path, MESSAGES, template=template) == rendered


@pytest.mark.parametrize(
    ("template", "what", "why"),
    [
        (None, "no chat template", "base models"),
        ("{{ raise_exception('no system role') }}", "refuses the prompt", "no system role"),
        ("{{ raise_exception(messages[0].content) }}", "refuses the prompt", MESSAGES[0]["content"]),  # not as parts
    ],
)
def test_templates_that_refuse_or_are_missing(template: str | None, what: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=what) as caught:
        render_chat(tmp_path, MESSAGES, template=template)
    assert caught.value.why.startswith(why)


def test_vicuna_template(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>"}))
    rendered = render_chat(tmp_path, MESSAGES, template=load_preset("vicuna-7b-16k").prompts.chat_template)
    assert rendered == "<s>Be brief & <b>. USER: Hello\n {{ x }} ASSISTANT:"
