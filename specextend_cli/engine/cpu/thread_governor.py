"""How many threads compute while other programs want the cores: fewer when they do, all again when they are gone.

Threads of one parallel region wait for the slowest of them, and they wait by spinning. When another program takes a
core, the thread on it stops for milliseconds in the middle of regions that last microseconds, and a step can take
fifty times its time; one thread less would not have been stopped at all. So the processor time of the process is
compared with the wall time of its threads: where a share of it is missing, some other program had the cores. A few
steps are then computed with half the threads, and whichever count takes less time a step is kept until the next
comparison.

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

from specextend_cli.engine.cpu.decoding_threads import on_threads

_MISSING = 0.3  # threads' worth of processor time: a thread that shares its core with one other program lacks 0.5
_STEPS = 4  # of a comparison
_RECENT = 8  # steps that are remembered
_NODE = 0.15  # of a plain step's time, that each further row of a step takes
_BETTER = 0.9  # of the time with the other count; less is noise
_SOONEST, _LATEST = 1.0, 16.0  # seconds between comparisons; twice as many after each that changed nothing, ...
_RARELY = 20.0  # ... and so many times what that one took: threads that wait for each other can take seconds for a step


class _Step(NamedTuple):
    """`rate`: seconds a plain step's worth of work; wall and processor seconds of all that belongs to the step."""

    rate: float
    wall: float
    cpu: float


class ThreadGovernor:
    """Chooses among `most` threads, a half, a quarter ..., and one. With `most` 1 it leaves torch as it is.

    `clock` and `cpu_clock` give wall and process seconds.
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
        self._reach = 1  # levels down, to what is tried next
        self._steps: deque[_Step] = deque(maxlen=_RECENT)
        self._began = (0.0, 0.0)
        self._compared: tuple[int, float] | None = None  # the level before, and its rate, while another one is tried
        self._due, self._delay = 0.0, _SOONEST

    @property
    def threads(self) -> int:
        """What it has chosen."""
        return self._counts[self._level]

    @contextmanager
    def reading(self, threads: int | None) -> Iterator[None]:
        """Around a chunk of a prompt, for which an idle machine gives `threads` (None: as many as torch has).

        A chunk is too long to try anything on: one that was crowded out is taken as the sign it is.
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
        if self._level == 0 and _crowded(used, wall, cpu):
            self._move(1)

    def begin_step(self) -> None:
        """Call before drafting and verification: torch has the chosen number of threads from now on."""
        if len(self._counts) > 1:
            if torch.get_num_threads() != self.threads:
                torch.set_num_threads(self.threads)
            self._began = self._clock(), self._cpu_clock()

    def end_step(self, rows: int, seconds: float) -> None:
        """The target's forward of `rows` rows in the step that began took `seconds`."""
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
                    # Half as many may be crowded as well: next time, try fewer yet.
                    farther = self._level - before + 1 if self._level > before else 1
                    took = sum(step.wall for step in self._steps)
                    self._move(before, max(min(2 * self._delay, _LATEST), _RARELY * took))
                    self._reach = farther if before + farther < len(self._counts) else 1
        elif now >= self._due and len(self._steps) >= _STEPS:
            wall, cpu = (sum(step[i] for step in self._steps) for i in (1, 2))
            fewer = self._level + self._reach
            if _crowded(self.threads, wall, cpu) and fewer < len(self._counts):
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


def _crowded(threads: int, wall: float, cpu: float) -> bool:
    """Whether some of the processor time of so many threads went to others."""
    return cpu < (threads - _MISSING) * wall
