"""`specextend presets list`: every pair, with what decides whether one can use it."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import transformers
from rich.console import Console

from specextend_cli.cli import presets
from specextend_cli.cli.main import run
from specextend_cli.models import memory
from specextend_cli.models.choice import Machine
from specextend_cli.models.presets import list_presets, to_toml, user_presets
from specextend_cli.models.source_kinds import LocalSource
from specextend_cli.runtime import machine as module
from specextend_cli.ui.tables import preset_table
from tests.engine import tiny_models

PRESETS = {preset.name: preset for preset in list_presets()}


@pytest.fixture(params=[8, 24, 80])
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Bytes that are free on a machine."""
    monkeypatch.setattr(module, "this_machine", lambda device="auto": Machine("cpu", request.param * 10**9))
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
        assert ("too big " in line) == (row["fits"] is False)
        assert row["licence"] in line
        assert (", gated" in line) == row["gated"]
        assert line.split("\t")[5] == ("yes" if row["tested"] else "no")
        assert row["tested"] == (row["name"] == "smollm2-135m")
    assert [line.split("\t")[0] for line in table.splitlines()[1:]] == [row["name"] for row in rows]


def test_what_runs_here_comes_first_then_by_rank(machine: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["presets", "list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    groups = [(not row["fits"], row["fits"] and row["lacks_gpu"]) for row in rows]
    assert groups == sorted(groups)
    for group in set(groups):
        ranks = [row["rank"] or 99 for row, other in zip(rows, groups, strict=True) if other == group]
        assert ranks == sorted(ranks)
    assert rows[0]["rank"] is not None
    assert "4bit" not in rows[0]["name"]  # bitsandbytes' four bits need CUDA
    assert run(["presets", "list"]) == 0
    for line, row in zip(capsys.readouterr().out.splitlines()[1:], rows, strict=True):
        assert ("\ton GPUs " in line) == (row["fits"] and row["lacks_gpu"])


def test_on_a_gpu_nothing_lacks_one() -> None:
    assert not any(presets.row(preset, Machine("cuda", 80 * 10**9)).lacks_gpu for preset in PRESETS.values())


@pytest.mark.parametrize("width", [80, 100, 160])
def test_a_terminal_holds_every_line_and_the_choice_is_marked(width: int, machine: int) -> None:
    made = preset_table(
        [presets.row(preset, Machine("cpu", machine)) for preset in PRESETS.values()], width=width, chosen="qwen3-1.7b"
    )
    console = Console(width=width, file=io.StringIO(), color_system=None)
    with console.capture() as captured:
        console.print(made)
    lines = captured.get().splitlines()
    assert len(lines) == 2 + len(PRESETS)  # none is folded
    assert max(map(len, lines)) <= width
    assert [line.split()[1] for line in lines if line.startswith("› ")] == ["qwen3-1.7b"]
    assert ("invents" in lines[0]) == (width >= 100)


def test_models_list_has_what_is_on_disk(cli, tmp_path: Path) -> None:
    empty = cli("models", "list")
    assert (empty.returncode, empty.stdout) == (0, "")
    assert "specextend models pull NAME" in empty.stderr
    assert json.loads(cli("models", "list", "--json").stdout) == []
    target = tmp_path / "target"
    target.mkdir()
    transformers.LlamaForCausalLM(transformers.LlamaConfig(**tiny_models.COMMON)).save_pretrained(target)
    (target / "tokenizer.json").write_text("{}")
    user_presets().mkdir(parents=True)
    for name, path in (("whole", target), ("gone", tmp_path / "nowhere")):
        source = LocalSource(kind="local", path=path)
        preset = PRESETS["qwen3-0.6b"]
        own = preset.model_copy(update={"target": preset.target.model_copy(update={"source": source})})
        (user_presets() / f"{name}.toml").write_text(to_toml(own))
    listed = cli("models", "list")
    assert [line.split("\t")[0] for line in listed.stdout.splitlines()[1:]] == ["whole"]
    [row] = json.loads(cli("models", "list", "--json").stdout)
    assert row["name"] == "whole"
    assert row["disk"] == sum(file.stat().st_size for file in target.iterdir())
