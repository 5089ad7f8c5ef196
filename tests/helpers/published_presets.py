"""Presets as their owners publish them, on a Hub that stands in for the real one."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from specextend_cli.models.preset import Preset
from specextend_cli.models.presets import to_toml, user_presets
from specextend_cli.models.source_kinds import HubFileSource, HubSource
from tests.helpers import gguf_files
from tests.helpers.gguf_writer import CHAT
from tests.helpers.hub_server import COMMIT, StandInHub
from tests.helpers.preset_models import LAYOUTS, found, save_model
from tests.summarize import tiny_preset

_THINKS = "{% if enable_thinking is not false %}{{ raise_exception('it would think') }}{% endif %}" + CHAT
_GGUF = {  # family, pre-tokenizer, template, kinds of matrices
    "qwen3-0.6b": ("qwen3", "qwen2", _THINKS, gguf_files.Kind.Q8_0),
    "qwen3-1.7b": ("qwen3-wide-heads", "qwen2", _THINKS, gguf_files.q4_k_m(2)),
    "smollm3-3b": ("smollm3", "llama-bpe", _THINKS, gguf_files.q4_k_m(5)),
    "granite-4.0-micro": ("granite", "dbrx", CHAT, gguf_files.q4_k_m(2)),
}


def _gguf_of(preset: Preset, folder: Path) -> bytes:
    name, pre, template, kind = _GGUF[preset.name]
    tokenizer = tiny_preset.tokenizer()
    model = gguf_files.make(name, tokenizer.get_vocab_size())
    model.config.max_position_embeddings = 40960
    return gguf_files.write(folder / "tiny.gguf", name, model, tokenizer, kind, pre=pre, template=template).read_bytes()


def publish(hub: StandInHub, preset: Preset, folder: Path) -> None:
    """The preset's repositories with random weights of a small size, in the published layout.

    The user's own preset of its name has what is pinned or quantized otherwise, in float32.
    """
    target, draft = preset.target, preset.draft.source
    if isinstance(target.source, HubFileSource):
        data = _gguf_of(preset, folder)
        hub.publish(target.source.repo, {target.source.file: data}, commit=target.source.revision or COMMIT)
        pinned = {"file_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        changed = {"source": target.source.model_copy(update=pinned)}
    else:
        assert isinstance(target.source, HubSource)
        save_model(folder / "target", target.source, layers=3, seed=0)
        template = CHAT if preset.name.startswith(("qwen3-30b-a3b-2507", "lfm2-")) else _THINKS
        settings = json.loads((folder / "target" / "tokenizer_config.json").read_text())
        (folder / "target" / "tokenizer_config.json").write_text(json.dumps({**settings, "chat_template": template}))
        hub.publish_folder(target.source.repo, folder / "target")
        changed = {"quantization": "none", "shape": None}  # bitsandbytes may not be installed, and the sizes are others
    if isinstance(draft, HubSource):
        (folder / "head").mkdir()
        found(LAYOUTS, draft)(folder / "head", tiny_preset.tokenizer().get_vocab_size())
        hub.publish_folder(draft.repo, folder / "head")
    own = preset.model_copy(
        update={
            "target": target.model_copy(update={**changed, "dtype": "float32"}),
            "window": preset.window.model_copy(update={"summary_tokens": 12}),
        }
    )
    user_presets().mkdir(parents=True)
    (user_presets() / f"{preset.name}.toml").write_text(to_toml(own))
