"""train-draft on a tiny target: it learns, it resumes, and what it writes loads and is accepted."""

from __future__ import annotations

import gzip
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from specextend_cli.engine.config import Retrieval, TreeShape
from specextend_cli.engine.decode import decode
from specextend_cli.engine.draft_gate import DraftGate
from specextend_cli.engine.drafters import EagleDrafter
from specextend_cli.engine.events import Step
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
from specextend_cli.errors import InputError, ModelError, UsageError
from specextend_cli.models.block_heads import load_block_head
from specextend_cli.models.heads import default_layers, load_head, save_head
from specextend_cli.models.ngram_table import FILE, table_file
from specextend_cli.train import trainer
from specextend_cli.train.card import Facts
from specextend_cli.train.config import AnswerOptions, Distillation, Schedule
from specextend_cli.train.distill import distill
from specextend_cli.train.events import Answering, Done, Observing, Resumed, Trained, Validated, VocabularyChosen
from specextend_cli.train.init_head import init_head
from specextend_cli.train.measure import HeldOut
from specextend_cli.train.samples import Frame, Sample, cut, read_corpus
from specextend_cli.train.storage import add_answers, read_answers
from specextend_cli.train.trainer import _depth, train
from specextend_cli.train.vocabulary import choose, count, coverage
from tests.engine.tiny_heads import tiny_head
from tests.engine.tiny_models import VOCABULARY, generate, prompt, tiny
from tests.helpers.published_heads import angelslim, speculators

FACTS = Facts("a tiny target", "none", "random tokens", "none", "a machine")
FRAME = Frame([1, 2], [3])


def documents(number: int = 12) -> list[list[int]]:
    """Documents that repeat a few phrases, so that there is something to learn."""
    order = random.Random(0)
    phrases = [[order.randrange(8, VOCABULARY) for _ in range(5)] for _ in range(4)]
    return [[token for _ in range(16) for token in order.choice(phrases)] for _ in range(number)]


def plan(steps: int, **changes: object) -> Distillation:
    """Bounded by steps and answers, never by the clock; validated often."""
    schedule = Schedule(seconds=3600, steps=steps, unroll=3, batch=4, rate=3e-3, validate=0.5, rows=64, patience=99)
    settings = {
        "asking": AnswerOptions(new_tokens=24, batch=8, copies=2),
        "vocabulary": 60,
        "lengths": (32, 48),
        "answers": 160,
        "quoted": 32,
    }
    return Distillation(schedule, **{**settings, **changes})


def run(lm: LanguageModel, directory: Path, steps: int = 90) -> list[object]:
    return list(distill(lm, documents(), FRAME, [0], plan(steps), directory, FACTS))


def test_a_head_learns_loads_and_is_accepted(tmp_path: Path) -> None:
    lm = LanguageModel(tiny())
    events = run(lm, tmp_path)
    assert isinstance(events[-1], Done)
    validations = [event for event in events if isinstance(event, Validated)]
    chance = 1.0 + 1 / VOCABULARY
    assert events[-1].accepted == [event for event in validations if event.best][-1].accepted > chance + 0.05
    score = HeldOut([], share=plan(1).quotes).score
    assert max(validations, key=lambda event: score(event.accepted, event.quoted)).best
    losses = [event.loss for event in events if isinstance(event, Trained)]
    assert sum(losses[-5:]) < 0.9 * sum(losses[:5])
    (covered,) = [event for event in events if isinstance(event, VocabularyChosen)]
    assert covered.size == 60
    assert 0.5 < covered.answers <= 1.0

    assert all(event.quoted and event.quoted >= 1.0 for event in validations)

    assert not (tmp_path / "training" / "states").exists()
    card = (tmp_path / "README.md").read_text()
    longer = list(distill(lm, documents(), FRAME, [0], plan(91), tmp_path, FACTS))
    assert isinstance(longer[-1], Done)  # without the states that the first run removed

    assert f"**{events[-1].accepted:.2f}**" in card
    assert "**Vocabulary** 60 tokens" in card
    begun = replace(plan(1), init=tmp_path, vocabulary=33)
    on = list(distill(lm, documents(), FRAME, [0], begun, tmp_path / "on", FACTS))
    assert isinstance(on[-1], Done)
    assert on[-1].accepted > 1.0 + 0.8 * (events[-1].accepted - 1.0)  # after one step
    assert torch.equal(load_head(tmp_path / "on", lm).head.vocabulary, load_head(tmp_path, lm).head.vocabulary)
    assert f"begun from the head in {tmp_path.name}" in (tmp_path / "on" / "README.md").read_text()
    with pytest.raises(UsageError, match="another head"):
        next(distill(lm, documents(), FRAME, [0], replace(begun, init=None), tmp_path / "on", FACTS))

    assert drafted_steps(lm, load_head(tmp_path, lm).head) < 23


def drafted_steps(lm: LanguageModel, head: EagleHead) -> int:
    """In how many steps the head drafts 24 tokens, which are those of `generate`."""
    target = Target(lm)
    retrieval = Retrieval(policy="retrieval", chunk=8, top_k=2, recent=16, sinks=2)
    tokens, steps = [], 0
    for event in decode(
        target,
        EagleDrafter(head, target, retrieval),
        FRAME.around(documents()[-1][:48]),
        stop=Stop(24),
        retrieval=retrieval,
        gate=DraftGate(TreeShape(nodes=4, depth=3, width=1, threshold=0.0), enabled=False),
    ):
        if isinstance(event, Step):
            tokens += event.tokens
            steps += event.nodes > 0
    assert tokens == generate(tiny(), FRAME.around(documents()[-1][:48]), 24)
    return steps


@pytest.mark.full
def test_an_eagle_3_1_head_is_trained_further_as_one(tmp_path: Path) -> None:
    lm = LanguageModel(tiny())
    first = init_head(lm, torch.arange(60), default_layers(3), max_position=512)
    head = EagleHead(replace(first.config, fc_norm=True, feeds_normed=True))
    head.load_state_dict(first.state_dict(), strict=False)  # its norms of the target's states begin with ones
    save_head(head, tmp_path / "first", target_layers=3)
    events = list(distill(lm, documents(), FRAME, [0], plan(9, init=tmp_path / "first"), tmp_path / "on", FACTS))
    assert isinstance(events[-1], Done)
    config = json.loads((tmp_path / "on" / "config.json").read_text())
    assert config["fc_norm"] is config["norm_output"] is True
    assert "# EAGLE-3.1 draft head for" in (tmp_path / "on" / "README.md").read_text()
    trained = load_head(tmp_path / "on", lm).head
    assert trained.config.name == "EAGLE-3.1"
    assert not any(torch.equal(norm.weight, torch.ones(64)) for norm in trained.fc_norm)


def test_a_block_head_learns_and_loads(tmp_path: Path) -> None:
    """A run of DFlash that is killed and goes on; its head is one that any block head's loader reads."""
    lm = LanguageModel(tiny())

    def trained(steps: int) -> list[object]:
        asked = plan(steps, architecture="dflash", block_layers=1, answers=16)
        asked = replace(asked, schedule=replace(asked.schedule, validate=3600.0))  # at the end
        return list(distill(lm, documents(), FRAME, [0], asked, tmp_path, FACTS))

    events = [*trained(6), *trained(50)]
    assert any(isinstance(event, Resumed) for event in events)
    losses = [event.loss for event in events if isinstance(event, Trained)]
    assert len(losses) == 50
    assert sum(losses[-10:]) < 0.9 * sum(losses[:10])
    assert {len(event.agreement) for event in events if isinstance(event, Validated)} == {3}
    head = load_block_head(tmp_path, lm)
    assert (head.config.name, head.config.block, head.config.layers) == ("dflash", 3, 1)
    assert head.config.mask_token not in {token for document in documents() for token in document}
    card = (tmp_path / "README.md").read_text()
    assert "# DFlash draft head for" in card
    assert "blocks of 3" in card
    with pytest.raises(UsageError, match="another head"):
        list(distill(lm, documents(), FRAME, [0], plan(60), tmp_path, FACTS))


def test_a_block_head_begins_as_an_eagle_head(tmp_path: Path) -> None:
    lm = LanguageModel(tiny())
    first = init_head(lm, torch.arange(60), default_layers(3), max_position=512)
    first = EagleHead(replace(first.config, intermediate=40))  # other than the target's
    first.embedding.weight.data.copy_(lm.model.get_input_embeddings().weight)
    first.draft_to_target.copy_(torch.zeros(60, dtype=torch.long))
    save_head(first, tmp_path / "first", target_layers=3, dtype=torch.float32)
    asked = plan(3, architecture="dflash", init=tmp_path / "first", answers=16)
    # A rate that destroys every head: what is written is the beginning, which was measured before the first step.
    asked = replace(asked, schedule=replace(asked.schedule, rate=10.0))
    events = list(distill(lm, documents(), FRAME, [0], asked, tmp_path / "on", FACTS))
    seen = [event for event in events if isinstance(event, Observing)]
    assert [event.done for event in seen] == list(range(1, seen[0].total + 1))
    measured = [event for event in events if isinstance(event, Validated)]
    assert [event.step for event in measured if event.best] == [0]
    assert events[-1] == Done("finished", 3, measured[0].accepted)
    head = load_block_head(tmp_path / "on", lm)
    assert torch.equal(head.vocabulary, torch.arange(60))
    assert head.config.feature_layers == first.config.feature_layers
    assert torch.allclose(head.fc.weight.float(), first.fc.weight, atol=0.02)
    normed = EagleHead(replace(first.config, fc_norm=True, feeds_normed=True))
    normed.load_state_dict(first.state_dict(), strict=False)
    save_head(normed, tmp_path / "normed", target_layers=3)
    with pytest.raises(ModelError, match="no block head can begin"):
        next(distill(lm, documents(), FRAME, [0], replace(asked, init=tmp_path / "normed"), tmp_path / "no", FACTS))


def test_another_head_is_trained_on_the_answers_of_an_earlier_run(tmp_path: Path) -> None:
    lm, kept = LanguageModel(tiny()), plan(2, archive=tmp_path / "answers.npz")
    first = list(distill(lm, documents(), FRAME, [0], kept, tmp_path / "first", FACTS))
    second = list(distill(lm, documents(), FRAME, [0], kept, tmp_path / "second", FACTS))
    asked = [[event.total for event in events if isinstance(event, Answering)] for events in (first, second)]
    assert asked[0][0] == asked[1][0]  # those that are held out
    assert len(set(asked[0])) == 2
    assert len(set(asked[1])) == 1
    one, two = (read_answers(tmp_path / name / "training" / "answers.jsonl") for name in ("first", "second"))
    assert [(sample.tokens, sample.output) for sample in one] == [(sample.tokens, sample.output) for sample in two]
    assert isinstance(second[-1], Done)
    again = list(
        distill(lm, documents(), FRAME, [0], replace(kept, schedule=plan(3).schedule), tmp_path / "second", FACTS)
    )
    assert isinstance(again[0], VocabularyChosen)
    assert (tmp_path / "second" / "model.safetensors").exists()
    counted = table_file((sample.tokens, sample.output or 0) for sample in one)
    assert (tmp_path / "second" / FILE).read_bytes() == counted


@pytest.mark.full
def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    lm = LanguageModel(tiny())
    whole = distill(lm, documents(), FRAME, [0], plan(90), tmp_path, FACTS)
    for event in whole:
        if isinstance(event, Answering) and event.done:
            break  # killed while the target answers
    whole.close()
    with (tmp_path / "training" / "held_out.jsonl").open("ab") as file:
        file.write(b'{"tokens":[1,2')  # torn by the kill
    whole = distill(lm, documents(), FRAME, [0], plan(90), tmp_path, FACTS)
    first = next(whole)
    assert isinstance(first, Answering)
    assert first.done > 0
    steps = 0
    for event in whole:
        if isinstance(event, Validated):
            steps = event.step
            break  # killed while it trains
    whole.close()
    events = run(lm, tmp_path, 90)
    assert len([event for event in events if isinstance(event, Trained)]) == 90 - steps
    (resumed,) = [event for event in events if isinstance(event, Resumed)]
    assert resumed.step == steps > 0
    assert not any(isinstance(event, Answering) for event in events)
    assert next(event for event in events if isinstance(event, Trained)).step == steps + 1
    assert isinstance(events[-1], Done)


def test_a_run_is_kept_between_measurements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer, "_BETWEEN_SAVES", 0)
    lm, asked = LanguageModel(tiny()), plan(20)
    rarely = replace(asked, schedule=replace(asked.schedule, validate=3600, keep=0))
    for event in distill(lm, documents(), FRAME, [0], rarely, tmp_path, FACTS):
        assert not isinstance(event, Validated)
        if isinstance(event, Trained) and event.step == 7:
            break  # killed before this step was kept
    events = list(distill(lm, documents(), FRAME, [0], rarely, tmp_path, FACTS))
    assert [event.step for event in events if isinstance(event, Resumed)] == [6]
    assert [event.step for event in events if isinstance(event, Trained)] == list(range(7, 21))


def test_too_little_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="0 of 2 documents"):
        next(distill(LanguageModel(tiny()), [[1] * 20] * 2, FRAME, [0], plan(1), tmp_path, FACTS))


def test_a_directory_of_another_run_is_refused(tmp_path: Path) -> None:
    lm = LanguageModel(tiny())
    next(distill(lm, documents(), FRAME, [0], plan(1), tmp_path, FACTS))
    with pytest.raises(UsageError, match="another head"):
        next(distill(lm, documents()[1:], FRAME, [0], plan(1), tmp_path, FACTS))
    next(distill(lm, documents(), FRAME, [0], plan(2), tmp_path, FACTS))


def test_runs_of_one_seed_are_equal(tmp_path: Path) -> None:
    """Also where one of them was killed before its head was born."""

    def losses(name: str, seed: int, *, killed: bool = False) -> list[float]:
        few = plan(2, answers=6, held_out=2)
        few = replace(few, schedule=replace(few.schedule, seed=seed), asking=replace(few.asking, seed=seed))
        lm = LanguageModel(tiny())
        if killed:
            events = distill(lm, documents(), FRAME, [0], few, tmp_path / name, FACTS)
            while not isinstance(next(events), VocabularyChosen):
                pass
            events.close()
            torch.rand(5)
        events = distill(lm, documents(), FRAME, [0], few, tmp_path / name, FACTS)
        return [event.loss for event in events if isinstance(event, Trained)]

    assert losses("a", 0) == losses("b", 0, killed=True) != losses("c", 1)


def test_a_target_whose_answers_are_shorter_than_the_unroll_is_refused(tmp_path: Path) -> None:
    """Every token ends an answer."""
    few = plan(2, answers=6, held_out=2)
    with pytest.raises(InputError, match="no text to measure the head on"):
        list(distill(LanguageModel(tiny()), documents(), FRAME, list(range(VOCABULARY)), few, tmp_path, FACTS))


def test_a_head_can_be_trained_on_document_text_alone(tmp_path: Path) -> None:
    few = plan(2, answers=6, held_out=2, text=1.0, quotes=0.0)
    assert isinstance(list(distill(LanguageModel(tiny()), documents(), FRAME, [], few, tmp_path, FACTS))[-1], Done)


def test_nothing_to_train_on_or_measure_is_said(tmp_path: Path) -> None:
    lm, schedule = LanguageModel(tiny()), Schedule(seconds=9, unroll=4)
    long, short = Sample(prompt(40), 20), Sample(prompt(40), 36)
    for samples, held_out, what in (([short], [long], "train on"), ([], [long], "train on"), ([long], [short], "meas")):
        with pytest.raises(InputError, match=what) as caught:
            next(train(lm, tiny_head(), [(1.0, samples)], HeldOut(held_out), schedule, tmp_path / "checkpoint.pt"))
        assert "--unroll" in caught.value.fix
    deep = replace(plan(1, answers=6, held_out=2, quotes=0.0), schedule=replace(schedule, unroll=60))
    with pytest.raises(InputError, match="train on"):
        list(distill(lm, documents(), FRAME, [0], deep, tmp_path, FACTS))


def test_every_depth_is_reached_as_often_as_it_weighs() -> None:
    order = random.Random(0)
    drawn = [_depth(4, order) for _ in range(4000)]
    for step in range(4):
        assert sum(depth > step for depth in drawn) / 4000 == pytest.approx(0.5**step, abs=0.03)
    assert max(drawn) == 4


def test_answers_survive_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    add_answers(path, [Sample([1, 2, 3], 1, output=3), Sample([4, 5], 0, output=2)])
    with path.open("ab") as raw:
        raw.write(b'{"tokens":')
    assert read_answers(path) == [Sample([1, 2, 3], 1, output=3), Sample([4, 5], 0, output=2)]
    add_answers(path, [Sample([6], 0)])
    assert len(read_answers(path)) == 3


def test_the_vocabulary_is_what_occurs_most() -> None:
    counts = count([[1, 1, 2, 5], [5, 5, 7]], 9)
    assert counts.tolist() == [0, 2, 1, 0, 0, 3, 0, 1, 0]
    assert choose(counts, 3).tolist() == [1, 2, 5]
    assert choose(counts, 3, always=[8]).tolist() == [1, 5, 8]
    assert coverage(torch.tensor([1, 5]), counts) == pytest.approx(5 / 7)


def test_a_corpus_is_read_from_text_and_json_lines(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "one"}) + "\n" + json.dumps({"text": "two"}) + "\n")
    (tmp_path / "b.txt").write_text("three")
    (tmp_path / "c.bin").write_text("not read")
    assert list(read_corpus(tmp_path)) == ["one", "two", "three"]
    (tmp_path / "d.jsonl").write_text("{}\n")
    with pytest.raises(InputError, match="line 1"):
        list(read_corpus(tmp_path))
    for line in ('{"text": 3}', '{"text": null}', '["text"]', '"text"', "{"):
        (tmp_path / "d.jsonl").write_text('\n{"text": "four"}\n  \n' + line)
        with pytest.raises(InputError, match="line 4"):
            list(read_corpus(tmp_path / "d.jsonl"))
    with pytest.raises(InputError, match="no training text"):
        list(read_corpus(tmp_path / "c.bin"))
    excerpts = cut([prompt(60), prompt(90, seed=1), [1, 2]], (20, 40), 5, seed=0)
    assert sorted({len(excerpt) for excerpt in excerpts}) == [20, 40]
    assert excerpts == cut([prompt(60), prompt(90, seed=1), [1, 2]], (20, 40), 5, seed=0)


def test_a_torn_archive_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl.gz"
    whole = gzip.compress(json.dumps({"text": " ".join(map(str, range(999)))}).encode() + b"\n\n")
    file.write_bytes(whole)
    assert len(list(read_corpus(file))) == 1
    for broken in (whole[:-20], whole[:-4], b"text", whole[:12] + b"\xff" * 20 + whole[32:]):
        file.write_bytes(broken)
        with pytest.raises(InputError, match="cannot read") as caught:
            list(read_corpus(file))
        assert caught.value.why


def test_training_ends_when_nothing_gets_better(tmp_path: Path) -> None:
    lm, asked = LanguageModel(tiny()), plan(1000)
    still = replace(asked, schedule=replace(asked.schedule, rate=0.0, validate=0.0, patience=2))
    events = list(distill(lm, documents(), FRAME, [0], still, tmp_path, FACTS))
    assert [event.best for event in events if isinstance(event, Validated)] == [True, False, False]
    assert isinstance(events[-1], Done)
    assert events[-1].reason == "no longer improving"
    again = list(distill(lm, documents(), FRAME, [0], still, tmp_path, FACTS))  # whoever asks again means it
    assert sum(isinstance(event, Validated) for event in again) == 2


@pytest.mark.parametrize("layout", [speculators, angelslim])
def test_a_head_that_could_not_be_written_is_not_trained_further(layout: Any, tmp_path: Path) -> None:
    layout(tmp_path)
    with pytest.raises(ModelError, match="trained further"):
        next(distill(LanguageModel(tiny()), documents(), FRAME, [0], plan(1, init=tmp_path), tmp_path / "on", FACTS))
