"""Every method over the same prompts: equal tokens, honest records, nothing measured twice."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from specextend_cli.bench import measure, methods
from specextend_cli.bench.measure import Decoding
from specextend_cli.bench.models import Recipe
from specextend_cli.bench.prefilled import Prefilled
from specextend_cli.bench.prompts import Prompt, Source, summaries
from specextend_cli.bench.results import Divergence, Measured, Run, Running
from specextend_cli.bench.runner import Runner
from specextend_cli.bench.statistics import Measurements, first_difference
from specextend_cli.engine.config import Sampling
from specextend_cli.engine.drafters import EagleDrafter
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.tree import DraftTree
from specextend_cli.errors import ModelError
from specextend_cli.runtime.loading_thread import result_of
from specextend_cli.summarize.events import Warned
from tests.engine.tiny_heads import tiny_head
from tests.summarize.tiny_preset import text


@pytest.fixture
def prompts(prompter) -> tuple[Prompt, ...]:
    return summaries([Source("a", text(90)), Source("b", text(80, start=7))], prompter, [192, 300], docs=2)[0]


def runner(models, prompts, *, sampling: Sampling | None = None, tokens: int = 24, **options) -> Runner:
    decoding = Decoding(sampling or Sampling(), tokens, frozenset(), models.prefill_chunk)
    return Runner(models, prompts, decoding, **options)


def measured(runner: Runner, *names: str, **more) -> tuple[list[Running], Measurements]:
    """The events and the result of these methods of the registry, and of `more`."""
    events: list[Running] = []
    found = result_of(runner.measure({**runner.named(*names), **more}), events.append)
    return events, found


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
    made = runner(models, prompts[:1] + prompts[2:3], sampling=sampling, tokens=10)
    events, found = measured(made, *methods.METHODS)
    assert not of(events, Warned)
    assert made.wrong == []
    assert set(made.skipped) <= {"llama.cpp", "eagle", "mtp", "assistant", "table"}
    ran = set(methods.METHODS) - set(made.skipped)
    assert {record.method for record in found.records} == ran
    assert len(found.records) == 2 * len(ran) == of(events, Measured)[-1].done
    plain = {record.length: record for record in found.records if record.method == "plain"}
    for record in found.records:
        assert record.tokens == plain[record.length].tokens
        assert record.text == plain[record.length].text != ""
        assert record.prefill_seconds > 0
        assert record.decode_seconds > 0
        if not record.method.startswith("transformers"):
            assert sum(record.accepted) == len(record.tokens) - 1
            assert len(record.accepted) == len(record.nodes)
        sees = {"streaming", "specextend", "self", "lm", "blend", "+streaming", "+retrieval", "magicdec", "triforce"}
        assert (record.hit is not None) == (record.method in sees)
    assert all(size == 1 for size in plain[192].nodes)


def test_a_prompt_is_read_once_for_all_methods_and_once_more_for_other_kernels(models, prompts, monkeypatch) -> None:
    sizes: list[int] = []
    forward = LanguageModel.forward

    def spy(self, tokens, positions, cache, *mask, **options):
        if self is models.lm and len(tokens) > 60:
            sizes.append(len(tokens))
        return forward(self, tokens, positions, cache, *mask, **options)

    monkeypatch.setattr(LanguageModel, "forward", spy)
    models.preset = models.preset.model_copy(update={"retrieval": replace(models.preset.retrieval, layers=(0, 1))})
    measured(runner(models, prompts[:2], repeats=2, tokens=8), "ngram", "self", "specextend", "magicdec")
    assert sizes == [192, 192]
    sizes.clear()
    measured(runner(models, prompts[:1], tokens=8), "naive", "+flash", "+hta")
    assert sizes == [192, 192]


def test_drafters_that_read_features_and_those_that_do_not_share_one_reading(models, prompts) -> None:
    size = models.lm.vocabulary
    head = tiny_head(embedding=size, draft_vocab=size)
    retrieval = replace(models.retrieval, policy="retrieval")
    made = runner(models, prompts[:2])
    eagle = Recipe(lambda target: EagleDrafter(head, target, retrieval), retrieval, models.preset.tree)
    _, found = measured(made, "ngram", eagle=eagle)
    assert made.wrong == []
    assert {record.method for record in found.records} == {"plain", "ngram", "eagle"}
    assert len({record.tokens for record in found.records if record.document == "a"}) == 1
    assert all(record.hit for record in found.records if record.method == "eagle")


def test_order_is_random_but_repeatable(models, prompts) -> None:
    def order(seed: int) -> list[str]:
        events, _ = measured(runner(models, prompts, seed=seed, tokens=4), "ngram", "self", "lm")
        return [event.record.method for event in of(events, Measured)]

    first = order(1)
    assert order(1) == first != order(2)
    assert len({tuple(first[at : at + 4]) for at in range(0, 16, 4)}) > 1


def test_past_the_window_rope_is_stretched_for_everybody_and_said(models, prompter) -> None:
    prompts, _ = summaries([Source("a", text(90))], prompter, [256, 500], docs=1)
    made = runner(models, prompts)  # a window of 512, and 24 new tokens
    rotary = models.lm.model.model.rotary_emb
    _, found = measured(made, "specextend", "transformers")
    assert {(record.length, record.scaled) for record in found.records} == {(256, False), (500, True)}
    assert made.wrong == []
    assert len({record.tokens for record in found.records if record.scaled}) == 1
    assert models.lm.model.model.rotary_emb is rotary


# ------------------------------------------------------------------------------------------------ what goes wrong


class Liar(Prefilled):
    """A target whose verification of trees is wrong in one place."""

    def verify(self, tree: DraftTree, **options):
        out = super().verify(tree, **options)
        if len(tree) > 1:
            out.logits[:, 7] += 1e3
        return out


def test_a_method_that_lies_is_caught(models, prompts) -> None:
    planted = models.recipe("ngram", models.under("full"))  # without a gate's patience

    class Wrong(Runner):
        def _target(self, recipe: Recipe) -> Prefilled:
            target = super()._target(recipe)
            target.__class__ = Liar if recipe is planted else Prefilled
            return target

    made = Wrong(models, prompts, Decoding(Sampling(), 24, frozenset(), models.prefill_chunk))
    events, found = measured(made, "ngram", planted=planted)
    assert made.wrong == ["planted"]
    bad = [record for record in found.records if record.divergence]
    assert {record.method for record in bad} == {"planted"}
    assert len(of(events, Warned)) == len(bad) >= 1
    assert all("differs from plain decoding" in event.message for event in of(events, Warned))
    plain = {(record.length, record.document): record for record in found.records if record.method == "plain"}
    for record in bad:
        expected = plain[record.length, record.document].tokens
        assert record.divergence.index == first_difference(expected, record.tokens)
        assert record.divergence.gap > 0
    assert [row.method for row in found.rows if row.equal < row.runs] == ["planted"] * len({r.length for r in bad})


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
    _, plain = measured(Runner(models, prompts[:1], decoding))
    written = plain.records[0].tokens
    judge = Prefilled(models.lm)
    judge.begin(400)
    logits = judge.prefill(torch.tensor(prompt + list(written[:index]))).logits
    sampler = Sampler(sampling, models.device)
    if index:
        sampler.commit(torch.tensor([written[:index]]))
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

    def __call__(self, prompt, decoding: Decoding) -> Run:
        self.runs += 1
        if len(prompt) > 100:
            raise ModelError("it fell over", why="too long")
        return Run((1, 2), 0.1, 0.1)


def test_a_method_that_fails_is_left_out_with_its_reason(models, prompts) -> None:
    made, peer = runner(models, prompts), Failing()
    events, found = measured(made, "ngram", peer=peer)
    assert made.skipped == {"peer": "it fell over (too long), at 192 tokens"}
    assert of(events, Warned) == [Warned("peer is left out: it fell over (too long), at 192 tokens")]
    assert peer.runs == 2
    assert {record.method for record in found.records} == {"plain", "ngram"}


def test_a_peer_that_differs_is_reported_and_no_failure(models, prompts) -> None:
    """Nor is a token that the tokenizer does not have, as of a GGUF file with more rows than tokens."""

    class Other(Failing):
        def __call__(self, prompt, decoding: Decoding) -> Run:
            return Run((10**6, 5), 0.1, 0.1)

    made = runner(models, prompts[:1])
    events, found = measured(made, other=Other())
    assert [event.message.partition(" ")[0] for event in of(events, Warned)] == ["other"]
    assert made.wrong == []
    assert next(r.text for r in found.records if r.method == "other") == models.encoder.decode([5])


# ------------------------------------------------------------------------------------------------------- registry


def test_method_names_are_parsed() -> None:
    assert methods.parse(None) == methods.DEFAULT
    assert methods.parse("ngram, self,ngram") == ("plain", "ngram", "self")
    assert set(methods.METHODS) >= {"plain", "+hta", "llama.cpp", "triforce", "magicdec"}


def test_what_cannot_run_here_says_why(models) -> None:
    draft = models.preset.draft.model_copy(update={"kind": "ngram", "of": (), "source": None})
    models.preset = models.preset.model_copy(update={"draft": draft})
    models.directories = replace(models.directories, draft=None)
    made = runner(models, ())
    able, unable = made.named(*methods.METHODS), made.skipped
    lack = {"llama.cpp", "eagle", "mtp", "assistant", "table"}
    assert {"lm"} <= set(unable) <= {"lm", *lack}
    assert all("no draft" in why or name in lack for name, why in unable.items())
    # Without a draft model, "the draft" is n-grams and the target itself, so that policies have something to act on.
    assert models.draft == "blend"
    target = Prefilled(models.lm)
    recipe = able["specextend"]
    assert isinstance(recipe, Recipe)
    assert [source.name for source in recipe.drafter(target).sources] == ["ngram", "self"]
    assert recipe.gate
    assert recipe.retrieval.policy == "retrieval"


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
        made = runner(models, prompts[:1])
        ngrams = lambda target: models.drafter("ngram", target, models.retrieval)  # noqa: E731
        part = replace(made.named(method)[method], drafter=ngrams)
        calls.clear()
        models.lm.backend = select.BACKENDS["torch"].make()
        measured(made, plain=part)
        assert set(calls) == used
