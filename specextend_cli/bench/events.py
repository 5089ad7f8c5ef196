"""The events of a benchmark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from specextend_cli.bench.records import Benchmark, Record
from specextend_cli.bench.tables import Experiment
from specextend_cli.summarize.events import Stage, Warned


@dataclass(frozen=True, slots=True)
class Started:
    """`done` of `runs` runs are known from an interrupted benchmark."""

    runs: int
    done: int


@dataclass(frozen=True, slots=True)
class Working:
    """A line about what is going on: reading, warming up, decoding. `done` of `total` tokens, if known."""

    what: str
    done: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class Measured:
    """A run is over: the `done`-th of `runs`. It is compared with plain decoding later."""

    record: Record
    done: int
    runs: int


@dataclass(frozen=True, slots=True)
class Checked:
    """The same record, compared with plain decoding."""

    record: Record


@dataclass(frozen=True, slots=True)
class Skipped:
    """A method is left out from here on, for this reason."""

    method: str
    why: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The whole benchmark: its records, or the results of experiments.

    `wrong` names methods of ours whose tokens differ from plain decoding's beyond rounding. Call `forget` when the
    result is safe: until then, the same benchmark would find its runs measured.
    """

    benchmark: Benchmark
    wrong: tuple[str, ...]
    forget: Callable[[], None]
    experiments: tuple[Experiment, ...] = ()


Running: TypeAlias = Started | Working | Measured | Checked | Skipped
Event: TypeAlias = Running | Stage | Warned | Finished
