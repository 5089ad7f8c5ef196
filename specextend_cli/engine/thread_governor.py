"""How many threads compute while other programs use the cores: fewer while they do, all again afterwards.

The threads of a parallel region wait for the slowest one by spinning. When another program takes a core, the thread on
it stops for milliseconds in regions that last microseconds, and a step can take fifty times as long; with one thread
less nothing would have stopped. The governor therefore compares the process's CPU time with the wall time of its
threads. Where CPU time is missing, it computes a few steps with half the threads and keeps whichever count is faster
per step until the next comparison.

Our kernels' results do not depend on the number of threads, so this changes no token.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import mean
from time import perf_counter, process_time
from typing import NamedTuple

import torch
from torch import nn

_SMALL = 500_000_000  # parameters
_MISSING = 0.3  # threads' worth of CPU time; a thread that shares its core with one other program lacks 0.5
_STEPS = 4  # steps per comparison
_RECENT = 8  # steps remembered
_NODE = 0.15  # share of a plain step's time that each further row of a step takes
_BETTER = 0.9  # share of the other count's time; less is noise
_SOONEST, _LATEST = 1.0, 16.0  # seconds between comparisons; doubled after each one that changed nothing
_RARELY = 20.0  # times what the last comparison took: contended threads can take seconds for a step


@contextmanager
def on_threads(count: int | None) -> Iterator[None]:
    """Compute with `count` torch threads; None leaves the number as it is."""
    before = torch.get_num_threads()
    if count in (None, before):
        yield
        return
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def probing_threads(model: nn.Module) -> int | None:
    """Threads for the short forwards that check a model at load; None leaves the number as it is.

    One for a small model: a second thread gains nothing there, and contended threads can take seconds.
    """
    return 1 if sum(weight.numel() for weight in model.parameters()) < _SMALL else None


class _Step(NamedTuple):
    """`rate`: seconds per plain step's worth of work; `wall` and `cpu`: seconds of the whole step."""

    rate: float
    wall: float
    cpu: float


class ThreadGovernor:
    """Chooses among `most` threads, a half, a quarter and so on, down to one. With `most` 1 it does nothing.

    `clock` and `cpu_clock` return wall seconds and the process's CPU seconds.
    """

    def __init__(
        self,
        most: int = 1,
        *,
        clock: Callable[[], float] = perf_counter,
        cpu_clock: Callable[[], float] = process_time,
    ) -> None:
        self._counts = [most]
        while self._counts[-1] > 1:
            self._counts.append(self._counts[-1] // 2)
        self._clock, self._cpu_clock = clock, cpu_clock
        self._level = 0
        self._reach = 1  # levels down to the count tried next
        self._steps: deque[_Step] = deque(maxlen=_RECENT)
        self._began = (0.0, 0.0)
        self._compared: tuple[int, float] | None = None  # the former level and its rate while another is tried
        self._due, self._delay = 0.0, _SOONEST

    @property
    def threads(self) -> int:
        """The current choice."""
        return self._counts[self._level]

    @contextmanager
    def prefilling(self, threads: int | None) -> Iterator[None]:
        """Around one prefill chunk, which gets `threads` on an idle machine (None: as many as torch has).

        A chunk is too long for a trial, so one that lacked CPU time lowers the number at once.
        """
        if len(self._counts) == 1:
            with on_threads(threads):
                yield
            return
        used = (threads or self._counts[0]) if self._level == 0 else self.threads
        began, cpu_began = self._clock(), self._cpu_clock()
        with on_threads(used):
            yield
        wall, cpu = self._clock() - began, self._cpu_clock() - cpu_began
        if self._level == 0 and _contended(used, wall, cpu):
            self._move(1)

    def begin_step(self) -> None:
        """Call before drafting and verification: sets torch's threads to the current choice."""
        if len(self._counts) > 1:
            if torch.get_num_threads() != self.threads:
                torch.set_num_threads(self.threads)
            self._began = self._clock(), self._cpu_clock()

    def end_step(self, rows: int, seconds: float) -> None:
        """Call after the step: the target's forward of `rows` rows took `seconds`."""
        if len(self._counts) == 1:
            return
        now, (began, cpu_began) = self._clock(), self._began
        self._steps.append(_Step(seconds / (1 + _NODE * (rows - 1)), now - began, self._cpu_clock() - cpu_began))
        rate = mean(step.rate for step in self._steps)
        if self._compared is not None:
            before, old = self._compared
            if len(self._steps) == _STEPS or sum(step.rate for step in self._steps) > 2 * _STEPS * old:
                self._compared = None
                if rate < _BETTER * old:
                    self._move(self._level)
                else:
                    # Half as many may be contended as well: next time, try fewer yet.
                    farther = self._level - before + 1 if self._level > before else 1
                    took = sum(step.wall for step in self._steps)
                    self._move(before, max(min(2 * self._delay, _LATEST), _RARELY * took))
                    self._reach = farther if before + farther < len(self._counts) else 1
        elif now >= self._due and len(self._steps) >= _STEPS:
            wall, cpu = (sum(step[i] for step in self._steps) for i in (1, 2))
            fewer = self._level + self._reach
            if _contended(self.threads, wall, cpu) and fewer < len(self._counts):
                self._try(fewer, rate)
            elif self._level > 0:
                self._try(self._level - 1, rate)

    def _try(self, level: int, rate: float) -> None:
        self._compared = self._level, rate
        self._level = level
        self._steps.clear()

    def _move(self, level: int, delay: float = _SOONEST) -> None:
        """Stay at `level` for `delay` seconds at least."""
        self._level, self._delay, self._reach = level, delay, 1
        self._due = self._clock() + delay
        self._compared = None
        self._steps.clear()


def _contended(threads: int, wall: float, cpu: float) -> bool:
    """Whether other programs took some of the CPU time of so many threads."""
    return cpu < (threads - _MISSING) * wall
