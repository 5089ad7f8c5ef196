"""The events of a benchmark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from specextend_cli.bench.records import Benchmark, Record
from specextend_cli.bench.tables import Experiment
from specextend_cli.models.preset import Preset
from specextend_cli.summarize.events import Stage, Warned


@dataclass(frozen=True, slots=True)
class Started:
    """`done` of `runs` runs are known from an interrupted benchmark."""

    runs: int
    done: int


@dataclass(frozen=True, slots=True)
class Reading:
    """`done` of the prompt's `length` tokens are read, for every method of ours at once."""

    document: str
    length: int
    done: int


@dataclass(frozen=True, slots=True)
class WarmingUp:
    """A method runs for a moment, unrecorded."""

    method: str
    length: int


@dataclass(frozen=True, slots=True)
class Decoding:
    """A method has written `tokens` of at most `limit` tokens. External programs only report their start."""

    method: str
    document: str
    length: int
    repeat: int
    tokens: int
    limit: int


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
    """The whole benchmark. `wrong` names methods of ours whose tokens differ from plain decoding's beyond rounding.

    Call `forget` when the result is safe: until then, the same benchmark would find its runs measured.
    """

    benchmark: Benchmark
    wrong: tuple[str, ...]
    forget: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Explored:
    """Experiments are done; `facts` say what they belong to. `wrong`, `skipped` and `forget` as in `Finished`.

    `preset` is what tuning found, where it found something better.
    """

    experiments: tuple[Experiment, ...]
    facts: dict[str, str]
    wrong: tuple[str, ...]
    skipped: dict[str, str]
    exact: bool
    forget: Callable[[], None]
    preset: Preset | None = None


Running: TypeAlias = Started | Reading | WarmingUp | Decoding | Measured | Checked | Skipped
Result: TypeAlias = Finished | Explored
Event: TypeAlias = Running | Stage | Warned | Result
