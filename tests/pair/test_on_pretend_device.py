"""The embedded pair on a device that is not the host writes what it writes on the processor."""

from __future__ import annotations

from pathlib import Path

import pytest

from specextend_cli import Summarizer
from specextend_cli.documents.read import read
from specextend_cli.engine.events import Retrieved
from tests.helpers.flat_options import flat_options
from tests.helpers.pretend_device import PretendDevice

pytestmark = [pytest.mark.pair, pytest.mark.full]
SAMPLE = Path(__file__).parents[2] / "docs" / "samples" / "flood-warning.md"


def test_a_summary_by_the_pair(pretend: PretendDevice, tmp_path: Path) -> None:
    source = tmp_path / "flood.md"
    source.write_text(SAMPLE.read_text(encoding="utf-8")[:1200], encoding="utf-8")
    texts = []
    for device in ("cuda", "cpu"):
        options = flat_options(
            device=device, dtype="float32", mode="abstractive", max_tokens=12, cache=False, compile=False, batch=1
        )
        with Summarizer(options) as made:
            events = list(made.run(read(source)))
        texts.append(events[-1].summary.text)
        assert any(isinstance(event, Retrieved) for event in events)
    assert texts[0] == texts[1]
    assert len(texts[0].split()) > 5
