"""Tuning: candidates, halving, documents that had no part in the choice, and a preset that can be read back."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from specextend_cli.bench import experiments
from specextend_cli.bench.experiments import tune as tuning
from specextend_cli.bench.experiments.study import Measurements, Setting
from specextend_cli.bench.experiments.tune import AGAIN, OWN, Candidate
from specextend_cli.bench.machine import describe
from specextend_cli.bench.measure import Decoding
from specextend_cli.bench.texts import Source
from specextend_cli.bench.workloads import summaries
from specextend_cli.engine.config import Sampling
from specextend_cli.errors import UsageError
from specextend_cli.models.presets import check_name, list_presets, load_preset, to_toml
from specextend_cli.runtime.loading_thread import result_of
from tests.summarize.tiny_preset import text


@pytest.fixture
def setting(models) -> Setting:
    sources = [Source(name, text(50, start=n * 7)) for n, name in enumerate("abcd")]
    prompts, _ = summaries(sources, models.prompter, [160], docs=4)
    return Setting(models, prompts, Decoding(Sampling(), 4, frozenset(), 128), 1, 0, describe(models.device))


def timed(setting: Setting, monkeypatch: pytest.MonkeyPatch, seconds) -> None:
    """Every run takes `seconds(method, document)` by a clock of ours."""
    measure = Setting.measure

    def fake(self, methods, prompts=None, **options):
        found = yield from measure(self, methods, prompts, **options)
        records = tuple(replace(r, decode_seconds=seconds(r.method, r.document)) for r in found.records)
        return Measurements(replace(found.benchmark, records=records))

    monkeypatch.setattr(Setting, "measure", fake)


def tune(setting: Setting, *, explain: bool = False) -> SimpleNamespace:
    setting.explain = explain
    found = result_of(experiments.run("tune", setting))
    return SimpleNamespace(experiment=found, preset=setting.better)


def test_a_faster_candidate_is_found_checked_elsewhere_and_explained(setting: Setting, monkeypatch) -> None:
    fast = str(tuning.draw(setting, tuning.own_settings(setting))[5])
    seen: dict[str, set[str]] = {}

    def seconds(method: str, document: str) -> float:
        seen.setdefault(document, set()).add(method)
        return {"plain": 1.0, fast: 0.25, "best": 0.25, OWN: 0.5, AGAIN: 0.5}.get(method, 0.6)

    timed(setting, monkeypatch, seconds)
    found = tune(setting, explain=True)
    assert found.preset is not None
    chosen = next(c for c in tuning.draw(setting, tuning.own_settings(setting)) if str(c) == fast)
    assert found.preset.retrieval.chunk == chosen.chunk
    assert found.preset.retrieval.top_k == chosen.top_k
    assert (found.preset.tree.nodes, found.preset.tree.depth) == (chosen.nodes, chosen.depth)
    held_out, halving = found.experiment.tables
    assert {row[0] for row in halving.rows} == {1, 2}
    assert len([row for row in halving.rows if row[0] == 2]) < len([row for row in halving.rows if row[0] == 1]) == 13
    assert [row[0] for row in held_out.rows][:3] == [OWN, AGAIN, "best"]
    assert {row[0] for row in held_out.rows[3:]} <= {
        f"best, own {name}" for name in ("chunk", "top_k", "nodes", "depth")
    }
    assert held_out.rows[1][3] == "1.00×"
    assert held_out.rows[2][2] == pytest.approx(4.0)
    assert held_out.rows[2][3] == "2.00×"
    # The documents it was chosen on are not those it was checked on.
    chosen_on = {document for document, methods in seen.items() if fast in methods}
    checked_on = {document for document, methods in seen.items() if "best" in methods}
    assert len(chosen_on) == len(checked_on) == 2
    assert not chosen_on & checked_on


def test_a_winner_by_chance_does_not_replace_the_preset(setting: Setting, monkeypatch) -> None:
    def seconds(method: str, document: str) -> float:
        return {"plain": 1.0, OWN: 0.5, AGAIN: 0.5, "best": 0.55}.get(method, 0.4)  # faster where it was chosen alone

    timed(setting, monkeypatch, seconds)
    found = tune(setting)
    assert found.preset is None
    assert "nothing was faster" in found.experiment.tables[0].note


def test_a_lucky_moment_does_not_replace_the_preset(setting: Setting, monkeypatch) -> None:
    """No settings differ, but the machine is slow in every second moment: in one too many of the preset's."""
    moments = {(document, name): itertools.count(name == OWN) for document in "abcd" for name in (OWN, AGAIN, "best")}

    def seconds(method: str, document: str) -> float:
        if (document, method) in moments:
            return 1.5 if next(moments[document, method]) % 2 else 0.5
        return {"plain": 1.0}.get(method, 0.4)

    timed(setting, monkeypatch, seconds)
    found = tune(setting)
    assert found.preset is None
    table = found.experiment.tables[0]
    assert [row[3] for row in table.rows] == ["1.00×", "3.00×", "3.00×"]
    assert "differ as much from themselves" in table.note


def test_where_nothing_is_faster_the_preset_stands(setting: Setting, monkeypatch) -> None:
    timed(setting, monkeypatch, lambda method, document: {"plain": 1.0, OWN: 0.5}.get(method, 0.8))
    found = tune(setting, explain=True)
    assert found.preset is None
    assert [row[0] for row in found.experiment.tables[0].rows] == [OWN]


def test_candidates(setting: Setting) -> None:
    own = tuning.own_settings(setting)
    drawn = tuning.draw(setting, own)
    assert len(set(drawn)) == tuning.CANDIDATES
    assert own not in drawn
    assert drawn == tuning.draw(setting, own)
    assert all(candidate.depth < candidate.nodes for candidate in drawn)
    draft = setting.models.preset.draft.model_copy(update={"kind": "ngram", "of": (), "source": None})
    setting.models.preset = setting.models.preset.model_copy(update={"draft": draft})
    alike = tuning.draw(setting, own)
    assert {(candidate.chunk, candidate.top_k) for candidate in alike} == {(own.chunk, own.top_k)}


def test_one_document_is_not_enough(setting: Setting) -> None:
    with pytest.raises(UsageError, match="two documents"):
        tuning.split(setting.prompts[:1])


def test_every_preset_survives_being_written(tmp_path: Path, presets: dict[str, Path]) -> None:
    for preset in [*list_presets(), load_preset(presets["three"])]:
        path = tmp_path / f"{preset.name}.toml"
        path.write_text(to_toml(preset, preset.name))
        assert load_preset(path) == preset


def test_a_tuned_preset_under_another_name(presets: dict[str, Path], tmp_path: Path) -> None:
    preset = load_preset(presets["one"])
    better = tuning.tuned(preset, Candidate(64, 9, 12, 5))
    (tmp_path / "fast.toml").write_text(to_toml(better, "fast"))
    read = load_preset(tmp_path / "fast.toml")
    assert (read.name, read.retrieval.chunk, read.retrieval.top_k, read.tree.nodes, read.tree.depth) == (
        "fast",
        64,
        9,
        12,
        5,
    )
    assert read.model_copy(update={"name": "one", "retrieval": preset.retrieval, "tree": preset.tree}) == preset


@pytest.mark.parametrize("name", ["fast", "Fast.toml", "a b.toml", ".toml", "fast.json"])
def test_names_that_no_preset_can_have(name: str) -> None:
    with pytest.raises(UsageError, match="no name for a preset"):
        check_name(Path(name))


def test_the_command(cli, presets: dict[str, Path], tmp_path: Path, monkeypatch) -> None:
    small = ("bench", "-m", presets["one"], "--len", "256", "--tokens", 6, "--dtype", "float32")
    monkeypatch.setattr(tuning, "CANDIDATES", 3)
    monkeypatch.setattr(tuning, "ENOUGH", 0.0)
    monkeypatch.setattr("specextend_cli.bench.statistics.bootstrap_interval", _certain)
    done = cli(*small, "--tune", tmp_path / "fast.toml", "--docs", 2)
    assert done.returncode == 0
    assert "Held-out documents" in done.stdout
    written = (tmp_path / "fast.toml").exists()
    assert ("written: " if written else "own settings stand") in done.stderr
    if written:
        load_preset(tmp_path / "fast.toml")
    assert cli(*small, "--tune", tmp_path / "fast.toml", "--docs", 1).returncode == 2
    assert cli(*small, "--explain").returncode == 2
    assert cli(*small, "--tune", "x.toml", "--experiment", "gate").returncode == 2
    assert cli(*small, "--tune", "x.toml", "--methods", "plain").returncode == 2
    assert cli(*small, "--tune", "X.toml").returncode == 2


def _certain(values, *arguments, **options):
    from specextend_cli.bench.statistics import Interval

    return Interval(float(sorted(values)[len(values) // 2]), None, None, len(values))
