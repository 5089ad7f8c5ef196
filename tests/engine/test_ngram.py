"""Copying: the automaton against brute force, and what the drafter makes of it."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.drafters.ngram import NgramDrafter, SuffixAutomaton

SHAPE = TreeShape(nodes=8, depth=6)


def longest_match(tokens: Sequence[int]) -> int:
    """Tokens of the longest end of the sequence that occurred before, by trying."""
    for m in range(len(tokens) - 1, 0, -1):
        end = tokens[len(tokens) - m :]
        if any(tokens[at : at + m] == end for at in range(len(tokens) - m)):
            return m
    return 0


def followers(tokens: Sequence[int], m: int) -> dict[int, tuple[int, int]]:
    """How often each token came after an earlier occurrence of the last m, and how many tokens there then were."""
    end, found = tokens[len(tokens) - m :], dict[int, tuple[int, int]]()
    for at in range(len(tokens) - m):
        if tokens[at : at + m] == end:
            count, _ = found.get(tokens[at + m], (0, 0))
            found[tokens[at + m]] = count + 1, at + m + 1
    return found


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=30))
def test_the_automaton_equals_brute_force(tokens: list[int]) -> None:
    automaton = SuffixAutomaton()
    for n, token in enumerate(tokens, 1):
        automaton.append(token)
        so_far = tokens[:n]
        m = automaton.longest[automaton.match]
        assert m == longest_match(so_far)
        following = automaton.following[automaton.match].items()
        if m:
            found = {token: (automaton.count[at], automaton.newest[at]) for token, at in following}
            assert found == followers(so_far, m)


def test_a_repetitive_text_stays_cheap() -> None:
    """Every end of such a text is a match: the states are many, the hops bounded."""
    automaton = SuffixAutomaton()
    for _ in range(20_000):
        automaton.append(7)
    assert automaton.longest[automaton.match] == 19_999
    assert len(automaton.longest) == 20_001


def chain(drafter: NgramDrafter) -> list[int]:
    """The likeliest path."""
    return [*drafter.propose(SHAPE).chain().tokens[1:]]


def test_the_continuation_of_a_match_is_proposed() -> None:
    drafter = NgramDrafter()
    drafter.observe([5, 6, 7, 8, 9, 10, 11, 1, 2, 3, 5, 6, 7], None)
    assert chain(drafter) == [8, 9, 10, 11, 1, 2]


def test_a_longer_match_comes_before_a_shorter_one() -> None:
    drafter = NgramDrafter()
    drafter.observe([4, 1, 2, 30, 9, 1, 2, 31, 8, 1, 2, 31, 7, 4, 1, 2], None)
    tree = drafter.propose(SHAPE)
    firsts = {int(tree.tokens[i]): float(tree.scores[i]) for i in range(1, len(tree)) if int(tree.parents[i]) == 0}
    assert max(firsts, key=firsts.__getitem__) == 30  # after 4 1 2, where 1 2 alone would say 31
    assert 31 in firsts


def test_scores_are_calibrated_for_matches_of_every_length() -> None:
    """Long matches come true here, short ones hardly ever: each must promise what it keeps."""
    draw = random.Random(1)
    phrases = [[draw.randrange(40) for _ in range(12)] for _ in range(6)]
    drafter, automaton, first = NgramDrafter(), SuffixAutomaton(), [draw.randrange(40) for _ in range(100)]
    promised, right, asked = {True: 0.0, False: 0.0}, {True: 0, False: 0}, {True: 0, False: 0}
    drafter.observe(first, None)
    for token in first:
        automaton.append(token)
    text = [token for _ in range(120) for token in (*draw.choice(phrases), *(draw.randrange(40) for _ in range(6)))]
    for token in text:
        tree = drafter.propose(TreeShape(nodes=2, depth=1))
        is_long = automaton.longest[automaton.match] >= 3
        if len(tree) > 1:
            promised[is_long] += float(tree.scores[1])
            right[is_long] += int(tree.tokens[1]) == token
            asked[is_long] += 1
        drafter.observe([token], None)
        automaton.append(token)
    for is_long in (True, False):
        assert promised[is_long] / asked[is_long] == pytest.approx(right[is_long] / asked[is_long], abs=0.1)
    assert right[True] / asked[True] > right[False] / asked[False] + 0.3


def test_outputs_for_earlier_prompts_are_remembered() -> None:
    prompt, answer = [1, 2, 3, 4, 50, 51], [60, 61, 62, 63, 64]
    drafter = NgramDrafter()
    for _ in range(2):
        drafter.begin(100)
        drafter.observe(prompt, None)
        drafter.observe(answer[:1], None)
        path = chain(drafter)
        drafter.observe(answer[1:], None)
    assert path[:4] == [61, 62, 63, 64]
    drafter.begin(100)
    drafter.observe([9, 8, 4, 50, 51], None)  # another document that ends as prompts do
    drafter.observe([60], None)
    assert -1 not in drafter.propose(SHAPE).tokens
    assert chain(drafter)[:4] == [61, 62, 63, 64]


def test_memory_is_bounded_and_holds_no_prompts() -> None:
    drafter = NgramDrafter(remembered=20)
    for number in range(9):
        drafter.begin(100)
        drafter.observe([1000 + number] * 50, None)
        drafter.observe([number], None)
        drafter.propose(SHAPE)
        drafter.observe([number + 1, number + 2], None)
    drafter.begin(0)
    assert drafter._automaton.size == 20
    assert torch.equal(drafter.visible(), torch.arange(0))
