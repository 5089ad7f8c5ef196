"""Statistics of a run, derived from its events, for the panel, `--json` and the benchmark alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING

from specextend_cli.engine.events import Accepted, Prefilled, Retrieved

if TYPE_CHECKING:
    from torch import Tensor

ENOUGH_PLAIN, ENOUGH_DRAFTED = 8, 16
"""Steps without and with drafts that a speedup needs."""
_UNSURE = 0.1  # largest relative standard error of either mean cost with which a speedup is given


@dataclass
class Meter:
    """Takes events with `add`; its properties are sums and means over all prompts."""

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
    _hits: Tensor | float = 0.0  # summed where the attention is, and read when somebody asks
    drafted_steps: int = 0
    # Durations of steps, in units of the plain step's estimated duration at the time.
    _plain: list[float] = field(default_factory=list)
    _drafted: list[float] = field(default_factory=list)
    _drafted_tokens: int = 0
    _retrieved: float = 0.0  # in plain steps
    _plain_seconds: float = 0.0  # of the last step

    def add(self, event: object) -> None:
        """Count one event of the engine; others count nothing."""
        match event:
            case Prefilled():
                self.prompt_tokens += event.tokens
                self.prefill_seconds += event.seconds
            case Accepted():
                self.tokens += event.accepted
                if not event.nodes:
                    return
                if event.batch_size > 1:
                    self.batched_tokens += event.accepted
                    self.batched_seconds += event.verify_seconds
                else:
                    self.steps += 1
                    self.nodes += event.nodes
                    self.draft_seconds += event.draft_seconds
                    self.verify_seconds += event.verify_seconds
                    self.accepted_lengths[event.accepted] += 1
                    self.drafted_steps += event.nodes > 1
                    self._compare(event)
            case Retrieved():
                self.retrievals += 1
                self.retrieve_seconds += event.seconds
                self._hits = self._hits + event.attention
                if self._plain_seconds:
                    self._retrieved += event.seconds / self._plain_seconds

    def _compare(self, step: Accepted) -> None:
        self._plain_seconds = step.plain_seconds
        if not step.plain_seconds:
            return
        took = (step.draft_seconds + step.verify_seconds) / step.plain_seconds
        if step.nodes == 1:
            self._plain.append(took)
        else:
            self._drafted.append(took)
            self._drafted_tokens += step.accepted

    @property
    def decode_seconds(self) -> float:
        """Seconds of drafting, verifying, retrieving, and decoding in batches."""
        return self.draft_seconds + self.verify_seconds + self.retrieve_seconds + self.batched_seconds

    @property
    def tokens_per_second(self) -> float:
        """Decoding speed, without prefill."""
        return (self.stepped + self.batched_tokens) / self.decode_seconds if self.decode_seconds else 0.0

    def speed(self, *, batched: bool) -> float:
        """Tokens a second of all sequences of a batch together, or of single ones; 0.0 before any step."""
        single = self.stepped, self.decode_seconds - self.batched_seconds
        tokens, seconds = (self.batched_tokens, self.batched_seconds) if batched else single
        return tokens / seconds if seconds else 0.0

    @property
    def stepped(self) -> int:
        """Tokens emitted by steps of single sequences, without the one that each prefill gives."""
        return sum(length * count for length, count in self.accepted_lengths.items())

    @property
    def accepted_length(self) -> float:
        """Mean tokens per step of single sequences, bonus included; 1.0 is plain decoding, 0.0 before any step."""
        return self.stepped / self.steps if self.steps else 0.0

    @property
    def hit(self) -> float | None:
        """Mean share of the target's attention on the drafter's working set; None without retrieval."""
        return min(float(self._hits) / self.retrievals, 1.0) if self.retrievals else None

    @property
    def speedup(self) -> float | None:
        """Speed of single sequences relative to the plain steps of the same run; batches do not count.

        None where nothing was drafted, or where steps of either kind are too few or too uneven.
        """
        plain, drafted = self._plain, self._drafted
        if len(plain) < ENOUGH_PLAIN or len(drafted) < ENOUGH_DRAFTED or not (_is_sure(plain) and _is_sure(drafted)):
            return None
        return (self._drafted_tokens + len(plain)) * fmean(plain) / (sum(plain) + sum(drafted) + self._retrieved)


def _is_sure(durations: Sequence[float]) -> bool:
    """Whether their mean is known well; on a busy machine it is not."""
    mean = fmean(durations)
    variance = fmean((took - mean) ** 2 for took in durations)
    return variance <= (_UNSURE * mean) ** 2 * (len(durations) - 1)
