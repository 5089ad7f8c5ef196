from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import LogitsProcessorList, NoRepeatNGramLogitsProcessor, RepetitionPenaltyLogitsProcessor

from specextend_cli.engine.config import Sampling
from specextend_cli.engine.sampling import Sampler
from specextend_cli.engine.tree import DraftTree
from tests.helpers.draft_trees import trees


@settings(max_examples=60)
@given(trees(vocabulary=4), st.lists(st.integers(0, 3), max_size=30), st.integers(1, 4))
def test_penalties_use_each_node_s_own_past(tree: DraftTree, past: list[int], ngram: int) -> None:
    """Row by row, what transformers does with the sequence that leads to each node."""
    sampler = Sampler(Sampling(repetition_penalty=1.4, no_repeat_ngram=ngram), torch.device("cpu"))
    output = [*past, tree.tokens[0]]
    sampler.commit(torch.tensor([output]))
    logits = torch.randn(len(tree), 4, generator=torch.Generator().manual_seed(len(past)))
    theirs = LogitsProcessorList([RepetitionPenaltyLogitsProcessor(1.4), NoRepeatNGramLogitsProcessor(ngram)])
    expected = []
    for node in range(len(tree)):
        path = torch.tensor(tree.tokens)[tree.mask[node]].tolist()[1:]
        row = theirs(torch.tensor([[*output, *path]]), logits[node : node + 1].clone())
        expected.append(int(row.argmax(-1)))
    assert sampler.choose(logits, tree).tolist() == expected


def test_samples_are_those_of_the_softmax() -> None:
    """Every drafter's samples are those of plain decoding, token for token: tests/engine/test_identity.py."""
    logits, n = torch.tensor([[1.0, 0.2, -0.5, 0.9, 3.0, -2.0]]), 2000
    weights = {token: math.exp(logits[0, token] / 1.7) for token in (0, 1, 3, 4)}  # nine tenths, with the fourth
    expected = {token: weight / sum(weights.values()) for token, weight in weights.items()}
    samplers = [Sampler(Sampling(temperature=1.7, top_p=0.9, seed=seed), torch.device("cpu")) for seed in range(n)]
    observed = Counter(int(sampler.choose(logits)[0]) for sampler in samplers)
    assert observed.keys() == expected.keys()
    chi_square = torch.tensor(sum((observed[key] - n * p) ** 2 / (n * p) for key, p in expected.items()))
    assert torch.special.gammaincc(torch.tensor((len(expected) - 1) / 2), chi_square / 2) > 0.01


@pytest.mark.parametrize("vocabulary", [512, 500])
def test_ties_go_to_the_first_token(vocabulary: int) -> None:
    logits = torch.randint(0, 40, (50, vocabulary), generator=torch.Generator().manual_seed(0)).float()
    logits[0] = -torch.inf
    logits[0, 300:302] = -1.0
    sampler = Sampler(Sampling(), torch.device("cpu"))
    expected = [row.index(max(row)) for row in logits.tolist()]
    assert sampler.choose(logits).tolist() == expected


@pytest.mark.parametrize("bad", [{"temperature": -1}, {"top_p": 0}, {"repetition_penalty": 0}])
def test_impossible_settings_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError):
        Sampling(**bad)
