"""From `models pull` to a printed summary: each new preset, its repositories on a stand-in for the Hub.

The files have random weights and a small size; layout, tensor names, keys, tokenizer and template are the published.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from specextend_cli.models.preset import Preset
from specextend_cli.models.presets import list_presets, to_toml, user_presets
from specextend_cli.models.source_kinds import HubFileSource, HubSource
from tests.helpers import gguf_files
from tests.helpers.gguf_writer import CHAT
from tests.helpers.grid import but_for
from tests.helpers.hub_server import COMMIT, StandInHub
from tests.helpers.preset_models import LAYOUTS, found, save_model
from tests.summarize import tiny_preset

UNRANKED = {"qwen3.5-4b-mtp", "qwen3.5-9b-mtp", "qwen3.5-27b-mtp", "qwen3.8-27b-mtp", "lfm2-1.2b", "lfm2-2.6b"}
PRESETS = {preset.name: preset for preset in list_presets() if preset.rank or preset.name in UNRANKED}
THINKS = "{% if enable_thinking is not false %}{{ raise_exception('it would think') }}{% endif %}" + CHAT
GGUF = {  # family, pre-tokenizer, template, kinds of matrices
    "qwen3-0.6b": ("qwen3", "qwen2", THINKS, gguf_files.Kind.Q8_0),
    "qwen3-1.7b": ("qwen3-wide-heads", "qwen2", THINKS, gguf_files.q4_k_m(2)),
    "smollm3-3b": ("smollm3", "llama-bpe", THINKS, gguf_files.q4_k_m(5)),
    "granite-4.0-micro": ("granite", "dbrx", CHAT, gguf_files.q4_k_m(2)),
}


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch, home: Path):
    with StandInHub() as hub:
        hub.use(monkeypatch, home)
        yield hub


@pytest.fixture
def document(tmp_path: Path) -> Path:
    file = tmp_path / "harbour.txt"
    file.write_text(tiny_preset.text(12))
    return file


def gguf_of(preset: Preset, folder: Path) -> bytes:
    name, pre, template, kind = GGUF[preset.name]
    tokenizer = tiny_preset.tokenizer()
    model = gguf_files.make(name, tokenizer.get_vocab_size())
    model.config.max_position_embeddings = 40960
    return gguf_files.write(folder / "tiny.gguf", name, model, tokenizer, kind, pre=pre, template=template).read_bytes()


def publish(hub: StandInHub, preset: Preset, folder: Path) -> None:
    """The preset's repositories; where its file is pinned or quantized, the preset is replaced by the user's own."""
    target, draft = preset.target, preset.draft.source
    if isinstance(target.source, HubFileSource):
        data = gguf_of(preset, folder)
        hub.publish(target.source.repo, {target.source.file: data}, commit=target.source.revision or COMMIT)
        pinned = {"file_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        changed = target.model_copy(update={"source": target.source.model_copy(update=pinned)})
    else:
        assert isinstance(target.source, HubSource)
        assert target.shape is not None
        save_model(folder / "target", target.source, target.shape, layers=3, seed=0)
        template = CHAT if preset.name.startswith(("qwen3-30b-a3b-2507", "lfm2-")) else THINKS
        settings = json.loads((folder / "target" / "tokenizer_config.json").read_text())
        (folder / "target" / "tokenizer_config.json").write_text(json.dumps({**settings, "chat_template": template}))
        hub.publish_folder(target.source.repo, folder / "target")
        changed = target.model_copy(update={"quantization": "none"})  # bitsandbytes may not be installed
    if isinstance(draft, HubSource):
        (folder / "head").mkdir()
        found(LAYOUTS, draft)(folder / "head", tiny_preset.tokenizer().get_vocab_size())
        hub.publish_folder(draft.repo, folder / "head")
    if changed != target:
        user_presets().mkdir(parents=True)
        own = to_toml(preset.model_copy(update={"target": changed}))
        (user_presets() / f"{preset.name}.toml").write_text(own)


QUICK = ["qwen3-1.7b", "smollm3-3b", "qwen3-30b-a3b-2507-eagle3", "qwen3-4b-4bit-eagle3", "qwen3.5-9b-mtp", "lfm2-1.2b"]


@pytest.mark.parametrize("name", but_for(QUICK, PRESETS))
def test_from_the_hub_to_a_summary(name: str, cli, stand_in: StandInHub, document: Path, tmp_path: Path) -> None:
    preset = PRESETS[name]
    publish(stand_in, preset, tmp_path)
    pulled = cli("models", "pull", name)
    assert pulled.returncode == 0, pulled.stderr
    assert f"{name} is ready" in pulled.stderr
    for repository in stand_in.repositories.values():
        assert len(repository.fetched) == len(set(repository.fetched)) >= 1  # nothing twice
    arguments = (document, "-m", name, "--json", "--max-tokens", 12, "--no-compile", "--dtype", "float32", "--no-cache")
    drafted = cli("summarize", *arguments, "--offline")
    assert drafted.returncode == 0, drafted.stderr
    summary = json.loads(drafted.stdout)
    assert summary["preset"] == name
    assert summary["text"].strip()
    assert ("mtp" in summary["drafter"]) == ("mtp" in preset.draft.drafters)
    plain = cli("summarize", *arguments, "--offline", "--no-spec")
    assert json.loads(plain.stdout)["text"] == summary["text"]
    removed = cli("models", "rm", name)
    assert removed.returncode == 0, removed.stderr
    assert cli("models", "show", name, "--json").stdout.count('"path": null') == len(preset.sources)


def test_what_is_missing_is_said(
    cli, stand_in: StandInHub, document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gated, offline, and wrong bytes: exit code 4 and the command to run; nothing half-fetched is used."""
    preset = PRESETS["qwen3-0.6b"]
    publish(stand_in, preset, tmp_path)
    offline = cli("summarize", document, "-m", preset.name, "--offline")
    assert offline.returncode == 4
    assert f"specextend models pull {preset.name}" in offline.stderr
    monkeypatch.delenv("HF_HUB_OFFLINE")  # which --offline sets
    (repository,) = stand_in.repositories.values()
    repository.gated = True
    gated = cli("models", "pull", preset.name)
    assert gated.returncode == 4
    assert "is gated" in gated.stderr
    repository.gated, repository.wrong_bytes = False, True
    wrong = cli("models", "pull", preset.name)
    assert wrong.returncode == 4
    assert "is not the file it should be; it was deleted" in " ".join(wrong.stderr.split())
    assert cli("models", "rm", preset.name).returncode == 4  # nothing is left
    repository.wrong_bytes = False
    assert cli("models", "pull", preset.name).returncode == 0
