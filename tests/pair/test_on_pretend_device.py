"""The embedded pair on a device that is not the host writes what it writes on the processor."""

from __future__ import annotations

from pathlib import Path

import pytest

from specextend_cli import Engine, Request, Summarizer
from specextend_cli.documents.read import read
from specextend_cli.engine.events import Retrieved
from tests.helpers.pretend_device import PretendDevice

pytestmark = [pytest.mark.pair, pytest.mark.full]
SAMPLE = Path(__file__).parents[2] / "docs" / "samples" / "flood-warning.md"


def test_a_summary_by_the_pair(pretend: PretendDevice, tmp_path: Path) -> None:
    source = tmp_path / "flood.md"
    source.write_text(SAMPLE.read_text(encoding="utf-8")[:900], encoding="utf-8")
    texts = []
    for device in ("cuda", "cpu"):
        with Summarizer(Engine(device=device, dtype="float32", compile=False), batch=1, cache=False) as made:
            window = made.preset.window.model_copy(update={"chunk_summary_tokens": 12, "summary_tokens": 12})
            made.preset = made.preset.model_copy(update={"window": window})
            events = list(made.run(read(source), Request(mode="abstractive")))
        texts.append(events[-1].summary.text)
        assert any(isinstance(event, Retrieved) for event in events)
    assert texts[0] == texts[1]
    assert len(texts[0].split()) > 5
