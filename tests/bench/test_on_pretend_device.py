"""The benchmark on a device: its methods by CUDA graphs."""

from __future__ import annotations

from pathlib import Path

import pytest

from specextend_cli.bench import experiments, prompts
from specextend_cli.bench.prompts import Source
from specextend_cli.bench.results import Benchmark, Measured
from specextend_cli.bench.session import Options
from specextend_cli.bench.statistics import Measurements
from specextend_cli.summarize.events import Stage
from tests.helpers.graphs_on_pretend_device import by_graphs
from tests.helpers.pretend_device import PretendDevice


def test_its_methods_replay_what_was_captured_at_load(
    presets: dict[str, Path], home: Path, pretend: PretendDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gated and on every step, of two lengths; every text is plain decoding's."""
    short = tuple(Source(source.name, source.text[:6_000]) for source in prompts.builtin()[:2])
    monkeypatch.setattr(prompts, "builtin", lambda: short)
    capture, at_load = by_graphs(monkeypatch), set[int]()
    options = Options(
        model=presets["one"],
        lengths=(192, 256),
        docs=1,
        tokens=6,
        methods=("plain", "ngram", "self", "lm", "specextend", "standard"),
        device="cuda",
        dtype="float32",
        offline=True,
    )
    for event in experiments.run(options):
        if isinstance(event, Measured) or (isinstance(event, Stage) and event.total):  # a prompt is read, or was
            at_load.add(capture.captures)
    assert isinstance(event, Benchmark)
    assert event.wrong == ()
    found = Measurements(event.records).rows
    assert {(row.equal, row.runs) for row in found} == {(1, 1)}
    assert len(found) == 2 * 6
    assert at_load == {capture.captures}
    assert capture.replays > 2 * 6 * 4
