"""Block heads by graphs: every draft, node for node, is the one without, whatever was read before it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest
import torch

from specextend_cli.engine.config import Retrieval, TreeShape
from specextend_cli.engine.cuda import graphs
from specextend_cli.engine.cuda.block_graphs import BlockGraphs
from specextend_cli.engine.cuda.graph_check import drop_graphs, use_checked_graphs
from specextend_cli.engine.cuda.graphs import TREE_BUCKETS
from specextend_cli.engine.cuda.pending_graphs import PENDING_BUCKETS
from specextend_cli.engine.drafters import BlockDrafter
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.target import Target
from tests.engine.tiny_blocks import VARIANTS, tiny_block
from tests.engine.tiny_models import by_generate, prompt, tiny
from tests.helpers.decoding import POLICIES, run, small
from tests.helpers.grid import but_for, pairs
from tests.helpers.rehearsed_capture import Rehearsal
from tests.helpers.repeated_capture import Repeated
from tests.helpers.torch_kernels import replace_kernels

SHAPE = TreeShape(nodes=12, depth=4, width=3, threshold=0.0)
READ = 232
"""Tokens before the first draft: the fifth one fills a cache that has memory for 256 rows."""
ACCEPTED = (1, 2, 3, 16, 5, 8, 1, 9, 4, 20, 1)
"""Tokens between drafts: all graphs, full and not, and more than any reads."""
CHOICE = 2
"""After so many drafts, a working set is chosen anew."""
NONE = "the draft head runs without CUDA graphs"
Scores = dict[tuple[int, ...], float]


@pytest.fixture
def target() -> Iterator[Target]:
    made = Target(LanguageModel(tiny(), backend="triton"))
    yield made
    drop_graphs(made.lm)


def block_of(name: str, target: Target, retrieval: Retrieval, **changes: Any) -> BlockDrafter:
    return BlockDrafter(tiny_block(name, **changes), target, retrieval)


def scores_of(drafter: BlockDrafter, shape: TreeShape) -> Scores:
    tree = drafter.propose(shape)
    paths: list[tuple[int, ...]] = [()]
    for token, parent in zip(tree.tokens[1:], tree.parents[1:], strict=True):
        paths.append((*paths[parent], token))
    assert tree.cost == ([0] + [1] * (len(tree) - 1), 1)
    return dict(zip(paths, tree.scores, strict=True))


@torch.inference_mode()
def drafts(drafter: BlockDrafter, shape: TreeShape = SHAPE) -> list[Scores]:
    """What it proposes behind made-up states; memory that was not written holds no numbers."""
    generator = torch.Generator().manual_seed(5)
    features = torch.randn(READ + sum(ACCEPTED), 3 * 64, generator=generator)
    tokens = prompt(len(features) + 1)
    drafter.begin(READ)
    for cache in (drafter.working.full, drafter.working.cache):
        cache.buffer.fill_(torch.nan)
    drafter.observe(tokens[:READ], features[:READ])
    drafter.observe(tokens[READ : READ + 1], None)
    at, found = READ, []
    for number, n in enumerate(ACCEPTED):
        if number == CHOICE and drafter.retrieves:
            drafter.retrieve(torch.rand(drafter.working.read, generator=generator))
        found.append(scores_of(drafter, shape))
        drafter.observe(tokens[at + 1 : at + 1 + n], features[at : at + n])
        at += n
    return found


def check_equal(ours: list[Scores], theirs: list[Scores]) -> None:
    for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        assert one == pytest.approx(other, rel=1e-3), number
        assert len(one) > 4


@pairs(("dflash-sliding", "dspark", "dspark-rnn"), name=VARIANTS, policy=POLICIES, positions=("absolute", "compact"))
def test_drafts_are_those_without_graphs(
    target: Target, name: str, policy: str, positions: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One graph launch each but for the draft behind more tokens than any graph reads."""
    replace_kernels(monkeypatch)
    retrieval, capture = small(policy, positions=positions, recent=4), Repeated()  # windows reach beyond gaps
    theirs = drafts(block_of(name, target, retrieval))
    made = block_of(name, target, retrieval)
    assert not use_checked_graphs(target, made, SHAPE, capture=capture)
    captures = capture.captures
    assert captures == len(TREE_BUCKETS) + len(PENDING_BUCKETS)
    calls, forward = [], made.head.forward
    made.head.forward = lambda *args, **given: (calls.append(len(args[1])), forward(*args, **given))[1]  # type: ignore[method-assign]
    for _ in range(2):  # the second time with another sequence's keys behind these
        capture.replays = 0
        check_equal(drafts(made), theirs)
        assert capture.replays == len(ACCEPTED) - 1
    assert calls == [20] * 2
    assert capture.captures == captures
    for one, other in combinations(theirs, 2):  # no draft is another's
        assert one != pytest.approx(other, rel=1e-2)


def test_no_two_rows_go_to_one_place(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their order would be chance. Those that no token has lie behind the block, where nothing is read."""
    replace_kernels(monkeypatch)
    made = block_of("dflash", target, small("full"))
    use_checked_graphs(target, made, SHAPE, capture=Repeated())
    assert isinstance(made.head.drafts, BlockGraphs)
    for m, ((inputs, _, numbers), _) in made.head.drafts._first.items():
        for n, some in enumerate(numbers[:-2], 1):
            with torch.inference_mode():
                inputs.packed.copy_(some)
            context, block = inputs.starts.tolist()[:m], inputs.starts.tolist()[m:]
            assert [*context[:n], *block, *context[n:]] == list(range(m + 6))


@pytest.mark.parametrize("name", ["dflash", "dspark"])
def test_shapes(target: Target, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shallower trees read less of the same draft; wider ones and deeper ones are made without graphs."""
    replace_kernels(monkeypatch)
    retrieval, capture = small("full"), Repeated()
    without, made = block_of(name, target, retrieval), block_of(name, target, retrieval)
    captured = TreeShape(nodes=12, depth=3, width=3, threshold=0.0)
    assert not use_checked_graphs(target, made, captured, capture=capture)
    shapes = {
        captured: True,
        TreeShape(nodes=30, depth=2, width=3, threshold=0.0): True,
        TreeShape(nodes=12, depth=1, width=3, threshold=0.0): True,
        TreeShape(nodes=12, depth=3, width=3, threshold=0.0, floor=0.05): True,
        TreeShape(nodes=12, depth=4, width=3, threshold=0.0): False,
        TreeShape(nodes=12, depth=3, width=2, threshold=0.0): False,
    }
    for shape, by_graphs in shapes.items():
        capture.replays = 0
        ours, theirs = drafts(made, shape), drafts(without, shape)
        for one, other in zip(ours, theirs, strict=True):
            assert one == pytest.approx(other, rel=1e-3)
        assert capture.replays == (len(ACCEPTED) - 1 if by_graphs else 0)


@pytest.mark.parametrize("name", but_for(("dspark-rnn",), VARIANTS))
def test_rehearsed(target: Target, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No host reads within, no addresses that change."""
    rehearsal = Rehearsal()
    replace_kernels(monkeypatch, rehearsal.opaque)
    monkeypatch.setattr(graphs, "TREE_BUCKETS", (12, 1))
    retrieval = small("retrieval", positions="absolute", recent=4)
    theirs, made = drafts(block_of(name, target, retrieval)), block_of(name, target, retrieval)
    assert not use_checked_graphs(target, made, SHAPE, capture=rehearsal)
    rehearsal.replays = 0
    check_equal(drafts(made), theirs)
    assert rehearsal.replays == len(ACCEPTED) - 1


def test_values_that_are_no_numbers_end_drafting(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_kernels(monkeypatch)
    for name in ("dflash", "dspark"):
        made = block_of(name, target, small("retrieval"))
        assert not use_checked_graphs(target, made, SHAPE, capture=Repeated())
        with torch.no_grad():
            made.head.norm.weight.fill_(torch.nan)
        assert run(target, made, prompt(), small("retrieval"), new=8, shape=SHAPE)[0] == by_generate(8)
        assert "not numbers" in (made.failure or "")


WRONG: dict[str, Any] = {
    "scores": lambda drafts: drafts._found[0].sub_(1 << 20),
    "nodes": lambda drafts: drafts._found[1].add_(1).remainder_(90),
}


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("bucket", but_for((16, 1), PENDING_BUCKETS))
def test_drafts_that_are_wrong_are_made_without(
    target: Target, what: str, bucket: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any of the graphs."""
    replace_kernels(monkeypatch)
    repeated = Repeated()

    def capture(body: Any, device: torch.device) -> Any:
        first, replay = repeated(body, device)
        drafts = getattr(getattr(body, "func", None), "__self__", None)

        def spoilt() -> None:
            replay()
            if isinstance(drafts, BlockGraphs) and body.args[0].inputs.rows == bucket + drafts._block:
                WRONG[what](drafts)

        return first, spoilt

    made = block_of("dflash", target, small("retrieval"))
    refused = use_checked_graphs(target, made, SHAPE, capture=capture)
    assert list(refused) == [NONE]
    assert ("nodes are those without" if what == "nodes" else "its scores differ") in refused[NONE]
    assert made.head.drafts is None
    assert run(target, made, prompt(), small("retrieval"), new=8, shape=SHAPE)[0] == by_generate(8)


@pytest.mark.parametrize(
    ("changes", "shape", "why"),
    [
        ({"block": 20}, TreeShape(nodes=12, depth=16, width=8, threshold=0.0), "ValueError: 16 levels of 8 nodes"),
        ({"block": 65}, SHAPE, "CannotFuseError: a block of 65 rows is more than 64"),
        ({"activation": "gelu"}, SHAPE, "CannotFuseError: LlamaMLP is no MLP with SiLU"),
    ],
)
def test_what_has_no_graphs_is_said(
    target: Target, changes: dict[str, Any], shape: TreeShape, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_kernels(monkeypatch)
    made = block_of("dspark", target, small("retrieval"), **changes)
    refused = use_checked_graphs(target, made, shape, capture=Repeated())
    assert list(refused) == [NONE]
    assert refused[NONE].startswith(why)
    assert made.head.drafts is None
    assert run(target, made, prompt(), small("retrieval"), new=4, shape=shape)[0] == by_generate(4)


def test_graphs_are_dropped(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_kernels(monkeypatch)
    made = block_of("dflash", target, small("retrieval"))
    assert not use_checked_graphs(target, made, SHAPE, capture=Repeated())
    assert isinstance(made.head.drafts, BlockGraphs)
    drop_graphs(target.lm, made)
    assert made.head.drafts is None
