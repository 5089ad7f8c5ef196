"""Captured forwards write the same tokens. Here what is captured is called again, as a graph would be replayed."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor
from transformers import LlamaConfig, PreTrainedModel

from specextend_cli.engine.attention.reference import reference
from specextend_cli.engine.attention.triton_tree import triton_tree
from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.cuda.body import MOST_SLOTS
from specextend_cli.engine.cuda.draft_graphs import PENDING_BUCKETS
from specextend_cli.engine.cuda.graph_check import use_checked_graphs
from specextend_cli.engine.cuda.graphs import BATCH_BUCKETS, TREE_BUCKETS
from specextend_cli.engine.cuda.stock import _CapturedStep
from specextend_cli.engine.drafters import Drafter, LMDrafter, model, model_drafters
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.target import Target
from specextend_cli.engine.tree import DraftTree
from tests.engine.test_batch import batched, plainly
from tests.engine.tiny_models import COMMON, VOCABULARY, by_generate, generate, make, prompt, rope, tiny, windowed_draft
from tests.helpers.decoding import DRAFTERS, NEW, run, small
from tests.helpers.draft_gates import Impatient, Rarely
from tests.helpers.graph_identity import SHAPE, drop_graphs
from tests.helpers.grid import but_for, pairs
from tests.helpers.repeated_capture import Repeated, only_stock_layers
from tests.helpers.torch_kernels import replace_kernels

LONG = prompt(150)
BATCH = 4
OF_TARGET = len(TREE_BUCKETS) + len([b for b in BATCH_BUCKETS if b // 2 < BATCH])


@dataclass
class Captured:
    """A target that replays; `asked` has the shapes of the forwards that its model has computed itself since."""

    target: Target
    taken: Repeated = field(default_factory=Repeated)
    asked: list[tuple[int, ...]] = field(default_factory=list)
    at_load: int = 0

    @property
    def lm(self) -> LanguageModel:
        return self.target.lm

    def prepare(self, drafter: Drafter | None = None) -> dict[str, str]:
        refused = use_checked_graphs(self.target, drafter, SHAPE, batch=BATCH, capture=self.taken)
        self.at_load = self.taken.captures
        self.forget()
        return refused

    def forget(self) -> None:
        self.taken.replays = 0
        self.taken.rows.clear()
        self.asked.clear()

    def check(self) -> None:
        """All that was replayed was captured at load, and the model itself has read prompts only."""
        assert self.taken.replays > 0
        assert self.taken.captures == self.at_load > 0
        assert all(sequences == 1 and n > max(PENDING_BUCKETS) for sequences, n in self.asked)


@pytest.fixture
def captured() -> Iterator[Captured]:
    made = captured_of(LanguageModel(tiny(), backend="triton"))
    yield made
    drop_graphs(made.lm)


def captured_of(lm: LanguageModel) -> Captured:
    made = Captured(Target(lm))
    stock: Any = made.lm.model.forward

    def counting(**given: Any) -> Any:
        if not isinstance(given["context"], _CapturedStep):
            made.asked.append(tuple(given["input_ids"].shape))
        return stock(**given)

    made.lm.model.forward = counting  # type: ignore[method-assign]
    return made


@pytest.fixture
def kernels_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_kernels(monkeypatch)


LAYERS = ("fused", "stock")


@pytest.fixture
def layers(whose: str, kernels_of_torch: None, monkeypatch: pytest.MonkeyPatch) -> str:
    """`whose` layers are captured."""
    if whose == "stock":
        only_stock_layers(monkeypatch)
    return whose


def noted(drafter: Drafter) -> list[dict[tuple[int, ...], float]]:
    """The scores of what it will propose, by the paths' tokens."""
    trees: list[dict[tuple[int, ...], float]] = []
    propose = drafter.propose

    def noting(shape: TreeShape) -> DraftTree:
        tree, paths = propose(shape), {}
        for node, (parent, token) in enumerate(zip(tree.parents, tree.tokens, strict=True)):
            paths[node] = (*(paths[parent] if node else ()), token)
        trees.append({paths[node]: score for node, score in enumerate(tree.scores)})
        assert tree.cost == (tree.depths, SHAPE.depth)
        assert max(tree.tokens) < VOCABULARY
        return tree

    drafter.propose = noting  # type: ignore[method-assign]
    return trees


DRAFTS: dict[object, Callable[[], PreTrainedModel]] = {
    **{n: partial(make, LlamaConfig(**{**COMMON, "vocab_size": n}), seed=4) for n in (2, 1000, 40, 98)},
    "two kinds": windowed_draft,
    "windows": partial(tiny, "mistral-window", seed=2),
}


@pairs([2, 1000, "two kinds", "windows"], draft=DRAFTS, whose=LAYERS)
def test_whole_drafts_are_those_that_grow_level_by_level(captured: Captured, layers: str, draft: int | str) -> None:
    """Also where the draft model has more tokens than the target, or fewer, or fewer than a level has nodes."""
    target, found = captured.target, []
    retrieval, lm = small("retrieval"), DRAFTS[draft]()
    for with_graphs in (False, True):
        made = LMDrafter(LanguageModel(lm, backend="triton"), target, retrieval)
        if with_graphs:
            refused = captured.prepare(made)
            kept = {f"{name} keeps transformers' layers" for name in ("the model", "the draft model")}
            assert set(refused) <= kept
            assert draft == "two kinds" or set(refused) == (kept if layers == "stock" else set())
            assert made.lm.runner is not made.lm.stock
        found.append(noted(made))
        assert run(target, made, LONG, retrieval, shape=SHAPE)[0] == by_generate(NEW)
    captured.check()
    without, ours = found
    assert len(ours) == len(without) > 5
    for one, other in zip(ours, without, strict=True):
        assert one == pytest.approx(other, rel=1e-3)


@pytest.mark.parametrize("drafter", but_for(("eagle3",), ["self", "lm", "eagle1", "eagle3"]))
def test_shapes_of_whole_drafts(captured: Captured, drafter: str, kernels_of_torch: None) -> None:
    """Shallower trees than the captured ones are drafted whole; others by levels."""
    target, retrieval, meters = captured.target, small("retrieval"), []
    shapes = {
        TreeShape(nodes=12, depth=2, width=3, threshold=0.0): True,
        TreeShape(nodes=12, depth=4, width=3, threshold=0.0, forwards=3): True,
        TreeShape(nodes=12, depth=1, width=3, threshold=0.0): True,
        TreeShape(nodes=12, depth=5, width=3, threshold=0.0): False,
        TreeShape(nodes=12, depth=4, width=2, threshold=0.0): False,
    }
    for with_graphs in (False, True):
        made = DRAFTERS[drafter](target, retrieval)
        if with_graphs:
            assert not captured.prepare(made)
            before = OF_TARGET + (0 if drafter == "self" else len(TREE_BUCKETS)) + len(PENDING_BUCKETS)
            assert captured.at_load == before + SHAPE.depth
        for shape, whole in shapes.items():
            captured.forget()
            written, meter = run(target, made, LONG, retrieval, new=12, shape=shape)
            assert written == by_generate(12)
            meters.append(meter)
            if with_graphs:
                captured.check()
                launches = captured.taken.replays - len(captured.taken.rows)
                launches -= whole and drafter != "self"  # the first one reads the end of the prompt, in two pieces
                # Two a draft, however deep. No draft is made where one token is left to be written.
                assert launches in (2 * (meter.steps - 1), 2 * meter.steps) if whole else launches == 0
    half = len(shapes)
    for without, ours in zip(meters[:half], meters[half:], strict=True):
        assert ours.accepted_lengths == without.accepted_lengths


@pytest.mark.parametrize("every", [80, 40])
@pytest.mark.parametrize("drafter", but_for(["eagle3"], ["lm", "eagle3"]))
def test_more_pending_tokens_than_a_graph_reads(
    captured: Captured, drafter: str, every: int, kernels_of_torch: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are read in pieces, or at once where they are too many: no draft is grown level by level."""
    monkeypatch.setattr(Rarely, "every", every)
    target, retrieval, meters = captured.target, small("retrieval"), []
    for with_graphs in (False, True):
        made = DRAFTERS[drafter](target, retrieval)
        if with_graphs:
            assert not captured.prepare(made)
            monkeypatch.setattr(model, "grow", Mock(side_effect=AssertionError))
        gate = Rarely(SHAPE, enabled=False)
        written, meter = run(target, made, prompt(), retrieval, gate=gate, new=100)
        assert written == by_generate(100)
        meters.append(meter)
    assert meters[0].accepted_lengths == meters[1].accepted_lengths
    assert captured.taken.captures == captured.at_load


@pairs(("self", "lm", "eagle3"), drafter=["none", "self", "lm", "eagle1", "eagle3", "blend-eagle"], whose=LAYERS)
def test_nothing_is_captured_for_caches_that_grow_and_models_that_are_suspended(
    captured: Captured, drafter: str, layers: str
) -> None:
    target, retrieval, gate = captured.target, small("retrieval", top_k=60), Impatient(SHAPE, enabled=False)
    made = DRAFTERS[drafter](target, retrieval)
    captured.prepare(made)
    for length in (40, 150, 700):
        captured.forget()
        capacity = target.cache.capacity
        assert run(target, made, prompt(length), retrieval, new=10, gate=gate)[0] == by_generate(10, length)
        captured.check()
    assert target.cache.capacity > capacity
    assert all(one.working.cache.capacity > 256 for one in model_drafters(made))  # the working set has grown, too


@pairs([1, 4, 6], slots=[1, 4, 6, 2, 3], whose=LAYERS)
def test_batches_by_graphs_write_what_plain_decoding_does(captured: Captured, layers: str, slots: int) -> None:
    """A larger batch than was captured runs on the model itself."""
    captured.prepare()
    for _ in range(2):  # the second time with another cache
        captured.forget()
        assert batched(captured.lm, "everything", slots) == plainly("everything")
        assert captured.taken.captures == captured.at_load
        asked = {sequences for sequences, _ in captured.asked}
        assert asked <= {1, 5, 6}
        assert bool(asked - {1}) == (slots > BATCH)
        assert set(captured.taken.rows) - {1} == ({2} if slots < 3 else {2, 4})


@pytest.mark.parametrize("whose", LAYERS)
def test_the_smallest_graph_is_replayed(captured: Captured, layers: str) -> None:
    """Sampling reads the nodes from what it was given; later trees leave them as they are."""
    target = captured.target
    captured.prepare()
    target.begin(300)
    target.prefill(torch.tensor(LONG))
    sizes = (1, 2, 3, 5, 6, 7, 8, 9, 13, 17, 33, 64)
    trees = [DraftTree(range(n), [0, *(node // 2 for node in range(n - 1))], [1.0] * n) for n in sizes]
    for tree in trees:
        target.verify(tree)
        target.commit([0])
    for tree in trees:
        fresh = DraftTree(tree.tokens, tree.parents, tree.scores).on("cpu")
        assert all(ours.equal(theirs) for ours, theirs in zip(tree.on("cpu"), fresh, strict=True))
    assert captured.taken.rows == [1, 2, 4, 8, 8, 8, 8, 12, 16, 32, 64, 64]
    captured.check()


def chain(n: int) -> Tensor:
    return torch.ones(n, n, dtype=torch.bool).tril()


@pytest.mark.parametrize("whose", LAYERS)
def test_other_shapes_run_on_the_model_itself(captured: Captured, layers: str) -> None:
    lm, replays = captured.lm, captured.taken
    tokens, positions = torch.tensor(LONG), torch.arange(len(LONG))
    wide = torch.ones(4, MOST_SLOTS + 1, dtype=torch.bool)
    wide[:, -4:] = chain(4)
    branch = torch.tensor([[False, False, True, True]])
    cases: Sequence[tuple[int, dict[str, Any], bool, bool]] = (  # tokens, what is asked, committed, replayed
        (150, {}, True, False),  # a prompt
        (40, {}, True, False),  # a piece of one
        (1, {"record": (0,), "record_last": True}, True, False),  # its last one, whose queries are kept
        (33, {"tree_mask": chain(33)}, True, True),  # all rows that there are
        (33, {"tree_mask": chain(33)}, False, True),  # the cache grows by those that the graph has more
        (1, {"backend": reference}, False, False),  # another back end
        (65, {"tree_mask": chain(65)}, True, False),  # more rows than any graph has
        (4, {"tree_mask": chain(4)}, True, True),
        (4, {"tree_mask": wide}, False, False),  # more rows of a tree than a mask has bits
        (1, {"tree_mask": branch}, False, True),  # one node, which does not see all of the tree
    )

    def logits(*, with_graphs: bool) -> list[Tensor]:
        cache, found = lm.new_cache(256), []
        for n, asked, is_kept, is_replayed in cases:
            replays.replays = 0
            out = lm.forward(tokens[:n], cache.length + positions[:n], cache, **{"backend": triton_tree, **asked})
            assert (cache.start, cache.end) == (cache.length, cache.length + n)
            assert replays.replays == (with_graphs and is_replayed)
            found.append(out.logits.clone())
            if is_kept:
                cache.commit()
            else:
                cache.rollback()
        return found

    expected = logits(with_graphs=False)
    captured.prepare()
    for ours, theirs in zip(logits(with_graphs=True), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)
    assert replays.captures == captured.at_load


@pytest.mark.parametrize("whose", LAYERS)
def test_positions_that_are_encoded_otherwise(captured: Captured, layers: str) -> None:
    """The benchmark exchanges the module that encodes positions: graphs follow, or the model runs itself."""
    target, drafter = captured.target, DRAFTERS["none"](captured.target, small("full"))
    captured.prepare()
    decoder: Any = target.lm.model.get_decoder()
    usual = decoder.rotary_emb
    yarn = rope("yarn", original_max_position_embeddings=64)
    for parameters, follows in ((rope("linear"), layers == "fused"), (yarn, layers == "fused"), (None, True)):
        other = make(LlamaConfig(**COMMON, rope_parameters=parameters)) if parameters else tiny()
        decoder.rotary_emb = other.get_decoder().rotary_emb if parameters else usual
        captured.forget()
        written = run(target, drafter, LONG, small("full"))[0]
        assert written == generate(other, LONG, NEW)
        assert (written == by_generate(NEW)) == (parameters is None)
        assert (captured.taken.replays > 0) == follows


def test_graphs_keep_no_cache(captured: Captured, kernels_of_torch: None) -> None:
    captured.prepare()
    target = Target(captured.lm)
    run(target, DRAFTERS["none"](target, small("full")), LONG, small("full"), new=4)
    captured.check()
    memory = weakref.ref(target.cache.buffers[0])
    del target
    gc.collect()
    assert memory() is None
