"""Fewer threads while other programs want the cores, by the process's own clocks; the tokens stay what they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from specextend_cli.engine.drafters import NgramDrafter
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.target import Target
from specextend_cli.engine.thread_governor import ThreadGovernor
from tests.engine.test_identity import SHAPE, run, small
from tests.engine.tiny_models import generate, prompt, tiny


@pytest.fixture(autouse=True)
def threads_as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


class Machine:
    """Cores that `busy` other programs want: what a step takes there, and the processor time it gets."""

    def __init__(self, cores: int, busy: int = 0) -> None:
        self.cores, self.busy = cores, busy
        self.wall = self.cpu = 0.0
        self.governor = ThreadGovernor(cores, clock=lambda: self.wall, cpu_clock=lambda: self.cpu)

    def compute(self, threads: int, work: float) -> float:
        free = self.cores - self.busy
        crowded = max(threads - free, 0)
        # A region waits for its slowest thread; one thread alone only shares its core.
        slower = 1 if not crowded else 2 if threads == 1 else 20
        seconds = work / threads * slower
        self.wall += seconds
        self.cpu += seconds * (threads - crowded / 2)
        return seconds

    def step(self, rows: int = 1) -> int:
        self.governor.begin_step()
        threads = self.governor.threads
        self.governor.end_step(rows, self.compute(threads, 0.02 * (1 + 0.15 * (rows - 1))))
        return threads

    def mostly(self, seconds: float) -> int:
        """How many threads compute for 80% of so much time at least; 0 for none."""
        end, spent = self.wall + seconds, dict[int, float]()
        while self.wall < end:
            at = self.wall
            threads = self.step()
            spent[threads] = spent.get(threads, 0.0) + self.wall - at
        most = max(spent, key=spent.__getitem__)
        return most if spent[most] > 0.8 * seconds else 0


def test_an_idle_machine_computes_with_all_threads() -> None:
    machine = Machine(cores=4)
    assert {machine.step() for _ in range(500)} == {4}


@pytest.mark.parametrize(("busy", "threads"), [(1, 2), (2, 2), (3, 1), (4, 1)])
def test_a_busy_machine_uses_fewer_threads(busy: int, threads: int) -> None:
    machine = Machine(cores=4, busy=busy)
    machine.mostly(10.0)
    assert machine.mostly(60.0) == threads


def test_all_threads_return_when_the_machine_is_idle() -> None:
    machine = Machine(cores=2, busy=2)
    machine.mostly(60.0)
    assert machine.mostly(60.0) == 1
    machine.busy = 0
    machine.mostly(20.0)
    assert machine.mostly(60.0) == 2


def test_a_contended_prefill_chunk_lowers_the_threads() -> None:
    machine = Machine(cores=2, busy=2)
    used = []
    for _ in range(3):
        with machine.governor.prefilling(None):
            used.append(torch.get_num_threads() if machine.governor.threads < 2 else 2)
            machine.compute(used[-1], 0.5)
    assert used == [2, 1, 1]


@pytest.mark.parametrize("rows", [1, 8])
def test_larger_steps_do_not_count_as_slow(rows: int) -> None:
    """Trees of many sizes on an idle machine."""
    machine = Machine(cores=2)
    assert {machine.step(rows if i % 2 else 1) for i in range(200)} == {2}


def test_a_single_thread_is_not_governed() -> None:
    clocks: list[Callable[[], float]] = []
    governor = ThreadGovernor(1, clock=lambda: clocks[0]())  # would fail if asked
    governor.begin_step()
    governor.end_step(1, 1.0)
    with governor.prefilling(None):
        pass


def test_tokens_do_not_depend_on_the_number_of_threads() -> None:
    model = tiny()
    expected = generate(model, prompt(), 32)
    lm = LanguageModel(model)
    wall = iter(range(1_000_000))
    lm.governor = ThreadGovernor(2, clock=lambda: float(next(wall)), cpu_clock=lambda: 0.0)  # always crowded
    assert run(Target(lm), NgramDrafter(), prompt(), small("full"), shape=SHAPE)[0] == expected
