"""A target that also reads images, from the command line: its text model writes what it writes alone."""

from __future__ import annotations

import json
import shutil

from safetensors.numpy import load_file, save_file

from tests.summarize import tiny_preset

PARTS = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n'}}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def wrap(folder):
    """Make the Llama in `folder` the text model of a LLaVA, in the layout of the Hub's files."""
    import numpy as np

    weights = {f"language_model.{name}": tensor for name, tensor in load_file(folder / "model.safetensors").items()}
    tower = {
        f"vision_tower.vision_model.encoder.layers.{n}.mlp.fc1.weight": np.ones((8, 8), np.float32) for n in (0, 1)
    }
    save_file({**weights, **tower}, folder / "model.safetensors", {"format": "pt"})
    text = json.loads((folder / "config.json").read_text())
    config = {"model_type": "llava", "text_config": text, "vision_config": {"model_type": "clip_vision_model"}}
    config |= {"dtype": "float32", "architectures": ["LlavaForConditionalGeneration"]}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>"}))
    (folder / "chat_template.json").write_text(json.dumps({"chat_template": PARTS}))


def test_a_document_is_summarized_by_the_text_model_of_another(cli, presets, tmp_path) -> None:
    folder = presets["one"].parent
    for part in ("target", "draft"):
        shutil.copytree(folder / part, tmp_path / part)
    wrap(tmp_path / "target")
    own = tiny_preset.write(tmp_path / "one.toml")
    document = tmp_path / "harbour.txt"
    document.write_text(tiny_preset.text(12))
    plan = cli("plan", document, "-m", own)
    assert plan.returncode == 0, plan.stderr
    assert plan.stdout.replace(str(own), "") == cli("plan", document, "-m", presets["one"]).stdout.replace(
        str(presets["one"]), ""
    )
    arguments = ("--mode", "abstractive", "--json", "--no-compile", "--no-cache")
    wrapped = cli("summarize", document, "-m", own, *arguments)
    assert wrapped.returncode == 0, wrapped.stderr
    alone = cli("summarize", document, "-m", presets["one"], *arguments)
    assert json.loads(wrapped.stdout)["text"] == json.loads(alone.stdout)["text"] != ""
