"""Drafters by name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from specextend_cli.engine.drafters.ngram_table import NgramTable
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.registry import DRAFTERS
from specextend_cli.engine.target import Target
from specextend_cli.models.presets import load_preset
from specextend_cli.runtime import loading
from specextend_cli.runtime.options import Engine
from tests.engine.tiny_models import by_generate, prompt, small_draft, tiny
from tests.helpers.decoding import NEW, run, small


@pytest.mark.parametrize("name", ["none", "ngram", "table", "self", "lm", "blend"])
def test_a_drafter_by_name_is_lossless(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(loading, "load_table", lambda directory, vocabulary: NgramTable({}, [], []))
    monkeypatch.setattr("specextend_cli.models.tokens.check_token_ids", lambda *given: None)
    preset = load_preset("smollm2-135m")
    draft = preset.draft.model_copy(update={"of": ("ngram", "self" if name == "blend" else name)})
    target, retrieval = Target(LanguageModel(tiny())), small("retrieval")
    drafter = loading.drafter_of(
        preset.model_copy(update={"draft": draft}),
        Engine(draft=name),
        target,
        retrieval,
        Path("draft"),
        lambda *given: LanguageModel(small_draft()),
    )
    assert drafter.name == name
    assert run(target, drafter, prompt(), retrieval)[0] == by_generate(NEW)


def test_the_registry_is_imported_without_torch() -> None:
    code = "import sys; from specextend_cli.engine.registry import DRAFTERS; print('torch' in sys.modules, *DRAFTERS)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert out == ["False", *DRAFTERS]
