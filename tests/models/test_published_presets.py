"""From a preset's repositories to a summary: each new preset, with random weights in the published layout.

Layout, tensor names, keys, tokenizer and template are the published; drafts change no word.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from specextend_cli.models.presets import list_presets, load_preset
from specextend_cli.models.sources import fetch_pair, is_present
from specextend_cli.runtime.options import Engine
from specextend_cli.summarize.summarizer import Summarizer
from tests.helpers.grid import but_for
from tests.helpers.hub_server import StandInHub
from tests.helpers.published_presets import publish
from tests.summarize.scribe import document
from tests.summarize.tiny_preset import text

UNRANKED = {"qwen3.5-4b-mtp", "qwen3.5-9b-mtp", "qwen3.5-27b-mtp", "qwen3.8-27b-mtp", "lfm2-1.2b", "lfm2-2.6b"}
PRESETS = {preset.name: preset for preset in list_presets() if preset.rank or preset.name in UNRANKED}
QUICK = ["qwen3-4b-4bit-eagle3", "qwen3.5-9b-mtp"]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, home: Path) -> Iterator[StandInHub]:
    with StandInHub() as made:
        made.use(monkeypatch, home)
        yield made


@pytest.mark.parametrize("name", but_for(QUICK, PRESETS))
def test_from_the_hub_to_a_summary(name: str, hub: StandInHub, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    publish(hub, PRESETS[name], tmp_path / "files")
    fetch_pair(load_preset(name), verify=True)
    assert is_present(load_preset(name))
    for repository in hub.repositories.values():
        assert len(repository.fetched) == len(set(repository.fetched)) >= 1  # nothing twice
    texts = []
    for draft in (None, "none"):
        with Summarizer(Engine(model=name, offline=True, draft=draft), cache=False) as summarizer:
            summary = summarizer.summarize(document(text(12)))
        assert draft == "none" or ("mtp" in summary.drafter) == ("mtp" in PRESETS[name].draft.drafters)
        texts.append(summary.text)
    assert texts[0] == texts[1] != ""
