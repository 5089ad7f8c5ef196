"""Captured forwards write the same tokens. Here what is captured is called again, as a graph would be replayed."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor
from transformers import LlamaConfig

from specextend_cli.engine.attention.reference import reference
from specextend_cli.engine.attention.triton_tree import triton_tree
from specextend_cli.engine.batch import BatchRequest, decode_batch
from specextend_cli.engine.config import Sampling, TreeShape
from specextend_cli.engine.cuda.body import MOST_SLOTS
from specextend_cli.engine.cuda.draft_graphs import PENDING_BUCKETS
from specextend_cli.engine.cuda.graph_check import use_checked_graphs
from specextend_cli.engine.cuda.graphs import BATCH_BUCKETS, TREE_BUCKETS
from specextend_cli.engine.cuda.stock import _CapturedStep
from specextend_cli.engine.drafters import Drafter, EagleDrafter, LMDrafter, model, model_drafters
from specextend_cli.engine.events import Accepted
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
from specextend_cli.engine.tree import DraftTree
from tests.engine.tiny_models import COMMON, by_generate, generate, make, prompt, rope, tiny, windowed_draft
from tests.helpers.decoding import DRAFTERS, NEW, POLICIES, run, small
from tests.helpers.draft_gates import Impatient, Rarely
from tests.helpers.graph_identity import SHAPE, drop_graphs
from tests.helpers.grid import but_for, pairs
from tests.helpers.repeated_capture import Repeated, only_stock_layers
from tests.helpers.torch_kernels import replace_kernels

LONG = prompt(150)
BATCH = 4
OF_TARGET = len(TREE_BUCKETS) + len([b for b in BATCH_BUCKETS if b // 2 < BATCH])
OF_DRAFTS = len(PENDING_BUCKETS) + SHAPE.depth


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

    def prepare(self, drafter: Drafter | None = None, shape: TreeShape = SHAPE, **changes: Any) -> dict[str, str]:
        refused = use_checked_graphs(self.target, drafter, shape, **{"batch": BATCH, "capture": self.taken, **changes})
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


def expected_refusals(drafter: Drafter, layers: str) -> set[str]:
    """What is said of a model that could not be fused."""
    names = {"the model"}
    for one in model_drafters(drafter):
        if isinstance(one, EagleDrafter):
            names.add("the draft head")
        elif isinstance(one, LMDrafter) and not one.is_self:
            names.add("the draft model")
    return {f"{name} keeps transformers' layers" for name in names} if layers == "stock" else set()


SOME = ("none", "self", "lm", "eagle3-window", "blend-eagle")
"""Drafters of the quick tests: every kind, of which the last has four."""


@pairs(SOME, drafter=DRAFTERS, policy=POLICIES, whose=LAYERS)
def test_every_drafter_and_policy(captured: Captured, drafter: str, policy: str, layers: str) -> None:
    """The tokens, and how many of each tree were accepted: to draft nonsense would change no token."""
    target, retrieval = captured.target, small(policy)
    _, without = run(target, DRAFTERS[drafter](target, retrieval), LONG, retrieval, shape=SHAPE)
    made = DRAFTERS[drafter](target, retrieval)
    assert set(captured.prepare(made)) == expected_refusals(made, layers)
    models = model_drafters(made)
    own = [one for one in models if not getattr(one, "is_self", False)]
    assert captured.at_load == OF_TARGET + len(TREE_BUCKETS) * len(own) + OF_DRAFTS * len(models)
    written, meter = run(target, made, LONG, retrieval, shape=SHAPE)
    assert written == by_generate(NEW)
    assert meter.accepted_lengths == without.accepted_lengths
    captured.check()
    in_drafts = captured.taken.replays - len(captured.taken.rows)
    assert (in_drafts > 0) == bool(models)


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
        return tree

    drafter.propose = noting  # type: ignore[method-assign]
    return trees


@pairs([2, 1000], vocabulary=[2, 40, 98, 1000], whose=LAYERS)
def test_whole_drafts_are_those_that_grow_level_by_level(captured: Captured, layers: str, vocabulary: int) -> None:
    """Also where the draft model has more tokens than the target, or fewer, or fewer than a level has nodes."""
    target, retrieval, found = captured.target, small("retrieval"), []
    draft = make(LlamaConfig(**{**COMMON, "vocab_size": vocabulary}), seed=4)
    for with_graphs in (False, True):
        made = LMDrafter(LanguageModel(draft, backend="triton"), target, retrieval)
        if with_graphs:
            assert set(captured.prepare(made)) == expected_refusals(made, layers)
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


@pytest.mark.parametrize("positions", ["absolute", "compact"])
def test_draft_models_with_windows(captured: Captured, kernels_of_torch: None, positions: str) -> None:
    """Where a draft's working set has gaps, a window counts positions; whole drafts are as many as without graphs."""
    target, retrieval = captured.target, small("retrieval", positions=positions, recent=4)  # fewer than a window
    draft = windowed_draft() if positions == "absolute" else tiny("mistral-window", seed=2)
    made = LMDrafter(LanguageModel(draft, backend="triton"), target, retrieval)
    found = noted(made)
    assert run(target, made, LONG, retrieval, shape=SHAPE)[0] == by_generate(NEW)
    without, made = found, LMDrafter(LanguageModel(draft, backend="triton"), target, retrieval)
    assert "drafts are grown level by level" not in captured.prepare(made)
    assert made.lm.runner is not made.lm.stock
    found = noted(made)
    assert run(target, made, LONG, retrieval, shape=SHAPE)[0] == by_generate(NEW)
    for one, other in zip(found, without, strict=True):
        assert one == pytest.approx(other, rel=1e-3)
    captured.check()


@pairs(("self", "eagle3"), drafter=["none", "self", "lm", "eagle1", "eagle3", "blend-eagle"], whose=LAYERS)
def test_nothing_is_captured_for_caches_that_grow(captured: Captured, drafter: str, layers: str) -> None:
    target, retrieval = captured.target, small("retrieval", top_k=60)
    made = DRAFTERS[drafter](target, retrieval)
    captured.prepare(made)
    for length in (40, 150, 700):
        capacity = target.cache.capacity
        assert run(target, made, prompt(length), retrieval, new=10, shape=SHAPE)[0] == by_generate(10, length)
        captured.check()
    assert target.cache.capacity > capacity
    assert all(one.working.cache.capacity > 256 for one in model_drafters(made))  # the working set has grown, too


@pairs(("lm", "blend-eagle"), drafter=["lm", "eagle3", "blend-eagle"], whose=LAYERS)
def test_nothing_is_captured_for_models_that_are_suspended(captured: Captured, drafter: str, layers: str) -> None:
    target, retrieval, gate = captured.target, small("retrieval"), Impatient(SHAPE, enabled=False)
    made = DRAFTERS[drafter](target, retrieval)
    captured.prepare(made)
    for _ in range(3):
        captured.forget()
        assert run(target, made, LONG, retrieval, gate=gate)[0] == by_generate(NEW)
        captured.check()


SAMPLED = Sampling(temperature=0.9, seed=3, repetition_penalty=1.2)
KINDS = (Sampling(), Sampling(), SAMPLED, Sampling(), Sampling(), Sampling(no_repeat_ngram=2), Sampling())
LENGTHS = (40, 9, 33, 290, 1, 57, 20)
NEWS = (12, 30, 5, 7, 22, 16, 3)


def emitted(lm: LanguageModel, slots: int) -> list[list[int]]:
    """Tokens of each request."""
    requests = [
        BatchRequest(prompt(300, seed=n)[:n], Stop(new), kind)
        for n, new, kind in zip(LENGTHS, NEWS, KINDS, strict=True)
    ]
    tokens: list[list[int]] = [[] for _ in requests]
    for number, event in decode_batch(lm, requests, slots=slots, prefill_chunk=16):
        if isinstance(event, Accepted):
            tokens[number] += event.tokens
    return tokens


@pairs([1, 4], slots=[1, 2, 3, 4], whose=LAYERS)
def test_batches_by_graphs_write_what_generate_does(captured: Captured, layers: str, slots: int) -> None:
    """Prompts of many lengths, slots that are filled again, sequences that are sampled in different ways."""
    without = emitted(captured.lm, slots)
    captured.prepare()
    for _ in range(2):  # the second time with another cache
        captured.forget()
        assert emitted(captured.lm, slots) == without
        assert captured.taken.captures == captured.at_load
        assert all(sequences == 1 for sequences, _ in captured.asked)
        assert set(captured.taken.rows) - {1} == {1: {2}, 2: {2}, 3: {2, 4}, 4: {2, 4}}[slots]
    greedy = [number for number, kind in enumerate(KINDS) if kind == Sampling()]
    for number in greedy:
        expected = generate(tiny(), prompt(300, seed=LENGTHS[number])[: LENGTHS[number]], NEWS[number])
        assert without[number] == expected


def test_a_larger_batch_than_was_captured(captured: Captured, kernels_of_torch: None) -> None:
    without = emitted(captured.lm, 6)
    captured.prepare()
    assert emitted(captured.lm, 6)[0] == without[0]
    assert {6} <= {sequences for sequences, _ in captured.asked} <= {1, 5, 6}
    assert set(captured.taken.rows) - {1} == {2, 4}
    assert captured.taken.captures == captured.at_load


def test_nodes_are_read_from_what_a_graph_was_given(captured: Captured, kernels_of_torch: None) -> None:
    """As sampling reads them; later trees leave them as they are."""
    target = captured.target
    captured.prepare()
    target.begin(300)
    target.prefill(torch.tensor(LONG))
    parents = [0, *torch.randint(63, (63,), generator=torch.Generator().manual_seed(1)).remainder(torch.arange(1, 64))]
    shapes = [[int(parent) for parent in parents[:n]] for n in (64, 5, 7, 2, 1)]
    trees = [DraftTree(list(range(20, 20 + n)), one, [1.0] * n) for one in shapes for n in [len(one)]]
    for tree in trees:
        target.verify(tree)
        target.commit([0])
    for tree in trees:
        assert (tree._uploaded != {}) == (len(tree) > 1)
        fresh = DraftTree(tree.tokens, tree.parents, tree.scores).on("cpu")
        for ours, theirs in zip(tree.on("cpu"), fresh, strict=True):
            assert ours.equal(theirs)


@pytest.mark.parametrize("whose", LAYERS)
def test_the_smallest_graph_is_replayed(captured: Captured, layers: str) -> None:
    target = captured.target
    captured.prepare()
    target.begin(300)
    target.prefill(torch.tensor(LONG))
    for n in (1, 2, 3, 5, 6, 7, 8, 9, 13, 17, 33, 64):
        target.verify(DraftTree(list(range(n)), [0, *range(n - 1)], [1.0] * n))
        target.commit([0])
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
