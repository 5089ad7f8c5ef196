"""`specextend presets list`: every pair, with what decides whether one can use it."""

from __future__ import annotations

import json

import pytest

from specextend_cli.cli.main import run
from specextend_cli.models import memory
from specextend_cli.models.presets import list_presets

PRESETS = {preset.name: preset for preset in list_presets()}


@pytest.fixture(params=[8, 24, 80])
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Bytes of a machine's memory."""
    monkeypatch.setattr(memory, "device_memory", lambda: request.param * 10**9)
    return request.param * 10**9


def test_each_says_memory_licence_gating_and_fit(machine: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["presets", "list", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows.keys() == PRESETS.keys()
    assert len(rows) >= 15
    for name, row in rows.items():
        assert (row["licence"], row["gated"]) == (PRESETS[name].licence, PRESETS[name].gated)
        assert row["licence"]
        assert row["memory"] > 10**8
        small = row["memory"] <= memory.HEADROOM * machine
        assert row["fits"] == (None if small and not row["complete"] else small)  # its head is of unknown size
    assert any(row["gated"] for row in rows.values())
    assert rows["smollm2-135m"]["fits"]


def test_the_table_says_so_in_words(
    machine: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    assert run(["presets", "list"]) == 0
    table = capsys.readouterr().out
    assert run(["presets", "list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    for row in rows:
        (line,) = [line for line in table.splitlines() if line.split()[:1] == [row["name"]]]
        assert f"{row['memory'] / 1e9:.1f} GB" in line or f"{row['memory'] / 1e6:.0f} MB" in line
        assert ("over " in line) == (not row["complete"])
        assert (" too big" in line) == (row["fits"] is False)
        assert row["licence"] in line
        assert (", gated" in line) == row["gated"]
        assert ("never loaded here" in line) == (not row["tested"]) == (row["name"] != "smollm2-135m")
