"""Figures of a run, derived from its events: one consumer that the panel, `--json` and the benchmark share."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from specextend_cli.engine.events import Event, Prefilled, Retrieved, Step


@dataclass
class Meter:
    """Feed it events; read its properties. Sums over every prompt it has seen."""

    prompt_tokens: int = 0
    prefill_seconds: float = 0.0
    tokens: int = 0
    steps: int = 0
    nodes: int = 0
    draft_seconds: float = 0.0
    verify_seconds: float = 0.0
    retrieve_seconds: float = 0.0
    retrievals: int = 0
    batched_tokens: int = 0
    batched_seconds: float = 0.0
    accepted_lengths: Counter[int] = field(default_factory=Counter)
    _hits: float = 0.0
    _plain_equivalent: float = 0.0
    _plain_known: float = 0.0

    def add(self, event: Event) -> None:
        """Count one event."""
        match event:
            case Prefilled():
                self.prompt_tokens += event.tokens
                self.prefill_seconds += event.seconds
            case Step():
                self.tokens += event.accepted
                if not event.nodes:
                    return
                if event.together > 1:
                    self.batched_tokens += event.accepted
                    self.batched_seconds += event.verify_seconds
                else:
                    self.steps += 1
                    self.nodes += event.nodes
                    self.draft_seconds += event.draft_seconds
                    self.verify_seconds += event.verify_seconds
                    self.accepted_lengths[event.accepted] += 1
                if event.plain_seconds:
                    self._plain_equivalent += event.plain_seconds * event.accepted
                    self._plain_known += event.draft_seconds + event.verify_seconds
            case Retrieved():
                self.retrievals += 1
                self.retrieve_seconds += event.seconds
                self._hits += event.hit
            case _:
                pass

    @property
    def decode_seconds(self) -> float:
        """Seconds spent decoding: drafting, verifying and retrieving, and writing several texts together."""
        return self.draft_seconds + self.verify_seconds + self.retrieve_seconds + self.batched_seconds

    @property
    def tokens_per_second(self) -> float:
        """Decoding speed; prefill is not in it."""
        return (self.stepped + self.batched_tokens) / self.decode_seconds if self.decode_seconds else 0.0

    @property
    def stepped(self) -> int:
        """Tokens emitted by steps of one sequence (all but the one each prefill gives)."""
        return sum(length * count for length, count in self.accepted_lengths.items())

    @property
    def accepted_length(self) -> float:
        """Mean tokens a step of one sequence emits, bonus included; 1.0 is plain decoding, 0.0 before any step."""
        return self.stepped / self.steps if self.steps else 0.0

    @property
    def hit(self) -> float | None:
        """Mean share of the target's attention that fell on the drafter's working set; None without retrieval."""
        return self._hits / self.retrievals if self.retrievals else None

    @property
    def speedup(self) -> float | None:
        """Speed against plain decoding measured in the same run; None until a plain step's cost is known."""
        spent = self._plain_known + self.retrieve_seconds
        return self._plain_equivalent / spent if self._plain_known else None
