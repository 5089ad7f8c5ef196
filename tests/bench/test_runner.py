"""Every method over the same prompts: equal tokens, honest records, nothing measured twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from specextend_cli.bench.events import Checked, Measured, Running, Skipped, Started, Working
from specextend_cli.bench.records import Divergence, Run
from specextend_cli.bench.texts import Source
from specextend_cli.bench.workloads import Prompt, summaries

from specextend_cli.bench import measure, methods
from specextend_cli.bench.measure import Decoding
from specextend_cli.bench.models import Recipe
from specextend_cli.bench.prefilled import Prefilled
from specextend_cli.bench.runner import Runner
from specextend_cli.bench.statistics import first_difference
from specextend_cli.engine.config import Sampling, TreeShape
from specextend_cli.engine.drafters import EagleDrafter
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.tree import DraftTree
from specextend_cli.errors import ModelError, UsageError
from tests.engine.tiny_heads import tiny_head
from tests.summarize.tiny_preset import text


@pytest.fixture
def prompts(models) -> tuple[Prompt, ...]:
    return summaries([Source("a", text(90)), Source("b", text(80, start=7))], models.prompter, [192, 300], docs=2)[0]


def runner(models, names: tuple[str, ...], *, sampling: Sampling | None = None, tokens: int = 24, **options) -> Runner:
    able, unable = methods.build(names, models)
    decoding = Decoding(sampling or Sampling(), tokens, frozenset(), models.prefill_chunk)
    return Runner(models, able, decoding, **{"repeats": 1, "seed": 0, "skipped": dict(unable), **options})


def of(events: list[Running], kind: type) -> list:
    return [event for event in events if isinstance(event, kind)]


PENALTIES = Sampling(repetition_penalty=1.1, no_repeat_ngram=4)


@pytest.mark.parametrize(
    "sampling",
    [
        pytest.param(PENALTIES, id="penalties"),
        pytest.param(Sampling(temperature=0.8, seed=4), id="sampled", marks=pytest.mark.full),
    ],
)
def test_every_method_writes_what_plain_decoding_writes(
    models, prompts, sampling: Sampling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specextend_cli.bench.runner._WARM_UP", 2)
    made = runner(models, methods.METHODS, sampling=sampling, tokens=16)
    events = list(made.run(prompts[:1] + prompts[2:3]))
    assert not of(events, Checked)
    assert made.wrong() == ()
    assert set(made.skipped) <= {"llama.cpp", "eagle", "block", "mtp", "assistant", "table"}
    records = made.records()
    ran = set(methods.METHODS) - set(made.skipped)
    assert {record.method for record in records} == ran
    assert len(records) == 2 * len(ran) == of(events, Started)[0].runs
    plain = {record.length: record for record in records if record.method == "plain"}
    for record in records:
        assert record.tokens == plain[record.length].tokens
        assert record.text == plain[record.length].text != ""
        assert record.prefill_seconds > 0
        assert record.decode_seconds > 0
        assert record.peak_bytes > 1e6
        ours = isinstance(made.methods[record.method], Recipe)
        if ours:
            assert sum(record.accepted) == len(record.tokens) - 1
            assert len(record.accepted) == len(record.nodes)
            parts = record.draft_seconds + record.verify_seconds + record.retrieve_seconds
            assert 0 < parts <= record.decode_seconds
        sees = record.method in ("streaming", "specextend", "self", "lm", "blend", "+streaming", "+retrieval") or (
            record.method in ("magicdec", "triforce", "rapid")
        )
        assert (record.hit is not None) == sees
    assert all(size == 1 for size in plain[192].nodes)


def test_a_prompt_is_read_once_for_all_methods_and_once_more_for_other_kernels(models, prompts, monkeypatch) -> None:
    sizes: list[int] = []
    forward = LanguageModel.forward

    def spy(self, tokens, positions, cache, **options):
        if self is models.lm and len(tokens) > 60:
            sizes.append(len(tokens))
        return forward(self, tokens, positions, cache, **options)

    monkeypatch.setattr(LanguageModel, "forward", spy)
    made = runner(models, ("plain", "ngram", "self", "specextend", "magicdec"), repeats=2, tokens=8)
    events = list(made.run(prompts[:2]))
    assert sizes == [192, 192]
    read = [(event.what, event.done) for event in of(events, Working) if event.what.startswith("reading")]
    assert read == [("reading b", 0), ("reading a", 0)]
    sizes.clear()
    list(runner(models, ("plain", "naive", "+flash", "+hta"), tokens=8).run(prompts[:1]))
    assert sizes == [192, 192]


def test_drafters_that_read_features_and_those_that_do_not_share_one_reading(models, prompts) -> None:
    size = models.lm.vocabulary
    head = tiny_head(vocabulary=size, draft_vocabulary=size)
    retrieval = replace(models.retrieval, policy="retrieval")
    made = runner(models, ("plain", "ngram"))
    made.methods["eagle"] = Recipe(lambda target: EagleDrafter(head, target, retrieval), retrieval, models.preset.tree)
    list(made.run(prompts[:2]))
    assert made.wrong() == ()
    assert {record.method for record in made.records()} == {"plain", "ngram", "eagle"}
    assert len({record.tokens for record in made.records() if record.document == "a"}) == 1
    assert all(record.hit for record in made.records() if record.method == "eagle")


def test_order_is_random_but_repeatable(models, prompts) -> None:
    names = ("plain", "ngram", "self", "lm")

    def order(seed: int) -> list[str]:
        events = runner(models, names, seed=seed, tokens=4).run(prompts)
        return [event.record.method for event in events if isinstance(event, Measured)]

    first = order(1)
    assert order(1) == first != order(2)
    assert len({tuple(first[at : at + 4]) for at in range(0, 16, 4)}) > 1


def test_past_the_window_rope_is_stretched_for_everybody_and_said(models) -> None:
    prompts, _ = summaries([Source("a", text(90))], models.prompter, [256, 500], docs=1)
    made = runner(models, ("plain", "specextend", "transformers"))  # a window of 512, and 24 new tokens
    rotary = models.lm.model.model.rotary_emb
    list(made.run(prompts))
    assert {(record.length, record.scaled) for record in made.records()} == {(256, False), (500, True)}
    assert made.wrong() == ()
    assert len({record.tokens for record in made.records() if record.scaled}) == 1
    assert models.lm.model.model.rotary_emb is rotary


# ------------------------------------------------------------------------------------------------ what goes wrong


class Liar(Prefilled):
    """A target whose verification of trees is wrong in one place."""

    def verify(self, tree: DraftTree, **options):
        out = super().verify(tree, **options)
        if len(tree) > 1:
            out.logits[:, 7] += 1e3
        return out


@pytest.fixture
def planted(models, monkeypatch: pytest.MonkeyPatch) -> Recipe:
    """A method without a gate's patience, so that it drafts and lies at once."""
    honest = models.recipe("ngram", models.under("full"))
    return replace(honest, gate=False)


def lying(models, planted: Recipe, names: tuple[str, ...] = ("plain",)) -> Runner:
    able, _ = methods.build(names, models)

    class Wrong(Runner):
        def _target(self, recipe: Recipe) -> Prefilled:
            target = super()._target(recipe)
            target.__class__ = Liar if recipe is planted else Prefilled
            return target

    decoding = Decoding(Sampling(), 24, frozenset(), models.prefill_chunk)
    return Wrong(models, {**able, "planted": planted}, decoding, repeats=1, seed=0)


def test_a_method_that_lies_is_caught(models, prompts, planted: Recipe) -> None:
    made = lying(models, planted, ("plain", "ngram"))
    events = list(made.run(prompts))
    assert made.wrong() == ("planted",)
    checked = of(events, Checked)
    assert {event.record.method for event in checked} == {"planted"}
    assert len(checked) >= 1
    for event in checked:
        record, found = event.record, event.record.divergence
        plain = next(r for r in made.records() if (r.method, r.length, r.document) == ("plain", *_at(record)))
        assert found is not None
        assert found.index == first_difference(plain.tokens, record.tokens)
        assert found.gap is not None
        assert found.gap > 0


def _at(record) -> tuple[int, str]:
    return record.length, record.document


@pytest.mark.parametrize(
    ("found", "exact", "wrong"),
    [
        (None, True, False),
        (Divergence(3, 1e-6), True, True),
        (Divergence(3, 0.12), False, False),
        (Divergence(3, 5.0), False, True),
        (Divergence(3, None), False, True),
    ],
)
def test_rounding_is_told_from_wrong(found: Divergence | None, exact: bool, wrong: bool) -> None:
    assert measure.is_wrong(found, exact=exact) == wrong


@pytest.mark.parametrize("index", [0, 1, 9])
@pytest.mark.parametrize("sampling", [Sampling(), PENALTIES, Sampling(temperature=0.7, seed=2)])
def test_the_gap_is_that_of_plain_decoding(models, prompts, sampling: Sampling, index: int) -> None:
    from specextend_cli.engine.sampling import Sampler

    decoding = Decoding(sampling, 24, frozenset(), 64)
    prompt = list(prompts[0].tokens)
    target = Prefilled(models.lm)
    plain = Runner(models, methods.build(("plain",), models)[0], decoding, 1, 0)
    list(plain.run(prompts[:1]))
    written = plain.records()[0].tokens
    judge = Prefilled(models.lm)
    judge.begin(400)
    logits = judge.prefill(torch.tensor(prompt + list(written[:index]))).logits
    sampler = Sampler(sampling, prompt, models.device)
    if index:
        sampler.commit(written[:index])
    ranked = sampler.ranking(logits)[0]
    assert int(ranked.argmax()) == written[index]
    best = ranked.topk(2).values
    expected = float(best[0] - best[1] if sampling.greedy else (best[0] / best[1]).log())
    assert measure.gap(target, prompt, written, index, decoding) == pytest.approx(expected, rel=1e-3, abs=1e-4)


def test_an_output_that_goes_on_is_no_rounding(models, prompts) -> None:
    decoding = Decoding(Sampling(), 24, frozenset(), 64)
    found = measure.divergence(Prefilled(models.lm), list(prompts[0].tokens), [5, 6], [5, 6, 7], decoding)
    assert found == Divergence(2, None)


class Failing:
    """A peer that fails after its warm-up."""

    def __init__(self) -> None:
        self.runs = 0

    def run(self, prompt, decoding: Decoding) -> Run:
        self.runs += 1
        if len(prompt) > 100:
            raise ModelError("it fell over", why="too long")
        return Run((1, 2), 0.1, 0.1)


def test_a_method_that_fails_is_left_out_with_its_reason(models, prompts) -> None:
    made = runner(models, ("plain", "ngram"))
    peer = made.methods["peer"] = Failing()
    events = list(made.run(prompts))
    assert of(events, Skipped) == [Skipped("peer", "it fell over (too long), at 192 tokens")]
    assert made.skipped == {"peer": "it fell over (too long), at 192 tokens"}
    assert peer.runs == 2
    assert {record.method for record in made.records()} == {"plain", "ngram"}


def test_a_peer_that_differs_is_reported_and_no_failure(models, prompts) -> None:
    class Other(Failing):
        def run(self, prompt, decoding: Decoding) -> Run:
            return Run((1, 2, 3), 0.1, 0.1)

    made = runner(models, ("plain",))
    made.methods["other"] = Other()
    events = list(made.run(prompts[:1]))
    assert [event.record.method for event in of(events, Checked)] == ["other"]
    assert made.wrong() == ()


def test_what_was_measured_is_not_measured_again(models, prompts, planted: Recipe) -> None:
    first = lying(models, planted)
    list(first.run(prompts))
    records = first.records()
    second = lying(models, planted)
    kept = [record for record in records if record.document == "a"]
    events = list(second.run(prompts, [*kept, replace(kept[0], length=77)]))
    assert of(events, Started) == [Started(8, 4)]
    assert {event.record.document for event in of(events, Measured)} == {"b"}
    assert [replace(r, **_untimed()) for r in second.records()] == [replace(r, **_untimed()) for r in records]
    # A divergence that an interruption kept from being looked for is found.
    third = lying(models, planted)
    events = list(third.run(prompts, [replace(record, divergence=None) for record in records]))
    assert not of(events, Measured)
    assert third.wrong() == ("planted",)


def _untimed() -> dict[str, object]:
    times = ("prefill", "decode", "draft", "verify", "retrieve")
    return {**{f"{name}_seconds": 0.0 for name in times}, "peak_bytes": 0, "nodes": (), "accepted": (), "hit": None}


# ------------------------------------------------------------------------------------------------------- registry


def test_method_names_are_parsed_and_unknown_ones_refused() -> None:
    assert methods.parse(None) == methods.DEFAULT
    assert methods.parse("ngram, self,ngram") == ("plain", "ngram", "self")
    assert set(methods.about()) == set(methods.METHODS) >= {"plain", "+hta", "llama.cpp", "triforce", "rapid"}
    with pytest.raises(UsageError, match="no method 'ngrams'") as caught:
        methods.parse("plain,ngrams")
    assert "magicdec" in caught.value.why


def test_what_cannot_run_here_says_why(models) -> None:
    draft = models.preset.draft.model_copy(update={"kind": "ngram", "of": (), "source": None})
    models.preset = models.preset.model_copy(update={"draft": draft})
    models.directories = replace(models.directories, draft=None)
    able, unable = methods.build(methods.METHODS, models)
    lack = {"llama.cpp", "eagle", "block", "mtp", "assistant", "table"}
    assert {"lm", "transformers-assisted"} <= set(unable) <= {"lm", "transformers-assisted", *lack}
    assert all("no draft" in why or name in lack for name, why in unable.items())
    # Without a draft model, "the draft" is n-grams and the target itself, so that policies have something to act on.
    assert models.draft == "blend"
    target = Prefilled(models.lm)
    recipe = able["specextend"]
    assert isinstance(recipe, Recipe)
    assert [source.name for source in recipe.drafter(target).sources] == ["ngram", "self"]
    assert recipe.gate
    assert recipe.retrieval.policy == "retrieval"


def test_the_recipes_of_the_parts(models) -> None:
    able, _ = methods.build(methods.METHODS, models)
    kernels = {name: (m.prefill, m.verify, m.retrieval.policy) for name, m in able.items() if isinstance(m, Recipe)}
    assert kernels["naive"] == ("reference", "reference", "full")
    assert kernels["+flash"] == ("auto", "reference", "full")
    assert kernels["+hta"] == ("reference", "auto", "full")
    assert kernels["+streaming"] == ("reference", "reference", "streaming")
    assert kernels["+retrieval"] == ("reference", "reference", "retrieval")
    assert kernels["standard"] == ("auto", "auto", "full")
    plain = able["plain"]
    assert isinstance(plain, Recipe)
    assert plain.shape == TreeShape(nodes=1)
    assert plain.retrieval == replace(models.retrieval, policy="full")


def test_a_prompt_is_read_once_for_all_methods_whichever_layers_choose(models, prompts) -> None:
    models.preset = models.preset.model_copy(update={"retrieval": replace(models.preset.retrieval, layers=(0, 1))})
    able, _ = methods.build(("plain", "standard", "streaming", "specextend"), models)
    decoding = Decoding(Sampling(), 4, frozenset(), 64)
    runner = Runner(models, able, decoding, 1, 0)
    events = of(list(runner.run(prompts[:1])), Working)
    read = [event.done for event in events if event.what.startswith("reading")]
    assert read == sorted(set(read))
    assert len(runner.records()) == 4


def test_a_part_runs_on_its_kernels(models, prompts, monkeypatch: pytest.MonkeyPatch) -> None:
    from specextend_cli.engine import attention_backends as select

    calls: list[str] = []
    for name, declared in list(select.BACKENDS.items()):
        made = declared.make()

        def spy(q, k, v, scale, tree_mask, softmax, name=name, backend=made):
            calls.append(f"{name} {'reads' if q.shape[2] > 60 else 'verifies'}")
            return backend(q, k, v, scale, tree_mask, softmax)

        monkeypatch.setitem(select.BACKENDS, name, replace(declared, make=lambda spy=spy: spy))
    for method, used in (
        ("naive", {"reference reads", "reference verifies"}),
        ("+flash", {"split reads", "reference verifies"}),
        ("+hta", {"reference reads", "split verifies"}),
    ):
        made = runner(models, ("plain", method))
        ngrams = lambda target: models.drafter("ngram", target, models.retrieval)  # noqa: E731
        made.methods = {"plain": replace(made.methods[method], drafter=ngrams)}
        calls.clear()
        models.lm.backend = select.BACKENDS["torch"].make()
        list(made.run(prompts[:1]))
        assert set(calls) == used


def test_machine_and_memory(models) -> None:
    from specextend_cli.bench import machine

    facts = machine.describe(models.device)
    assert facts.processor
    assert facts.device == "cpu"
    assert facts.torch == torch.__version__
    assert facts.commit is None or len(facts.commit.rstrip("+")) == 12
    machine.reset_peak(models.device)
    before = machine.peak(models.device)
    block = torch.ones(64 << 20, dtype=torch.uint8)
    assert machine.peak(models.device) >= before + (48 << 20)
    del block
    if Path("/proc/self/clear_refs").exists():
        machine.reset_peak(models.device)
        assert machine.peak(models.device) < before + (32 << 20)
