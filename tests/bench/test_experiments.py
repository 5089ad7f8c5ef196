"""Every experiment runs on a tiny pair and answers its question with figures."""

from __future__ import annotations

import json
from math import isclose
from pathlib import Path

import pytest
import torch

from specextend_cli.bench import experiments, needle
from specextend_cli.bench.formats import Experiment
from specextend_cli.bench.measure import Decoding
from specextend_cli.bench.prompts import Source, summaries
from specextend_cli.bench.runner import Runner
from specextend_cli.engine.config import Retrieval, Sampling
from specextend_cli.engine.drafters import LMDrafter
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.target import Target
from specextend_cli.runtime.loading_thread import result_of
from tests.engine.tiny_models import prompt, tiny
from tests.summarize.tiny_preset import text


@pytest.fixture
def runner(models, prompter) -> Runner:
    prompts, _ = summaries([Source("a", text(60)), Source("b", text(60, start=9))], prompter, [160, 240], docs=2)
    return Runner(models, prompts, Decoding(Sampling(), 4, frozenset(), 128))


def finish(name: str, runner: Runner) -> Experiment:
    """Run an experiment. Every one has a question, a table with rows for each length, and a plot."""
    found = result_of(experiments.EXPERIMENTS[name](runner))
    assert found.name == name
    assert found.question.endswith("?")
    for table in found.tables:
        assert {row[0] for row in table.rows} == {160, 240}
    assert found.plots
    assert runner.wrong == []
    assert runner.skipped == {}
    return found


@pytest.mark.parametrize("name", ["lengths", "ablation", "policies", "needle"])
def test_an_experiment_has_tables_with_rows_for_each_length(
    runner: Runner, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(needle, "DEPTHS", (0.1, 0.9))
    if name != "lengths":
        runner.prompts = runner.prompts[::2]  # one document a length
    finish(name, runner)


def test_names_are_parsed() -> None:
    assert experiments.parse("needle, lengths,needle") == ("needle", "lengths")


@pytest.mark.parametrize("depth", needle.DEPTHS)
def test_a_needle_is_where_it_should_be_in_a_prompt_of_the_right_length(runner: Runner, depth: float) -> None:
    document = runner.prompts[-1]
    hidden = needle.hide(runner, document, depth)
    answer = runner.models.encoder.decode(hidden.answer).strip()
    written = runner.models.encoder.decode(hidden.prompt)
    assert len(hidden.prompt) == document.length
    assert answer.rstrip(".").isdigit()
    assert written.count(answer) == 1
    assert isclose(written.index(answer) / len(written), depth, abs_tol=0.3)
    assert written.rstrip().endswith("is")
    assert needle.hide(runner, document, depth) == hidden


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
    found = json.loads(done.stdout)
    assert ([one["name"] for one in found["experiments"]], found["records"]) == (["lengths"], [])
    assert found["settings"]["methods"] == []
    done = cli(*small, "--experiment", "lengths", "-f", "md", "-q")
    assert done.stdout.startswith("## lengths")
    for wrong in (("--experiment", "costs"), ("--experiment", "lengths", "--methods", "plain")):
        assert cli(*small, *wrong).returncode == 2
