"""How much of a run is done and how long the rest takes: begun by the plan, refined by what the meter counts.

The work is tokens to read and tokens to write, level by level. A token of either kind costs what earlier runs of the
preset took, until this run has measured it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from specextend_cli.engine.events import Finished, Prefilled, Prefilling
from specextend_cli.engine.meter import Meter
from specextend_cli.summarize.events import Event, LevelWork, Part, Plan, Rates, Retried

_WRITTEN = 4.0  # cost of a generated token in tokens read, until it is measured; with batches and drafts
_TRUSTED = 8  # answers: how many measured ones weigh as much as the expected length
_BEGUN = 256  # tokens of a prompt that are read before its speed counts


@dataclass
class Estimate:
    """Feed it events after `meter`; read `seconds_left` and `share`."""

    meter: Meter
    _plan: Plan | None = None
    _later: list[LevelWork] = field(default_factory=list)
    _level: int = 0
    _size: float = 0.0  # tokens of a prompt of this level, as expected
    _answer: float = 0.0  # and of its answer
    _prompts: int = 0  # of this level, for this run to answer
    _read: int = 0  # of them
    _finished: int = 0
    _written: int = 0  # tokens that the meter had counted before this level and its finished answers
    _reading: tuple[int, float] = (0, 0.0)  # tokens of the next prompt that are read, and the seconds this took
    _lengths: tuple[float, float] = (0.0, 0.0)  # tokens of finished answers on all levels: real and expected
    _share: float = 0.0

    def add(self, event: Event) -> None:
        """Take one event in."""
        match event:
            case Plan():
                self._plan, self._later = event, list(event.work)
            case Part():
                if event.level != self._level:
                    self._begin(event)
                self._prompts -= event.reused
            case Retried():
                self._prompts += 1
            case Prefilling():
                self._reading = event.done, event.seconds
            case Prefilled():
                self._reading, self._read = (0, 0.0), self._read + 1
            case Finished():
                self._finished, self._written = self._finished + 1, self._written + event.tokens
                self._lengths = self._lengths[0] + event.tokens, self._lengths[1] + self._answer

    def _begin(self, part: Part) -> None:
        work = self._plan.work if self._plan else ()
        expected = self._later.pop(0) if self._later else LevelWork(1, 0, 0)
        if part.final and work:
            expected, self._later = work[-1], []
        # The prompts of later levels have the answers of the level before.
        self._size = expected.read / expected.prompts * (self._shorter if part.level > 1 else 1.0)
        self._answer, self._level, self._prompts = expected.written / expected.prompts, part.level, part.parts
        self._read = self._finished = 0
        self._written = self.meter.tokens

    @property
    def _rates(self) -> Rates | None:
        """Seconds a token read and one written take; None where nothing says so yet."""
        meter, known = self.meter, self._plan.rates if self._plan else None
        tokens, seconds = self._reading if self._reading[0] >= _BEGUN else (0, 0.0)
        tokens, seconds = tokens + meter.prompt_tokens, seconds + meter.prefill_seconds
        read = seconds / tokens if tokens else known.read if known else 0.0
        if not read:
            return known
        # A busy machine slows both kinds of tokens down.
        written = known.written * read / known.read if known and known.read else _WRITTEN * read
        speed = meter.batched_speed or meter.single_speed
        return Rates(read, 1 / speed if speed else written)

    @property
    def seconds_left(self) -> float | None:
        """Without the time of loading; None until earlier runs, or this run's first prompt, have measured it."""
        rates = self._rates
        if rates is None or self._plan is None or not self._plan.work:
            return None
        read, written, last = self._left
        alone = 1 / self.meter.single_speed if self.meter.single_speed else rates.written  # the last level has no batch
        return read * rates.read + written * rates.written + last * alone

    @property
    def share(self) -> float | None:
        """How much of the whole run is done, 0 to 1; it never falls. None without a plan."""
        if self._plan is None or not self._plan.work:
            return None
        rates = self._rates or Rates(1.0, _WRITTEN)
        read, written, last = self._left
        left = read * rates.read + (written + last) * rates.written
        done = (self.meter.prompt_tokens + self._reading[0]) * rates.read + self.meter.tokens * rates.written
        self._share = max(self._share, done / (done + left) if done + left else 1.0)
        return self._share

    @property
    def _left(self) -> tuple[float, float, float]:
        """Tokens to read, to write in levels before the last, and in the last."""
        shorter, later = self._shorter, self._later
        read = max((self._prompts - self._read) * self._size - self._reading[0], 0.0)
        begun = self.meter.tokens - self._written
        written = max((self._prompts - self._finished) * self._answer * shorter - begun, 0.0)
        if not later:
            return read, 0.0, written
        read += shorter * sum(level.read for level in later)
        return read, written + shorter * sum(level.written for level in later[:-1]), shorter * later[-1].written

    @property
    def _shorter(self) -> float:
        """The length of answers so far, relative to what was expected."""
        wrote, expected = self._lengths
        trusted = _TRUSTED * self._answer
        return (trusted + wrote) / (trusted + expected) if trusted + expected else 1.0
