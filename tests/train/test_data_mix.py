"""Quotes: copied from the excerpt that was asked about, and drawn in their share."""

from __future__ import annotations

import random
from collections import Counter
from itertools import islice, pairwise

from specextend_cli.train.data_mix import copy_samples
from specextend_cli.train.samples import Frame, Sample, by_prompt, draws
from tests.engine.tiny_models import prompt

FRAME = Frame([1, 2], [3, 3], leads=([4, 4],))


def test_an_answer_is_passages_of_its_excerpt() -> None:
    documents = [list(range(100, 400)), list(range(500, 560))]
    samples = copy_samples(documents, FRAME, (50, 200), 80, 40, seed=1)
    assert (
        samples
        == copy_samples(documents, FRAME, (50, 200), 80, 40, seed=1)
        != copy_samples(documents, FRAME, (50, 200), 80, 40, seed=2)
    )
    lengths = Counter()
    for sample in samples:
        asked, said = sample.tokens[: sample.start + 2], sample.tokens[sample.start + 2 :]
        excerpt = asked[2:-2]
        assert (asked[:2], asked[-2:], sample.output, len(said)) == ([1, 2], [3, 3], sample.start + 2, 79)
        assert excerpt == list(range(excerpt[0], excerpt[0] + len(excerpt)))
        assert said[:2] == [4, 4]
        assert set(said) <= {4, *excerpt}
        follows = [later == token + 1 for token, later in pairwise(said) if token != 4 != later]
        assert sum(follows) > 0.9 * len(follows)
        lengths[len(excerpt)] += 1
    assert lengths[50] > lengths[200] > 0


def test_a_length_that_no_document_has_is_left_out() -> None:
    assert {len(sample.tokens) for sample in copy_samples([prompt(60)], FRAME, (32, 999), 8, 5, seed=0)} == {
        2 + 32 + 2 + 7
    }


def test_kinds_are_drawn_by_their_shares_and_every_sample_before_one_returns() -> None:
    few, many = [[Sample([n], 0)] for n in range(3)], [[Sample([n], 0)] for n in range(100, 400)]
    groups = draws([(0.75, few), (0.25, many), (0.0, [[Sample([7], 0)]]), (1.0, [])], random.Random(0))
    drawn = [group[0].tokens[0] for group in islice(groups, 600)]
    firsts = [token for token in drawn if token < 3]
    assert 400 < len(firsts) < 500
    assert all(set(firsts[at : at + 3]) == {0, 1, 2} for at in range(0, len(firsts) - 2, 3))
    assert max(Counter(token for token in drawn if token >= 100).values()) == 1
    assert 7 not in drawn


def test_answers_to_one_prompt_form_groups_of_so_many_rows() -> None:
    def answer(prompt: int, rows: int) -> Sample:
        return Sample([prompt, 5, *range(10, 10 + rows)], 0, output=2)

    a, b, c, d, e = answer(1, 40), answer(2, 40), answer(1, 50), answer(1, 20), answer(2, 300)
    assert [sample.rows for sample in (a, c, e)] == [41, 51, 301]
    assert by_prompt([a, b, c, d, e], 100) == [[a, c], [b], [d], [e]]
    assert by_prompt([a, c, d], 1000) == [[a, c, d]]
