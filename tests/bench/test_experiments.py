"""Every experiment runs on a tiny pair and answers its question with figures."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from math import isclose
from pathlib import Path

import pytest
import torch
from specextend_cli.bench.setting import Setting
from specextend_cli.bench.tables import Experiment
from specextend_cli.bench.texts import Source
from specextend_cli.bench.workloads import summaries

from specextend_cli.bench import experiments
from specextend_cli.bench.experiments import costs, needle, profile
from specextend_cli.bench.machine import describe
from specextend_cli.bench.measure import Decoding
from specextend_cli.engine.config import Retrieval, Sampling
from specextend_cli.engine.drafters import LMDrafter
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.target import Target
from specextend_cli.errors import UsageError
from specextend_cli.runtime.loading_thread import result_of
from tests.engine.tiny_models import prompt, tiny
from tests.summarize.tiny_preset import text


@pytest.fixture
def setting(models) -> Setting:
    prompts, _ = summaries([Source("a", text(60)), Source("b", text(60, start=9))], models.prompter, [160, 240], docs=2)
    decoding = Decoding(Sampling(), 4, frozenset(), 128)
    return Setting(models, prompts, decoding, 1, 0, describe(models.device))


def finish(name: str, setting: Setting) -> Experiment:
    """Run an experiment. Every one has a question, and tables with rows for each length."""
    found = result_of(experiments.run(name, setting))
    assert found.name == name
    assert found.question.endswith("?")
    for table in found.tables:
        assert {row[0] for row in table.rows} == {160, 240}
    assert setting.wrong == []
    assert setting.skipped == {}
    return found


@pytest.mark.parametrize("name", ["lengths", "ablation", "policies", "needle"])
def test_an_experiment_has_tables_with_rows_for_each_length(
    setting: Setting, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(needle, "DEPTHS", (0.1, 0.9))
    if name != "lengths":
        setting.prompts = setting.prompts[::2]  # one document a length
    finish(name, setting)


def test_costs_are_of_every_size_and_lie_beside_the_floor(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "ROUNDS", 2)
    monkeypatch.setattr(costs, "SCALE", 0.01)
    found = finish("costs", setting)
    plain, verifying, drafting = found.tables
    assert [row[1] for row in verifying.rows] == [*costs.NODES] * 2
    assert [row[1] for row in drafting.rows if row[0] == 240] == [64, 128, 240]
    for row in plain.rows:
        named = dict(zip(plain.header, row, strict=True))
        floor = max(named["reading (ms)"], named["multiplying (ms)"])
        assert named["step, times the floor"] == pytest.approx(named["plain step (ms)"] / floor)
        read = (named["weights (MB)"] + named["keys and values (MB)"]) / named["memory (GB/s)"]
        assert named["reading (ms)"] == pytest.approx(read)


def test_a_profile_attributes_every_millisecond(
    setting: Setting, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(profile, "STEPS", 2)
    found = result_of(experiments.run("profile", replace(setting, traces=tmp_path)))
    totals, shares = found.tables
    assert [row[:2] for row in totals.rows] == [(n, step) for n in (160, 240) for step in ("plain", "verification")]
    layers = setting.models.lm.layers
    for length, step, nodes, _, profiled in totals.rows:
        own = {row[2]: row for row in shares.rows if row[:2] == (length, step)}
        assert sum(row[3] for row in own.values()) == pytest.approx(profiled)
        assert sum(row[4] for row in own.values()) == pytest.approx(1)
        assert own[profile.ATTENTION][5] == layers  # called once a layer
        products = own[profile.PRODUCTS][5]
        assert products == 7 * layers + 1 or (nodes > 1 and products > 7 * layers + 1)  # and those of a tree's mask
        assert (nodes > 1) == (step == "verification") == (profile.DRAFTING in own)
    assert {path.name for path in tmp_path.iterdir()} == {
        f"trace-{step}-{length}.json.gz" for length in (160, 240) for step in ("plain", "verification")
    }
    trace = json.loads(gzip.decompress((tmp_path / "trace-plain-160.json.gz").read_bytes()))
    assert sum(event.get("name") == profile.ATTENTION for event in trace["traceEvents"]) == 2 * layers


def test_an_unknown_experiment_is_refused() -> None:
    assert experiments.parse("needle, lengths,needle") == ("needle", "lengths")
    with pytest.raises(UsageError, match="no experiment 'gate'") as caught:
        experiments.parse("lengths,gate")
    assert "needle" in caught.value.why


@pytest.mark.parametrize("depth", needle.DEPTHS)
def test_a_needle_is_where_it_should_be_in_a_prompt_of_the_right_length(setting: Setting, depth: float) -> None:
    document = setting.prompts[-1]
    hidden = needle.hide(setting, document, depth)
    answer = setting.models.encoder.decode(hidden.answer).strip()
    written = setting.models.encoder.decode(hidden.prompt)
    assert len(hidden.prompt) == document.length
    assert answer.rstrip(".").isdigit()
    assert written.count(answer) == 1
    assert isclose(written.index(answer) / len(written), depth, abs_tol=0.3)
    assert written.rstrip().endswith("is")
    assert needle.hide(setting, document, depth) == hidden


RETRIEVAL = Retrieval(chunk=8, top_k=3, recent=16, sinks=2)


def test_forced_target_says_what_the_model_says() -> None:
    model, tokens = tiny(), prompt(120)
    continuation = prompt(12, seed=4)
    lm = LanguageModel(model)
    target = Target(lm)
    full = Retrieval(policy="full")
    asked = needle.Needle(tuple(tokens), tuple(continuation))
    said = list(needle.teacher_forced(target, LMDrafter(lm, target, full), asked, full, 64))
    assert [token for _, token in said] == continuation[1:]
    model.set_attn_implementation("sdpa")
    with torch.inference_mode():
        logits = model(torch.tensor([tokens + continuation])).logits[0, len(tokens) : -1]
    for (draft, _), judge in zip(said, logits.softmax(-1), strict=True):
        # The target as its own draft, with nothing hidden, says what the target says.
        torch.testing.assert_close(draft, judge, atol=1e-5, rtol=1e-4)
        assert float(draft.sum()) == pytest.approx(1, abs=1e-4)


def test_forced_drafts_see_only_their_working_set() -> None:
    lm, tokens = LanguageModel(tiny()), prompt(200)
    target = Target(lm)
    drafter = LMDrafter(lm, target, RETRIEVAL)
    full, judge = Retrieval(policy="full"), Target(lm)
    asked = needle.Needle(tuple(tokens), tuple(prompt(12, seed=4)))
    whole = list(needle.teacher_forced(judge, LMDrafter(lm, judge, full), asked, full, 64))
    seen = []
    for (draft, _), (unrestricted, _) in zip(
        needle.teacher_forced(target, drafter, asked, RETRIEVAL, 64), whole, strict=True
    ):
        seen.append(len(drafter.visible()))
        assert not torch.allclose(draft, unrestricted)
    assert all(size <= RETRIEVAL.size + 12 for size in seen)


def test_the_command_prints_and_reports_experiments(cli, presets: dict[str, Path], tmp_path: Path) -> None:
    small = ("bench", "-m", presets["one"], "--len", "256", "--docs", 1, "--tokens", 8, "--dtype", "float32")
    done = cli(*small, "--experiment", "lengths,needle", "--report", tmp_path / "report")
    assert done.returncode == 0
    assert "By prompt length" in done.stdout
    assert "The draft on the answer" in done.stdout
    assert "experiment needle" in done.stderr
    assert "<svg" in (tmp_path / "report" / "index.html").read_text()
    done = cli(*small, "--experiment", "lengths", "--json", "-q")
    assert done.stdout.count("\n") == 1
    assert [one["name"] for one in json.loads(done.stdout)] == ["lengths"]
    done = cli(*small, "--experiment", "lengths", "-f", "md", "-q")
    assert done.stdout.startswith("## lengths")
    wrongs = (
        ("--experiment", "x"),
        ("--experiment", "costs", "--methods", "plain"),
        ("--experiment", "costs", "--profile"),
    )
    for wrong in wrongs:
        assert cli(*small, *wrong).returncode == 2
