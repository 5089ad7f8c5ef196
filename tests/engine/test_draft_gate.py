"""The gate, on a clock of our own: costs are invented, so nothing here depends on the machine."""

from __future__ import annotations

import random
from itertools import pairwise, product

import pytest

from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.cost_model import CostModel
from specextend_cli.engine.draft_gate import DraftGate
from specextend_cli.engine.retrieval import Schedule
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


def simulate(
    rate: float, promised: float, draft_seconds: float, *, tokens: int = 600, noise: float = 0.0, copies: bool = False
) -> float:
    """Seconds of plain decoding over seconds behind the gate, when each drafted token is right with probability `rate`
    and the drafter says `promised`. `copies`: it drafts without forwards."""
    rng = random.Random(0)
    gate = DraftGate(TreeShape(nodes=8, depth=7))
    emitted, seconds = 0, 0.0
    while emitted < tokens:
        shape = gate.next_shape(1000)
        drafting = shape.nodes > 1 and (copies or shape.forwards > 0)
        spent = draft_seconds if drafting else 0.0
        tree = chain([promised**i for i in range(1, 8)], copied=copies) if drafting else root(0)
        tree = gate.cut(tree, 1000)
        accepted = 1
        while accepted < len(tree) and rng.random() < rate:
            accepted += 1
        cost = verification(len(tree)) * (1 + noise * rng.random())
        gate.learn(tree, shape, range(accepted), spent, cost, 1000)
        emitted, seconds = emitted + accepted, seconds + spent + cost
    return emitted * PLAIN * (1 + noise / 2) / seconds


@pytest.mark.parametrize("promised", [0.1, 0.5, 0.95])
@pytest.mark.parametrize("draft_seconds", [0.0, 0.01, 0.1, 0.4])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_a_useless_drafter_costs_almost_nothing(promised: float, draft_seconds: float, noise: float) -> None:
    # A first trial is unavoidable: ten times a plain step in the worst case here, 600 tokens to carry it.
    assert simulate(0.0, promised, draft_seconds, noise=noise) > 0.95


@pytest.mark.parametrize("promised", [0.1, 0.5, 0.95])
@pytest.mark.parametrize("draft_seconds", [0.0, 0.001, 0.004, 0.02])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_useless_copies_cost_almost_nothing(promised: float, draft_seconds: float, noise: float) -> None:
    """Nor does looking for them: a tenth of a plain step, on every step."""
    assert simulate(0.0, promised, draft_seconds, noise=noise, copies=True) > 0.97


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("promised", [0.6, 0.8, 0.95])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_a_good_drafter_is_used(promised: float, noise: float, copies: bool) -> None:
    assert simulate(0.8, promised, 0.01, noise=noise, copies=copies) > 1.9


def test_a_drafter_that_costs_more_than_it_gains_is_not_used() -> None:
    assert simulate(0.8, 0.8, 0.3) > 0.95


@pytest.mark.parametrize(("forward", "rate", "most"), [(0.001, 0.9, 7), (0.012, 0.55, 1), (0.04, 0.2, 0)])
def test_the_number_of_forwards_that_pays_is_found(forward: float, rate: float, most: int) -> None:
    """A forward costs a fortieth of a plain step, three tenths, or all of one; `rate`: it brings a token so often."""
    rng = random.Random(0)
    gate = DraftGate(TreeShape(nodes=8, depth=7))
    granted = []
    for _ in range(400):
        shape = gate.next_shape(1000)
        forwards = min(shape.forwards, 7) if shape.nodes > 1 else 0
        tree = gate.cut(chain([rate**i for i in range(1, forwards + 1)]) if forwards else root(0), 1000)
        accepted = 1
        while accepted < len(tree) and rng.random() < rate:
            accepted += 1
        gate.learn(tree, shape, range(accepted), forwards * forward, verification(len(tree)), 1000)
        granted.append(forwards)
    late = granted[200:]
    assert max(set(late), key=late.count) == most


@pytest.mark.parametrize("looking", [0.0, 0.003, 0.01])
def test_a_model_that_fails_at_first_is_tried_again(looking: float) -> None:
    """Though a draft without it proposes nothing, and costs next to nothing."""
    gate = DraftGate(TreeShape(nodes=4, depth=1))
    drafted = []
    for step in range(1500):
        shape = gate.next_shape(1000)
        drafts = shape.nodes > 1 and shape.forwards > 0
        tree = gate.cut(chain([0.9]) if drafts else root(0), 1000)
        accepted = len(tree) if step > 300 else 1
        spent = 0.1 * PLAIN if drafts else looking * PLAIN if shape.nodes > 1 else 0.0
        gate.learn(tree, shape, range(accepted), spent, verification(len(tree)), 1000)
        drafted.append(drafts)
    assert sum(drafted[100:300]) < 40
    assert sum(drafted[1300:]) > 180


def test_a_trial_that_cannot_be_afforded_does_not_stop_the_rest() -> None:
    """Copies bring a token more a step; the model loses two plain steps a draft."""
    gate = DraftGate(TreeShape(nodes=4, depth=1))
    tokens, seconds = 0, 0.0
    for step in range(200):
        shape = gate.next_shape(1000)
        if shape.nodes == 1:
            tree, spent = root(0), 0.0
        elif shape.forwards == 0:
            tree, spent = chain([0.5], copied=True), 0.0
        else:
            tree, spent = chain([0.5], copied=True, forwards=1), 2 * PLAIN
        tree = gate.cut(tree, 1000)
        accepted = len(tree) if step % 2 else 1
        gate.learn(tree, shape, range(accepted), spent, verification(len(tree)), 1000)
        tokens, seconds = tokens + accepted, seconds + spent + verification(len(tree))
    assert tokens * PLAIN / seconds > 1.3


@pytest.mark.parametrize("slow", range(0, 40, 3))
def test_a_slow_step_does_not_stop_drafting(slow: int) -> None:
    gate = DraftGate(TreeShape(nodes=4, depth=1))
    accepted = 0
    for step in range(300):
        shape = gate.next_shape(1000)
        drafts = shape.nodes > 1 and shape.forwards > 0
        tree = gate.cut(chain([0.9]) if drafts else root(0), 1000)
        cost = verification(len(tree)) * (100 if step == slow else 1)
        gate.learn(tree, shape, range(len(tree)), 0.1 * PLAIN if drafts else 0.0, cost, 1000)
        accepted += len(tree) if step >= 200 else 0
    assert accepted > 180


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
    plain, rng = 0.001, random.Random(sum(slow))
    gate = DraftGate(TreeShape(nodes=16, depth=4))
    drafts, late = 0, []
    for step in range(300):
        shape = gate.next_shape(1000)
        is_drafting = shape.nodes > 1 and shape.forwards > 0
        forwards = min(shape.forwards, 4)
        tree = gate.cut(chain([rate**i for i in range(1, forwards + 1)]) if is_drafting else root(0), 1000)
        accepted = 1
        while accepted < len(tree) and rng.random() < rate:
            accepted += 1
        seconds = {True: plain * (1 + 0.01 * len(tree)), False: plain * 0.1 * forwards if is_drafting else 0.0}
        seconds[of_verification] += hiccup if is_drafting and drafts in slow else 0.0
        drafts += is_drafting
        gate.learn(tree, shape, range(accepted), seconds[False], seconds[True], 1000)
        if step >= 100:
            late.append(is_drafting)
    assert sum(late) > 0.9 * len(late)


@pytest.mark.parametrize("hiccup", [0.15, 0.5, 2.0])
@pytest.mark.parametrize("slow", range(4))
@pytest.mark.parametrize("rate", [0.35, 0.5, 0.8])
def test_a_hiccup_in_a_choice_of_a_working_set_does_not_stop_drafting(hiccup: float, slow: int, rate: float) -> None:
    plain, rng = 0.001, random.Random(slow)
    gate, schedule = DraftGate(TreeShape(nodes=16, depth=4)), Schedule(4)
    choices, late = 0, []
    for _ in range(300):
        shape = gate.next_shape(1000)
        forwards = min(shape.forwards, 4) if shape.nodes > 1 else 0
        tree = gate.cut(chain([rate**i for i in range(1, forwards + 1)]) if forwards else root(0), 1000)
        accepted = 1
        while accepted < len(tree) and rng.random() < rate:
            accepted += 1
        is_choosing = forwards > 0 and schedule.due(gate.affords_choice)
        gate.learn(tree, shape, range(accepted), 0.1 * plain * forwards, plain * (1 + 0.01 * len(tree)), 1000)
        if is_choosing:
            gate.charge(0.2 * plain + (hiccup if choices == slow else 0.0), 1000)
            choices += 1
        late.append(forwards > 0)
    assert choices > slow + 3
    assert sum(late[100:]) > 180


def test_choosing_a_working_set_is_charged_to_the_draft() -> None:
    def gain(charged: float) -> float:
        gate = DraftGate(TreeShape(nodes=2, depth=1))
        tokens = 0
        for _ in range(300):
            shape = gate.next_shape(1000)
            drafts = shape.nodes > 1 and shape.forwards > 0
            tree = gate.cut(chain([0.9]) if drafts else root(0), 1000)
            gate.learn(tree, shape, range(len(tree)), 0.001, verification(len(tree)), 1000)
            if drafts:
                gate.charge(charged, 1000)
            tokens += len(tree)
        return tokens / 300

    assert gain(0.0) > 1.8
    assert gain(2 * PLAIN) < 1.2


@pytest.mark.parametrize("seconds", [0.1 * PLAIN, 0.5 * PLAIN])
def test_choosing_working_sets_takes_one_percent_of_the_time(seconds: float) -> None:
    gate, choices, steps = DraftGate(TreeShape(nodes=2, depth=1)), 0, 2000
    for _ in range(steps):
        shape = gate.next_shape(1000)
        drafts = shape.nodes > 1 and shape.forwards > 0
        tree = gate.cut(chain([0.95]) if drafts else root(0), 1000)
        affords = drafts and gate.affords_choice()
        gate.learn(tree, shape, range(len(tree)), 0.001, verification(len(tree)), 1000)
        if affords:
            gate.charge(seconds, 1000)
            choices += 1
    assert 0.005 < choices * seconds / (steps * PLAIN) < 0.012


def test_one_slow_choice_does_not_postpone_the_next_for_long() -> None:
    gate, steps = DraftGate(TreeShape(nodes=2, depth=1)), 0
    while not (shape := gate.next_shape(1000)).forwards or shape.nodes == 1:
        gate.learn(root(0), shape, [0], 0.0, PLAIN, 1000)
    gate.learn(chain([0.9]), shape, [0, 1], 0.0, PLAIN, 1000)
    gate.charge(1000 * PLAIN, 1000)
    while not gate.affords_choice() and steps < 1000:
        gate.learn(root(0), gate.next_shape(1000), [0], 0.0, PLAIN, 1000)
        steps += 1
    assert 50 < steps < 150


def test_without_the_gate_choices_are_always_affordable() -> None:
    for gate in (True, False):
        gate = DraftGate(TreeShape(nodes=2, depth=1), enabled=gate)
        for _ in range(3):
            gate.learn(root(0), TreeShape(nodes=1), [0], 0.0, PLAIN, 1000)
        gate.learn(chain([0.9]), TreeShape(nodes=2, depth=1, forwards=1), [0, 1], 0.0, PLAIN, 1000)
        gate.charge(PLAIN, 1000)
        assert gate.affords_choice() != gate


def test_without_the_gate_every_step_drafts() -> None:
    gate = DraftGate(TreeShape(nodes=4), enabled=False)
    assert [gate.next_shape(10).nodes for _ in range(3)] == [4, 4, 4]
    assert len(gate.cut(chain([0.01] * 9), 10)) == 4


def test_the_first_steps_are_plain() -> None:
    gate = DraftGate()
    assert gate.costs.plain(100) == 0.0
    for _ in range(2):
        shape = gate.next_shape(100)
        assert shape.nodes == 1
        gate.learn(root(0), shape, [0], 0.0, PLAIN, 100)
    assert gate.costs.plain(100) == pytest.approx(PLAIN)
    assert gate.next_shape(100).nodes > 1


def test_costs_between_and_beyond_measured_sizes() -> None:
    costs = CostModel()
    for nodes, seconds in ((1, 0.04), (8, 0.06), (1, 0.5), (8, 0.9)):  # the fastest of the first measurements counts
        costs.learn(nodes, 1000, seconds)
    assert costs.plain(1000) == pytest.approx(0.04)
    assert costs.seconds(1, 1000) == pytest.approx(0.04)
    assert costs.seconds(4, 1000) == pytest.approx(0.04 + 0.02 * 3 / 7)
    assert costs.seconds(18, 1000) > costs.seconds(8, 1000)
    assert costs.plain(64) == 0.0


def test_a_slow_step_hardly_changes_the_cost() -> None:
    costs = CostModel()
    for _ in range(20):
        costs.learn(1, 1000, 0.04)
    costs.learn(1, 1000, 10.0)
    assert costs.plain(1000) < 0.05


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


def test_models_that_pay_are_not_suspended() -> None:
    gate = DraftGate(TreeShape(nodes=8, depth=4))
    for _ in range(5):
        drafts, suspended = sequence(gate, 0.05 * PLAIN, 0.9)
        assert drafts > 40
        assert not suspended


def test_without_the_gate_no_model_is_suspended() -> None:
    gate = DraftGate(TreeShape(nodes=8, depth=4), enabled=False)
    assert not any(sequence(gate, 5 * PLAIN, 0.0)[1] for _ in range(3))


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
