from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.drafters import BlendDrafter, NoDrafter
from specextend_cli.engine.drafters.model import ModelDrafter
from specextend_cli.engine.drafters.opt_tree import _on_device, _on_host
from specextend_cli.engine.tree import DraftTree, accept, root
from tests.helpers.draft_trees import trees


def ancestors(tree: DraftTree, node: int) -> set[int]:
    found = {node}
    while node:
        node = int(tree.parents[node])
        found.add(node)
    return found


@given(trees())
def test_mask_is_ancestor_or_self(tree: DraftTree) -> None:
    for node in range(len(tree)):
        expected = ancestors(tree, node)
        assert set(tree.mask[node].nonzero().flatten().tolist()) == expected
        assert int(tree.depths[node]) == len(expected) - 1


@given(trees(), st.integers(1, 24))
def test_best_nodes_form_a_tree_and_none_left_out_scores_higher(tree: DraftTree, n: int) -> None:
    best = tree.best(n)
    assert len(best) == min(n, len(tree))
    assert int(best.parents[0]) == 0
    assert all(int(best.parents[i]) < i for i in range(1, len(best)))
    kept, every = sorted(best.scores), sorted(tree.scores)
    assert kept == every[len(every) - len(kept) :]

    def paths(t: DraftTree) -> set[tuple[int, ...]]:
        return {tuple(int(t.tokens[i]) for i in sorted(ancestors(t, node))) for node in range(len(t))}

    assert paths(best) <= paths(tree)


@given(trees())
def test_a_chain_is_the_path_with_the_highest_expected_length(tree: DraftTree) -> None:
    paths = [sorted(ancestors(tree, node)) for node in range(len(tree))]
    found, best = tree.chain(), max(sum(tree.scores[node] for node in path) for path in paths)
    assert found.is_chain
    assert sum(found.scores) == pytest.approx(best)
    assert any(list(found.tokens) == [tree.tokens[node] for node in path] for path in paths)


@given(trees(), st.data())
def test_accept_follows_the_target_s_choices(tree: DraftTree, data: st.DataObject) -> None:
    choice = [data.draw(st.integers(0, 3)) for _ in range(len(tree))]
    path, node = [0], 0
    while True:
        children = [
            i for i in range(1, len(tree)) if int(tree.parents[i]) == node and int(tree.tokens[i]) == choice[node]
        ]
        if not children:
            break
        (node,) = children  # siblings are distinct
        path.append(node)
    emitted = [int(tree.tokens[i]) for i in path[1:]] + [choice[path[-1]]]
    assert accept(tree, torch.tensor(choice)) == (path, emitted)


class Scripted(NoDrafter):
    """A drafter that proposes what it is told to."""

    def __init__(self, tree: DraftTree) -> None:
        self.tree = tree

    def propose(self, shape: TreeShape) -> DraftTree:
        return self.tree


class ScriptedModel(Scripted, ModelDrafter):
    """A model with forwards to count."""

    reads = ()
    _forward = None  # type: ignore[assignment]

    def __init__(self, tree: DraftTree) -> None:
        self.tree = tree
        self.forwards: list[int] = []

    def propose(self, shape: TreeShape) -> DraftTree:
        self.forwards.append(shape.forwards)
        return Scripted.propose(self, shape) if shape.forwards else root(0)


@pytest.mark.parametrize(("copied", "floor", "forwards"), [(0.7, 0.1, 0), (0.2, 0.1, 3), (0.7, 0.0, 3)])
def test_a_blend_asks_models_where_copies_are_unlikely(copied: float, floor: float, forwards: int) -> None:
    copies, model = (
        kind(DraftTree([0, token], [0, 0], [1.0, score]))
        for kind, token, score in ((Scripted, 1, copied), (ScriptedModel, 2, 0.4))
    )
    blend = BlendDrafter([model, copies])
    shape = TreeShape(nodes=9, forwards=3, floor=floor)
    assert blend.propose(shape).tokens == ([0, 2, 1] if forwards else [0, 1])
    assert model.forwards == [forwards]


def test_a_blend_learns_its_models_usual_probability() -> None:
    copies, model = Scripted(root(0)), ScriptedModel(DraftTree([0, 2], [0, 0], [1.0, 0.9]))
    blend = BlendDrafter([model, copies])
    shape = TreeShape(nodes=9, forwards=1, floor=0.1)
    for _ in range(60):
        blend.propose(shape)
    copies.tree = DraftTree([0, 1], [0, 0], [1.0, 0.7])
    blend.propose(shape)
    assert model.forwards == [1] * 61  # copies promise less than it does


def test_a_blend_calibrates_each_combination_of_sources() -> None:
    """Both sources promise 0.5 for every token; only what both propose comes true."""
    one = Scripted(DraftTree([0, 1, 2], [0, 0, 0], [1.0, 0.5, 0.5]))
    other = Scripted(DraftTree([0, 2, 3, 4], [0, 0, 0, 1], [1.0, 0.5, 0.5, 0.25]))
    blend = BlendDrafter([one, other])
    merged = blend.propose(TreeShape(nodes=9))
    assert merged.tokens == [0, 1, 2, 3, 4]
    assert merged.parents == [0, 0, 0, 0, 2]
    assert merged.scores == [1.0, 0.5, 0.5, 0.5, 0.25]
    for _ in range(40):
        blend.propose(TreeShape(nodes=9))
        blend.observe([2, 9], None)
    learnt = dict(zip(merged.tokens, blend.propose(TreeShape(nodes=9)).scores, strict=True))
    assert learnt[2] > 0.85
    assert learnt[1] == learnt[3] < 0.15
    # Below token 2 only one source speaks, and it was never right there.
    assert learnt[4] < 0.3 * learnt[2]
    assert blend.propose(TreeShape(nodes=2)).tokens == [0, 2]


@pytest.mark.parametrize("shape", [TreeShape(99, 5, 3, 0.0), TreeShape(999, 4, 6, 0.0), TreeShape(99, 6, 1, 0.0)])
def test_trees_grown_on_the_host_are_those_of_a_device(shape: TreeShape) -> None:
    """The host reads every level, a device none: the same candidates, in the same order."""
    table = 3 * torch.randn(50, 20, generator=torch.Generator().manual_seed(1))
    vocabulary = torch.arange(50)[5:25]

    def grown(grow: Callable[..., DraftTree]) -> tuple[DraftTree, list[tuple[Tensor, ...]]]:
        asked: list[tuple[Tensor, ...]] = []

        def expand(tokens: Tensor, parents: Tensor, depth: int, mask: Tensor) -> Tensor:
            asked.append((tokens, parents, mask))
            return table[tokens] + depth

        return grow(0, table[:1], expand, shape, vocabulary, shape.width), asked

    (host, asked), (device, expected) = grown(_on_host), grown(_on_device)
    assert len(asked) == len(expected) == shape.depth - 1
    for ours, theirs in zip(asked, expected, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    assert host.tokens == device.tokens
    assert host.parents == device.parents
    torch.testing.assert_close(host.scores, device.scores)
