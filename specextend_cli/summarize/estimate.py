"""How much of a run is done and how long the rest takes: begun by the plan and refined by measurement."""

from __future__ import annotations

from dataclasses import dataclass

from specextend_cli.engine import events as engine
from specextend_cli.engine.meter import Meter
from specextend_cli.summarize.events import Event, LevelWork, Part, Plan, Rates, Retried

_WRITTEN = 4.0  # cost of a generated token in tokens read, until earlier runs say it; with batches and drafts


@dataclass
class Estimate:
    """How much of a plan's work is done and how long the rest takes: feed it events after `meter`.

    The work is tokens to read, and tokens to write, which cost more each, level by level. What a unit of it takes this
    run has measured, or earlier ones.
    """

    meter: Meter
    _work: tuple[LevelWork, ...] = ()
    _rates: Rates | None = None
    _weight: float = _WRITTEN  # of a written token, in tokens read
    _part: Part | None = None  # the last one that began
    _unread: int = 0  # prompts of its level that this run has to read
    _unfinished: int = 0  # answers of its level that this run has to write
    _written: int = 0  # tokens that the meter had counted before this level and its finished answers
    _reading: tuple[int, float] = (0, 0.0)  # tokens of a prompt that are read, and the seconds this took
    _lengths: tuple[float, float] = (0.0, 0.0)  # tokens of finished answers: real and expected
    _share: float = 0.0

    def add(self, event: Event) -> None:
        """Take one event in."""
        match event:
            case Plan():
                self._work, self._rates = event.work, event.rates
                self._weight = event.rates.written / event.rates.read if event.rates else _WRITTEN
            case Part():
                if self._part is None or event.level != self._part.level:
                    self._unread = self._unfinished = event.parts
                    self._written = self.meter.tokens
                self._part = event
                self._unread, self._unfinished = self._unread - event.reused, self._unfinished - event.reused
            case Retried():
                self._unread, self._unfinished = self._unread + 1, self._unfinished + 1
            case engine.Prefilling():
                self._reading = event.done, event.seconds
            case engine.Prefilled():
                self._reading, self._unread = (0, 0.0), self._unread - 1
            case engine.Finished():
                self._unfinished, self._written = self._unfinished - 1, self._written + event.tokens
                self._lengths = self._lengths[0] + event.tokens, self._lengths[1] + self._answer

    @property
    def seconds_left(self) -> float | None:
        """Without the time of loading; None until earlier runs, or this run's first prompt, have measured it."""
        if not self._work:
            return None
        done, seconds = self._done, self.meter.prefill_seconds + self.meter.decode_seconds + self._reading[1]
        if done and seconds:
            return self._left * seconds / done
        return self._left * self._rates.read if self._rates else None

    @property
    def share(self) -> float | None:
        """How much of the whole run is done, 0 to 1; it never falls. None without a plan."""
        if not self._work:
            return None
        self._share = max(self._share, self._done / max(self._done + self._left, 1.0))
        return self._share

    @property
    def _done(self) -> float:
        return self.meter.prompt_tokens + self._reading[0] + self._weight * self.meter.tokens

    @property
    def _answer(self) -> float:
        """Tokens of an answer of this level, as expected."""
        if not self._work or self._part is None:
            return 0.0
        level = self._work[-1 if self._part.final else min(self._part.level, len(self._work)) - 1]
        return level.written / level.prompts

    @property
    def _left(self) -> float:
        """The work that is left, of this level and of later ones, if answers are as long as those so far."""
        part, weight = self._part, self._weight
        shorter = self._lengths[0] / self._lengths[1] if self._lengths[1] else 1.0
        later = self._work if part is None else () if part.final else self._work[part.level :]
        left = shorter * sum(level.read + weight * level.written for level in later)
        if part is None:
            return left
        written = self._unfinished * self._answer * shorter - (self.meter.tokens - self._written)
        return left + max(self._unread * part.tokens - self._reading[0], 0) + weight * max(written, 0.0)
