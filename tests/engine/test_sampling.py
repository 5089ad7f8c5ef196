from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import LogitsProcessorList, NoRepeatNGramLogitsProcessor, RepetitionPenaltyLogitsProcessor

from specextend_cli.engine.config import Retrieval, Sampling, TreeShape
from specextend_cli.engine.decode import decode
from specextend_cli.engine.draft_gate import DraftGate
from specextend_cli.engine.drafters import Drafter, EagleDrafter, NgramDrafter, NoDrafter
from specextend_cli.engine.events import Step
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.head_config import HeadConfig
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.sampling import BatchSampler, Sampler
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
from specextend_cli.engine.tree import DraftTree
from tests.engine.tiny_heads import EAGLE3
from tests.engine.tiny_models import COMMON, make
from tests.helpers.draft_trees import trees
from tests.helpers.pretend_device import PretendDevice

TINY_VOCABULARY = 4


@settings(max_examples=60)
@given(trees(vocabulary=4), st.lists(st.integers(0, 3), min_size=1, max_size=30), st.integers(1, 4), st.booleans())
def test_penalties_use_each_node_s_own_past(tree: DraftTree, past: list[int], ngram: int, everything: bool) -> None:
    """Row by row, what transformers does with the sequence that leads to each node."""
    scope = "all" if everything else "output"
    sampling = Sampling(repetition_penalty=1.4, no_repeat_ngram=ngram, penalty_scope=scope)
    prompt, output = past[: len(past) // 2], [*past[len(past) // 2 :], tree.tokens[0]]
    sampler = Sampler(sampling, prompt, torch.device("cpu"))
    sampler.commit(output)
    behind = prompt + output if everything else output
    logits = torch.randn(len(tree), 4, generator=torch.Generator().manual_seed(len(past)))
    theirs = LogitsProcessorList([RepetitionPenaltyLogitsProcessor(1.4), NoRepeatNGramLogitsProcessor(ngram)])
    expected = []
    for node in range(len(tree)):
        path = torch.tensor(tree.tokens)[tree.mask[node]].tolist()[1:]
        row = theirs(torch.tensor([[*behind, *path]]), logits[node : node + 1].clone())
        expected.append(int(row.argmax(-1)))
    assert sampler.choose(logits, tree).tolist() == expected


ALIKE = {
    "greedy": Sampling(),
    "sampled": Sampling(temperature=0.8, top_k=12, top_p=0.9, min_p=0.02),
    "penalty": Sampling(repetition_penalty=1.5),
    "bonus": Sampling(repetition_penalty=0.7, penalty_scope="all"),
    "1-gram": Sampling(no_repeat_ngram=1),
    "2-gram": Sampling(no_repeat_ngram=2, penalty_scope="all"),
    "everything": Sampling(temperature=1.2, repetition_penalty=1.3, no_repeat_ngram=3, penalty_scope="all"),
}


@pytest.mark.parametrize("kind", [*ALIKE, "mixed"])
def test_a_batch_is_sampled_as_its_sequences_are(pretend: PretendDevice, kind: str) -> None:
    """Token for token, while sequences of other lengths end and begin; the device reads nothing back."""
    vocabulary, slots, width = 24, 5, 80
    generator = torch.Generator().manual_seed(5)
    kinds = [*ALIKE.values()] if kind == "mixed" else [ALIKE[kind]]
    together = BatchSampler(slots, width, torch.device("cuda"))
    alone: list[Sampler] = []
    begun = 0

    def begin() -> None:
        nonlocal begun
        config = replace(kinds[begun % len(kinds)], seed=begun)
        prompt = torch.randint(0, vocabulary, (begun * 7 % 30,), generator=generator).tolist()
        first = [begun % vocabulary] if begun % 3 else []  # some have written nothing yet
        samplers = [Sampler(config, prompt, torch.device(where)) for where in ("cpu", "cuda")]
        for sampler in samplers:
            if first:
                sampler.commit(first)
        alone.append(samplers[0])
        together.add(samplers[1])
        begun += 1

    def end(slot: int) -> None:
        together.drop(slot)
        alone[slot] = alone[-1]
        alone.pop()

    for step in range(40):
        while len(alone) < slots and (step % 9 or not alone):
            begin()
        logits = torch.randn(len(alone), vocabulary, generator=generator) * 2
        expected = []
        for sampler, row in zip(alone, logits, strict=True):
            expected.append(int(sampler.choose(row[None])))
            sampler.commit(expected[-1:])
        there = logits.to("cuda")
        pretend.forget()
        choice = together.choose(there)
        assert not pretend.reads
        assert choice.tolist() == expected, step
        if step % 4 == 3:
            end((0, len(alone) - 1, len(alone) // 2)[step // 4 % 3])
    assert begun > 10


def test_sequences_of_a_batch_become_alike_and_unlike_again(pretend: PretendDevice) -> None:
    """Whether they are chosen for together or one by one, all tokens before count."""
    together, alone = BatchSampler(2, 40, torch.device("cuda")), []
    logits = torch.linspace(1.0, 2.0, 12)[None]  # without the penalty, always the last token
    for config in (ALIKE["penalty"], ALIKE["greedy"], ALIKE["greedy"]):
        if len(alone) == 2:
            together.drop(1)
            alone.pop()
        alone.append(Sampler(config, [1], torch.device("cpu")))
        together.add(Sampler(config, [1], torch.device("cuda")))
        for _ in range(3):
            expected = [int(sampler.choose(logits)) for sampler in alone]
            for sampler, token in zip(alone, expected, strict=True):
                sampler.commit([token])
            assert together.choose(logits.expand(len(alone), -1).to("cuda")).tolist() == expected


def chi_square(observed: Counter[tuple[int, ...]], expected: dict[tuple[int, ...], float], n: int) -> float:
    """p-value of the counts, by Wilson and Hilferty's approximation."""
    statistic = sum((observed[key] - n * p) ** 2 / (n * p) for key, p in expected.items())
    k = len(expected) - 1
    z = ((statistic / k) ** (1 / 3) - (1 - 2 / (9 * k))) / math.sqrt(2 / (9 * k))
    return 0.5 * math.erfc(z / math.sqrt(2))


def tiny_vocabulary_model(seed: int = 0) -> transformers.PreTrainedModel:
    config = transformers.LlamaConfig(**{**COMMON, "vocab_size": TINY_VOCABULARY, "initializer_range": 0.08})
    return make(config, seed)


def small_head(config: HeadConfig) -> EagleHead:
    torch.manual_seed(2)
    return EagleHead(replace(config, embedding=TINY_VOCABULARY, draft_vocab=TINY_VOCABULARY))


@pytest.mark.full
@pytest.mark.parametrize("name", ["none", "ngram", "eagle3"])
def test_sampling_keeps_the_targets_distribution(name: str) -> None:
    """Chi-square over all continuations of two tokens, each probability computed from the model directly.

    Every drafter's samples are those of plain decoding, token for token: tests/engine/test_identity.py.
    """
    lm = LanguageModel(tiny_vocabulary_model())
    target = Target(lm)
    retrieval = Retrieval(policy="retrieval", chunk=2, top_k=2, recent=2, sinks=1, every=1)
    # What was written for earlier prompts is indexed again for every run: of many tokens, most of the test's time.
    drafters: dict[str, Drafter] = {
        "none": NoDrafter(),
        "ngram": NgramDrafter(remembered=256),
        "eagle3": EagleDrafter(small_head(EAGLE3), target, retrieval),
    }
    prompt = [0, 1, 2, 3, 1, 2, 0, 3, 1, 2, 2, 1]

    @torch.inference_mode()
    def probabilities(tokens: list[int]) -> list[float]:
        out = lm.forward(torch.tensor(tokens), torch.arange(len(tokens)), lm.new_cache(32), logits_to_keep=1)
        return (out.logits[0] / 0.9).softmax(-1).tolist()

    expected: dict[tuple[int, ...], float] = {}
    for first, p in enumerate(probabilities(prompt)):
        for second, q in enumerate(probabilities([*prompt, first])):
            for third, r in enumerate(probabilities([*prompt, first, second])):
                expected[first, second, third] = p * q * r
    n = 1000
    observed: Counter[tuple[int, ...]] = Counter()
    for seed in range(n):
        tokens: list[int] = []
        for event in decode(
            target,
            drafters[name],
            prompt,
            stop=Stop(3),
            sampling=Sampling(temperature=0.9, seed=seed),
            retrieval=retrieval,
            gate=DraftGate(TreeShape(nodes=6, depth=2, width=3, threshold=0.0), enabled=False),
        ):
            if isinstance(event, Step):
                tokens.extend(event.tokens)
        observed[tuple(tokens)] += 1
    assert chi_square(observed, expected, n) > 0.01


def test_the_chi_square_test_can_fail() -> None:
    fair = {(i,): 0.25 for i in range(4)}
    assert chi_square(Counter({(0,): 251, (1,): 248, (2,): 255, (3,): 246}), fair, 1000) > 0.5
    assert chi_square(Counter({(0,): 300, (1,): 220, (2,): 240, (3,): 240}), fair, 1000) < 0.01


@pytest.mark.parametrize("vocabulary", [512, 500])
def test_ties_go_to_the_first_token(vocabulary: int) -> None:
    logits = torch.randint(0, 40, (50, vocabulary), generator=torch.Generator().manual_seed(0)).float()
    logits[0] = -torch.inf
    logits[0, 300:302] = -1.0
    sampler = Sampler(Sampling(), [1], torch.device("cpu"))
    expected = [row.index(max(row)) for row in logits.tolist()]
    assert sampler.choose(logits).tolist() == expected


def test_sampling_depends_on_the_seed() -> None:
    lm = LanguageModel(tiny_vocabulary_model())
    logits = torch.zeros(1, 50)

    def draw(seed: int) -> list[int]:
        sampler = Sampler(Sampling(temperature=1.0, seed=seed), [1], lm.device)
        out = []
        for _ in range(20):
            out.append(int(sampler.choose(logits)[0]))
            sampler.commit(out[-1:])
        return out

    assert draw(3) == draw(3)
    assert draw(3) != draw(4)
    assert len(set(draw(3))) > 8


@pytest.mark.parametrize("bad", [{"temperature": -1}, {"top_p": 0}, {"min_p": 2}, {"repetition_penalty": 0}])
def test_impossible_settings_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError):
        Sampling(**bad)
