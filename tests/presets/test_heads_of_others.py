"""Directories as speculators and SpecForge leave them after training are what `--draft-head` takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from specextend_cli.engine.lm import LanguageModel
from specextend_cli.errors import ModelError
from specextend_cli.models.heads import load_head
from specextend_cli.models.presets import read_preset
from specextend_cli.runtime.loading import with_head
from tests.engine.tiny_models import tiny
from tests.helpers.published_heads import specforge, specforge_31, speculators, speculators_window
from tests.summarize import tiny_preset


@pytest.mark.parametrize("layout", [speculators, speculators_window, specforge, specforge_31])
def test_a_trained_checkpoint_is_a_draft(layout, tmp_path: Path) -> None:
    """Beside the weights is what resumes the training, which is not read; the best checkpoint is a link."""
    directory, best = tmp_path / "checkpoints" / "4", tmp_path / "checkpoints" / "checkpoint_best"
    directory.mkdir(parents=True)
    best.symlink_to("4")
    written = layout(directory)
    for name in ("optimizer_state_dict.pt", "scheduler_state_dict.pt", "training_state.pt"):
        (directory / name).write_bytes(b"\x80no pickle that anybody should open")
    head = load_head(best, LanguageModel(tiny())).head
    assert torch.equal(head.vocabulary, written.vocabulary)
    assert torch.equal(head.fc.weight, written.fc.weight)
    changed = with_head(read_preset(tiny_preset.write(tmp_path / "tiny.toml")), best)
    assert changed.draft.of == ("eagle", "ngram")
    assert changed.draft.source is not None


def test_another_kind_of_draft_model_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    head = tmp_path / "head"
    head.mkdir()
    speculators(head)
    said = json.loads((head / "config.json").read_text())
    said |= {"speculators_model_type": "dflash", "architectures": ["DFlashDraftModel"]}
    (head / "config.json").write_text(json.dumps(said))
    with pytest.raises(ModelError, match="cannot be used") as caught:
        with_head(read_preset(tiny_preset.write(tmp_path / "tiny.toml")), head)
    assert "dflash" in caught.value.why
    assert "EAGLE-3 layout" in caught.value.fix
