"""What a benchmark measures: one record a run, what it ran on, and the events by which it is told. Plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from specextend_cli.bench.formats import Experiment

if TYPE_CHECKING:
    from specextend_cli.summarize.events import Stage, Warned

PLAIN = "plain"  # plain decoding: the method that every other is compared with


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first token that differs from plain decoding's.

    `gap` is the difference of plain decoding's two largest logits at that token: rounding in half precision can swap
    two close logits, a wrong implementation swaps distant ones. None where it was not computed.
    """

    index: int
    gap: float | None


@dataclass(frozen=True, slots=True)
class Run:
    """One output of one method, ours or another program's.

    `accepted` and `nodes`: one entry a verification step, bonus token included; empty for programs that do not report
    steps. Seconds are wall clock: `prefill_seconds` until the first token, `decode_seconds` for the rest. `hit`: mean
    share of the target's attention that falls on the working set.
    """

    tokens: tuple[int, ...]
    prefill_seconds: float
    decode_seconds: float
    accepted: tuple[int, ...] = ()
    nodes: tuple[int, ...] = ()
    hit: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record(Run):
    """A run of one method on one prompt of `length` tokens, one repeat; `scaled`: RoPE was stretched."""

    method: str
    length: int
    document: str
    repeat: int
    scaled: bool = False
    text: str = ""
    divergence: Divergence | None = None


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A whole run: `settings` (JSON types only), machine, records, and the tables and plots made of them.

    `skipped` maps a method to the reason why it was left out. `wrong` names methods of ours whose tokens differ from
    plain decoding's by more than rounding explains.
    """

    preset: str
    settings: dict[str, object]
    machine: dict[str, str]
    seed: int
    records: tuple[Record, ...] = ()
    experiments: tuple[Experiment, ...] = ()
    skipped: dict[str, str] = field(default_factory=dict)
    wrong: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Measured:
    """A run is over: the `done`-th of `runs`."""

    record: Record
    done: int
    runs: int


Running: TypeAlias = "Stage | Measured | Warned"
Event: TypeAlias = "Running | Benchmark"
"""The last event is the `Benchmark`."""
