"""The gate, on a clock of our own: costs are invented, so nothing here depends on the machine."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise, product

import pytest

from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.cost_model import CostModel
from specextend_cli.engine.draft_gate import DraftGate
from specextend_cli.engine.tree import DraftTree, root
from tests.helpers.grid import but_for

PLAIN = 0.040


def verification(nodes: int) -> float:
    return PLAIN * (1 + 0.04 * (nodes - 1))


def chain(scores: list[float], *, copied: bool = False, forwards: int | None = None) -> DraftTree:
    """`copied`: without the draft's forwards, though it may have run some."""
    nodes = len(scores) + 1
    known_after = [0] * nodes if copied else None
    parents = [max(i - 1, 0) for i in range(nodes)]
    return DraftTree(range(nodes), parents, [1.0, *scores], known_after=known_after, forwards=forwards)


Draft = Callable[[TreeShape], tuple[DraftTree, float]]


@dataclass(frozen=True)
class Told:
    """A step: the forwards of its draft, the tokens that it brought, and its seconds."""

    forwards: int
    tokens: int
    seconds: float


def steps(
    gate: DraftGate,
    many: int,
    draft: Draft,
    *,
    rate: float | Callable[[int], float] = 1.0,
    verify: Callable[[int], float] = verification,
    seed: int = 0,
) -> Iterator[Told]:
    """`draft` gives a tree and its seconds, each token of which is right with probability `rate`, maybe by the step."""
    rng = random.Random(seed)
    for step in range(many):
        shape = gate.next_shape(1000)
        tree, spent = draft(shape) if shape.nodes > 1 else (root(0), 0.0)
        tree, accepted = gate.cut(tree, 1000), 1
        while accepted < len(tree) and rng.random() < (rate(step) if callable(rate) else rate):
            accepted += 1
        cost = verify(len(tree))
        gate.learn(tree, shape, range(accepted), spent, cost, 1000)
        yield Told(shape.forwards if shape.nodes > 1 else 0, accepted, spent + cost)


def model(promised: float, forward: float, most: int) -> Draft:
    """A model that says `promised` of each token, in so many seconds a forward."""

    def draft(shape: TreeShape) -> tuple[DraftTree, float]:
        forwards = min(shape.forwards, most)
        return (chain([promised**i for i in range(1, forwards + 1)]) if forwards else root(0)), forwards * forward

    return draft


def gain(rate: float, promised: float, draft_seconds: float, *, noise: float = 0.0, copies: bool = False) -> float:
    """Seconds of plain decoding over seconds behind the gate. `copies`: the drafter needs no forwards."""

    def draft(shape: TreeShape) -> tuple[DraftTree, float]:
        if not (copies or shape.forwards):
            return root(0), 0.0
        return chain([promised**i for i in range(1, 8)], copied=copies), draft_seconds

    noises = random.Random(1)
    gate = DraftGate(TreeShape(nodes=8, depth=7))
    told = list(steps(gate, 400, draft, rate=rate, verify=lambda n: verification(n) * (1 + noise * noises.random())))
    plain = sum(step.tokens for step in told) * PLAIN * (1 + noise / 2)
    return plain / sum(step.seconds for step in told)


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("promised", [0.1, 0.5, 0.95])
@pytest.mark.parametrize(
    ("copies", "draft_seconds", "least"),
    [
        # A first trial is unavoidable: ten times a plain step in the worst case here, 400 tokens to carry it.
        *((False, seconds, 0.94) for seconds in (0.0, 0.01, 0.1, 0.4)),
        *((True, seconds, 0.97) for seconds in (0.0, 0.001, 0.004, 0.02)),  # nor does looking for copies
    ],
)
def test_a_useless_drafter_costs_almost_nothing(
    copies: bool, draft_seconds: float, least: float, promised: float, noise: float
) -> None:
    assert gain(0.0, promised, draft_seconds, noise=noise, copies=copies) > least


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("promised", [0.6, 0.8, 0.95])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_a_good_drafter_is_used(promised: float, noise: float, copies: bool) -> None:
    assert gain(0.8, promised, 0.01, noise=noise, copies=copies) > 1.9
    assert gain(0.8, promised, 0.3, noise=noise) > 0.94  # one that costs more than it gains is not


@pytest.mark.parametrize(("forward", "rate", "most"), [(0.001, 0.9, 7), (0.012, 0.55, 1), (0.04, 0.2, 0)])
def test_the_number_of_forwards_that_pays_is_found(forward: float, rate: float, most: int) -> None:
    """A forward costs a fortieth of a plain step, three tenths, or all of one; `rate`: it brings a token so often."""
    gate = DraftGate(TreeShape(nodes=8, depth=7))
    granted = [min(step.forwards, 7) for step in steps(gate, 400, model(rate, forward, 7), rate=rate)]
    late = granted[200:]
    assert max(set(late), key=late.count) == most


@pytest.mark.parametrize("looking", [0.0, 0.003, 0.01])
def test_a_model_that_fails_at_first_is_tried_again(looking: float) -> None:
    """Though a draft without it proposes nothing, and costs next to nothing."""

    def draft(shape: TreeShape) -> tuple[DraftTree, float]:
        return (chain([0.9]), 0.1 * PLAIN) if shape.forwards else (root(0), looking * PLAIN)

    gate = DraftGate(TreeShape(nodes=4, depth=1))
    drafted = [step.forwards > 0 for step in steps(gate, 1500, draft, rate=lambda step: float(step > 300))]
    assert sum(drafted[100:300]) < 40
    assert sum(drafted[1300:]) > 180


def test_a_trial_that_cannot_be_afforded_does_not_stop_the_rest() -> None:
    """Copies bring a token more a step; the model loses two plain steps a draft."""

    def draft(shape: TreeShape) -> tuple[DraftTree, float]:
        asked = shape.forwards > 0
        return chain([0.5], copied=True, forwards=1 if asked else None), 2 * PLAIN * asked

    gate = DraftGate(TreeShape(nodes=4, depth=1))
    told = list(steps(gate, 200, draft, rate=lambda step: float(step % 2)))
    assert sum(step.tokens for step in told) * PLAIN / sum(step.seconds for step in told) > 1.3


@pytest.mark.parametrize("hiccup", but_for((0.5,), (0.15, 0.5, 2.0)))
@pytest.mark.parametrize(
    ("slow", "rate"),
    [*product([*((n,) for n in range(20)), (0, 1), (1, 4, 9), (3, 5, 18), (7, 8, 9)], (0.5, 0.8)), ((0, 1, 2), 0.8)],
    ids=str,
)
@pytest.mark.parametrize("of_verification", [False, True])
def test_a_hiccup_in_the_first_drafts_does_not_stop_drafting(
    hiccup: float, slow: tuple[int, ...], rate: float, of_verification: bool
) -> None:
    """On a GPU a step takes a millisecond, and compiling a kernel a second: more than all that drafting can gain."""
    drafts, plain_draft = 0, model(rate, 0.0001, 4)
    late = 0.0

    def draft(shape: TreeShape) -> tuple[DraftTree, float]:
        nonlocal drafts, late
        tree, seconds = plain_draft(shape)
        late = hiccup if shape.forwards and drafts in slow else 0.0
        drafts += shape.forwards > 0
        return tree, seconds + (0.0 if of_verification else late)

    def verify(nodes: int) -> float:
        nonlocal late
        seconds, late = 0.001 * (1 + 0.01 * nodes) + late * of_verification, 0.0
        return seconds

    told = list(steps(DraftGate(TreeShape(nodes=16, depth=4)), 300, draft, rate=rate, verify=verify, seed=sum(slow)))
    assert sum(step.forwards > 0 for step in told[100:]) > 180


@pytest.mark.parametrize("hiccup", [0.15, 0.5, 2.0])
@pytest.mark.parametrize("slow", range(4))
@pytest.mark.parametrize("rate", [0.35, 0.5, 0.8])
def test_a_hiccup_in_a_choice_of_a_working_set_does_not_stop_drafting(hiccup: float, slow: int, rate: float) -> None:
    gate, steps_since = DraftGate(TreeShape(nodes=16, depth=4)), 0
    choices, drafted, is_due = 0, [], False
    draft = model(rate, 0.0001, 4)

    def asking(shape: TreeShape) -> tuple[DraftTree, float]:
        nonlocal is_due, steps_since
        steps_since += shape.forwards > 0
        is_due = shape.forwards > 0 and steps_since >= 4 and gate.affords_choice()
        steps_since = 0 if is_due else steps_since
        return draft(shape)

    told = steps(gate, 300, asking, rate=rate, verify=lambda nodes: 0.001 * (1 + 0.01 * nodes), seed=slow)
    for step in told:
        if is_due:
            gate.charge(0.0002 + (hiccup if choices == slow else 0.0), 1000)
            choices += 1
        drafted.append(step.forwards > 0)
        is_due = False
    assert choices > slow + 3
    assert sum(drafted[100:]) > 180


@pytest.mark.parametrize(("charged", "least", "most"), [(0.0, 1.8, 2.0), (2 * PLAIN, 1.0, 1.2)])
def test_choosing_a_working_set_is_charged_to_the_draft(charged: float, least: float, most: float) -> None:
    gate, tokens = DraftGate(TreeShape(nodes=2, depth=1)), 0
    for step in steps(gate, 300, model(0.9, 0.001, 1)):
        if step.forwards:
            gate.charge(charged, 1000)
        tokens += step.tokens
    assert least < tokens / 300 < most


def test_what_choices_cost_is_earned_again_before_the_next_draft() -> None:
    gate = DraftGate(TreeShape(nodes=2, depth=1))
    assert list(steps(gate, 100, model(0.9, 0.001, 1)))
    assert gate.next_shape(1000).nodes == 2
    for _ in range(200):
        gate.charge(2 * PLAIN, 1000)
    assert gate.next_shape(1000).nodes == 1


@pytest.mark.parametrize("seconds", [0.1 * PLAIN, 0.5 * PLAIN])
def test_choosing_working_sets_takes_one_percent_of_the_time(seconds: float) -> None:
    gate, choices, many = DraftGate(TreeShape(nodes=2, depth=1)), 0, 2000
    for step in steps(gate, many, model(0.95, 0.001, 1)):
        if step.forwards and gate.affords_choice():
            gate.charge(seconds, 1000)
            choices += 1
    assert 0.005 < choices * seconds / (many * PLAIN) < 0.012


def test_without_the_gate_every_step_drafts_and_may_choose() -> None:
    gate = DraftGate(TreeShape(nodes=4, depth=1), enabled=False)
    assert [gate.next_shape(10).nodes for _ in range(3)] == [4, 4, 4]
    assert len(gate.cut(chain([0.01] * 9), 10)) == 4
    for _ in steps(gate, 3, model(0.9, PLAIN, 1)):
        gate.charge(100 * PLAIN, 1000)
        assert gate.affords_choice()


def test_costs_between_and_beyond_measured_sizes() -> None:
    costs = CostModel()
    for nodes, seconds in ((1, 0.04), (8, 0.06), (1, 0.5), (8, 0.9)):  # the fastest of the first measurements counts
        costs.learn(nodes, 1000, seconds)
    assert costs.plain(1000) == pytest.approx(0.04)
    assert costs.seconds(1, 1000) == pytest.approx(0.04)
    assert costs.seconds(4, 1000) == pytest.approx(0.04 + 0.02 * 3 / 7)
    assert costs.seconds(18, 1000) > costs.seconds(8, 1000)
    assert costs.plain(64) == 0.0


def test_a_node_s_cost_is_carried_to_other_lengths() -> None:
    costs = CostModel()
    for _ in range(3):
        costs.learn(1, 1000, 0.010)
        costs.learn(1, 8000, 0.030)
    assert costs.seconds(5, 8000) == pytest.approx(0.030 * 1.4)  # nothing but plain steps was measured anywhere
    for _ in range(3):
        costs.learn(8, 1000, 0.024)  # 7 nodes more: 1.4 plain steps
    assert costs.seconds(6, 8000) == pytest.approx(0.030 * 2.0)
    assert costs.seconds(13, 1000) == pytest.approx(0.010 * 3.4)


def sequence(gate: DraftGate, model_seconds: float, model_gain: float, steps: int = 60) -> tuple[int, bool]:
    """One sequence of copies that hold beside a model that promises `model_gain` more: its drafts, and suspension."""
    suspended, drafts = gate.begin(), 0
    for _ in range(steps):
        shape = gate.next_shape(1000)
        asked = shape.forwards > 0 and not suspended
        drafts += asked
        scores, known = [0.6], [0, 0]
        if asked:
            scores, known = [0.6, 0.6 * model_gain], [0, 0, 1]
        tree = DraftTree(range(len(known)), [0, 0, 1][: len(known)], [1.0, *scores], known, int(asked))
        tree = gate.cut(tree, 1000) if shape.nodes > 1 else root(0)
        cost = verification(len(tree))
        suspended |= gate.learn(tree, shape, range(len(tree)), asked * model_seconds, cost, 1000)
    return drafts, suspended


def test_models_that_do_not_pay_are_suspended_longer_and_longer() -> None:
    gate = DraftGate(TreeShape(nodes=8, depth=4))
    drafts = [sequence(gate, 0.5 * PLAIN, 0.1)[0] for _ in range(40)]
    assert drafts[0] > 0
    asked = [number for number, count in enumerate(drafts) if count]
    assert [later - earlier for earlier, later in pairwise(asked)] == [1, 2, 4, 8, 16]
    for enabled, cost in ((True, 0.05 * PLAIN), (False, 5 * PLAIN)):  # those that pay, or that nobody judges
        gate = DraftGate(TreeShape(nodes=8, depth=4), enabled=enabled)
        told = [sequence(gate, cost, 0.9) for _ in range(5)]
        assert not any(suspended for _, suspended in told)
        assert min(count for count, _ in told) > 40


def test_the_pace_of_the_machine_is_that_of_all_sizes() -> None:
    costs = CostModel()
    for _ in range(10):
        for nodes, seconds in ((1, 0.04), (4, 0.06), (8, 0.08)):
            costs.learn(nodes, 1000, seconds)
    for _ in range(60):
        costs.learn(4, 1000, 0.12)  # the machine is half as fast, and only this size is measured
    assert costs.seconds(4, 1000) == pytest.approx(0.12, rel=0.05)
    assert costs.seconds(8, 1000) / costs.plain(1000) == pytest.approx(2.0, rel=0.05)
    assert costs.plain(1000) > 0.055


def test_a_larger_tree_never_counts_as_cheaper() -> None:
    costs = CostModel()
    for nodes, seconds in ((1, 0.05), (2, 0.04), (3, 0.06), (4, 0.05)):
        for _ in range(5):
            costs.learn(nodes, 1000, seconds)
    curve = costs.curve((1, 2, 3, 4), 1000)
    assert curve == sorted(curve)
    assert curve[0] == pytest.approx(0.045)
    assert curve[2] == pytest.approx(0.055)
