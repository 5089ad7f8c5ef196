"""N-gram tables: counted in answers, kept in a file, read back whole or refused, and drafted from."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.drafters.table import CONTEXT, NgramTable, NgramTableDrafter, key_of
from specextend_cli.errors import ModelError
from specextend_cli.models.ngram_table import FILE, load_table
from tests.helpers.draft_files import table_file

VOCABULARY = 40
SHAPE = TreeShape(nodes=6, depth=4)


def answers(seed: int, many: int = 60) -> list[tuple[list[int], int]]:
    """Tokens of prompt and answer, and where the answer begins; few tokens, so that contexts occur often."""
    generator = torch.Generator().manual_seed(seed)
    return [
        (torch.randint(0, 6, (CONTEXT + 2 + i % 20,), generator=generator).tolist(), CONTEXT + i % 2)
        for i in range(many)
    ]


def saved(given: Sequence[tuple[Sequence[int], int]], directory: Path) -> NgramTable:
    (directory / FILE).write_bytes(table_file(given))
    return load_table(directory, VOCABULARY)


def following(table: NgramTable, context: Sequence[int]) -> dict[int, float]:
    row = table.rows[key_of(context)]
    return {token: share for token, share in zip(table.tokens[row], table.shares[row], strict=True) if share}


def test_counts_are_those_of_a_loop(tmp_path: Path) -> None:
    given = answers(0)
    counted: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
    for tokens, start in given:
        for at in range(start, len(tokens)):
            for length in range(1, CONTEXT + 1):
                counted[tuple(tokens[at - length : at])][tokens[at]] += 1
    often = {context: counts for context, counts in counted.items() if counts.total() >= 5}
    table = saved(given, tmp_path)
    assert {len(context) for context in often} == {1, 2, 3}
    assert table.rows.keys() == {key_of(context) for context in often}
    for context, counts in often.items():
        found = following(table, context)
        assert sorted(found.values()) == sorted(n / (counts.total() + 1) for _, n in counts.most_common(3))
        assert all(found[token] == counts[token] / (counts.total() + 1) for token in found)


def test_contexts_of_different_lengths_have_different_keys() -> None:
    contexts = [(0,), (0, 0), (0, 0, 0), (1,), (1, 0), (0, 1), (2**21 - 2,) * 3]
    assert len({key_of(context) for context in contexts}) == len(contexts)
    assert max(map(key_of, contexts)) < 2**63


@pytest.mark.parametrize("given", [[], [([1, 2, 3], 3)], [([1, 2, 3, 4], 1)]])
def test_without_answers_there_is_nothing_to_propose(given: list[tuple[list[int], int]], tmp_path: Path) -> None:
    drafter = NgramTableDrafter(saved(given, tmp_path))
    drafter.observe([1, 2], None)
    assert list(drafter.propose(SHAPE).tokens) == [2]


def test_the_longest_context_is_looked_up(tmp_path: Path) -> None:
    drafter = NgramTableDrafter(saved([([9, 9, 9, 1, 2, 3, 4], 3)] * 5 + [([9, 9, 9, 8, 3, 5], 3)] * 9, tmp_path))
    drafter.observe([1, 2], None)
    drafter.observe([3], None)
    tree = drafter.propose(SHAPE)
    assert (tree.tokens[1], tree.parents[1]) == (4, 0)  # after 1, 2, 3; after 3 alone, 5 is likelier
    assert tree.scores[1] == pytest.approx(5 / 6)
    assert tree.cost == ([0, 0], 0)
    drafter.begin(10)
    drafter.observe([7, 3], None)
    assert drafter.propose(SHAPE).tokens[1] == 5


def test_a_tree_is_as_large_and_deep_as_it_may_be(tmp_path: Path) -> None:
    drafter = NgramTableDrafter(saved(answers(1), tmp_path))
    drafter.observe([1, 2, 3], None)
    for shape in (SHAPE, TreeShape(nodes=3, depth=1), TreeShape(nodes=40, depth=2, floor=0.1)):
        tree = drafter.propose(shape)
        assert 1 < len(tree) <= shape.nodes
        assert max(tree.depths) <= shape.depth
        assert min(tree.scores) >= shape.floor
        assert all(tree.scores[node] <= tree.scores[parent] for node, parent in enumerate(tree.parents))


DAMAGED: list[tuple[dict[str, object], int, str]] = [
    ({"tokens": np.full(3, 50, np.int32)}, VOCABULARY, "cannot reshape"),
    ({"counts": np.array([0.5])}, VOCABULARY, "cannot reshape"),
    ({"totals": np.array([1])}, VOCABULARY, "too few rows"),
    ({"keys": np.array(["a"])}, VOCABULARY, "no row of numbers"),
    ({}, 5, "beyond the target's 5"),
]


@pytest.mark.parametrize(("changes", "vocabulary", "why"), DAMAGED)
def test_damaged_files_and_others_tokens_are_refused(
    changes: dict[str, Any], vocabulary: int, why: str, tmp_path: Path
) -> None:
    saved(answers(0), tmp_path)
    file = tmp_path / FILE
    with np.load(file) as stored:
        np.savez(file, **{**stored, **changes})
    with pytest.raises(ModelError, match="holds no n-gram table") as caught:
        load_table(tmp_path, vocabulary)
    assert why in caught.value.why
    file.unlink()
    with pytest.raises(ModelError, match="holds no n-gram table"):
        load_table(tmp_path, vocabulary)
