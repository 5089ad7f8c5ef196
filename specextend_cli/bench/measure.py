"""One run of one of our methods over one prompt. Only time inside the engine counts."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter

from specextend_cli.bench.prefilled import Prefilled
from specextend_cli.engine.config import Retrieval, Sampling
from specextend_cli.engine.decode import decode
from specextend_cli.engine.draft_gate import DraftGate
from specextend_cli.engine.drafters import Drafter
from specextend_cli.engine.events import Event, Retrieved, Step
from specextend_cli.engine.events import Prefilled as PrefilledEvent
from specextend_cli.engine.stop import Stop


@dataclass
class Run:
    """The result of a run, ours or an external program's; fields as in `Record`."""

    tokens: list[int] = field(default_factory=list)
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0
    accepted: list[int] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)
    draft_seconds: float = 0.0
    verify_seconds: float = 0.0
    retrieve_seconds: float = 0.0
    hits: list[float] = field(default_factory=list)

    @property
    def hit(self) -> float | None:
        """Mean share of the target's attention on the working set."""
        return sum(self.hits) / len(self.hits) if self.hits else None


@dataclass(frozen=True, slots=True)
class Decoding:
    """What all methods of a benchmark share."""

    sampling: Sampling
    tokens: int
    eos: frozenset[int]
    prefill_chunk: int


def measured(
    target: Prefilled,
    drafter: Drafter,
    prompt: Sequence[int],
    decoding: Decoding,
    retrieval: Retrieval,
    budget: DraftGate,
) -> Generator[Event, None, Run]:
    """Decode once; yields the engine's events and returns what was measured.

    Prefill time is that of the target's real reading, plus whatever the drafter read.
    """
    run = Run()
    events = decode(
        target,
        drafter,
        prompt,
        stop=Stop(decoding.tokens, decoding.eos),
        sampling=decoding.sampling,
        retrieval=retrieval,
        gate=budget,
        prefill_chunk=decoding.prefill_chunk,
    )
    seconds, prefilled = 0.0, False
    for event, took in _timed(events):
        seconds += took
        match event:
            case PrefilledEvent():
                run.prefill_seconds = seconds - target.spent_seconds + target.read_seconds
                seconds, prefilled = 0.0, True
            case Step():
                run.tokens += event.tokens
                if event.nodes:
                    run.accepted.append(event.accepted)
                    run.nodes.append(event.nodes)
                    run.draft_seconds += event.draft_seconds
                    run.verify_seconds += event.verify_seconds
            case Retrieved():
                run.retrieve_seconds += event.seconds
                run.hits.append(event.hit)
            case _:
                pass
        yield event
    assert prefilled
    run.decode_seconds = seconds
    return run


def _timed(events: Iterator[Event]) -> Iterator[tuple[Event, float]]:
    """Every event with the seconds it took to come."""
    while True:
        began = perf_counter()
        event = next(events, None)
        took = perf_counter() - began
        if event is None:
            return
        yield event, took
