"""How much of a run is done and how long the rest takes: one estimate, begun by the plan and refined by measurement.

The work is tokens to read and tokens to write, level by level. A token of either kind costs what earlier runs of the
preset took, until this run has measured it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from specextend_cli.engine.events import Finished, Prefilled, Prefilling, Step
from specextend_cli.summarize.events import Event, Level, LevelWork, Part, Plan, Rates, Retried

_WRITTEN = 4.0  # times what reading a token costs, assumed until measured: batches and drafts included
_TRUSTED = 8  # answers: how many measured ones weigh as much as the expected length
_BEGUN = 256  # tokens of a prompt; what its first few took says nothing about the rest
_PROMPTS, _STEPS = 4, 64  # the latest, which say how fast it goes now


@dataclass
class _Clock:
    """Seconds a token took of late."""

    last: deque[tuple[int, float]]

    def add(self, tokens: int, seconds: float) -> None:
        self.last.append((tokens, seconds))

    def rate(self, tokens: int = 0, seconds: float = 0.0) -> float | None:
        """Seconds a token, with those of what is not finished yet; None before the first."""
        tokens += sum(tokens for tokens, _ in self.last)
        return (seconds + sum(seconds for _, seconds in self.last)) / tokens if tokens else None


@dataclass
class Estimate:
    """Feed it events; read `seconds_left` and `share`."""

    _plan: Plan | None = None
    _later: list[LevelWork] = field(default_factory=list)
    _level: int = 0
    _prompts: int = 0  # of this level that are answered in this run
    _each: tuple[float, float] = (0.0, 0.0)  # tokens that one of them has, and that its answer is expected to have
    _begun: int = 0  # prompts that were read
    _reading: tuple[int, float] = (0, 0.0)  # tokens of the next prompt that were, and in how many seconds
    _ended: list[int] = field(default_factory=list)  # tokens of finished answers
    _written: int = 0  # tokens of all answers
    _read: int = 0  # tokens of prompts, on all levels
    _wrote: int = 0
    _answers: tuple[float, float] = (0.0, 0.0)  # tokens of finished ones on all levels, and how many were expected
    _share: float = 0.0
    _readings: _Clock = field(default_factory=lambda: _Clock(deque(maxlen=_PROMPTS)))
    _alone: _Clock = field(default_factory=lambda: _Clock(deque(maxlen=_STEPS)))
    _batched: _Clock = field(default_factory=lambda: _Clock(deque(maxlen=_STEPS)))

    def add(self, event: Event) -> None:
        """Take one event in."""
        match event:
            case Plan():
                self._plan, self._later = event, list(event.work)
            case Level():
                self._begin(event)
            case Part() if event.level != self._level:  # who tells no levels
                self._begin(Level(event.level, event.parts, 0, event.final))
            case Retried():
                self._prompts += 1
            case Prefilling():
                self._reading = (event.done, event.seconds) if event.done >= _BEGUN else (0, 0.0)
            case Prefilled():
                self._readings.add(event.tokens, event.seconds)
                self._begun, self._reading, self._read = self._begun + 1, (0, 0.0), self._read + event.tokens
            case Step():
                self._written += event.accepted
                self._wrote += event.accepted
                if event.nodes:
                    clock = self._batched if event.batch_size > 1 else self._alone
                    clock.add(event.accepted, event.draft_seconds + event.verify_seconds)
            case Finished():
                self._ended.append(event.tokens)
                wrote, expected = self._answers
                self._answers = wrote + event.tokens, expected + self._each[1]
            case _:
                pass

    def _begin(self, level: Level) -> None:
        work = self._plan.work if self._plan else ()
        expected = self._later.pop(0) if self._later else work[-1] if work else LevelWork(1, 0, 0)
        if level.final:
            expected, self._later = (work[-1] if work else expected), []
        self._level, self._prompts = level.level, level.prompts - level.reused
        self._each = expected.read / expected.prompts, expected.written / expected.prompts
        if level.level > 1:  # it reads what was written
            self._each = self._each[0] * self._shorter, self._each[1]
        self._begun = self._written = 0
        self._reading, self._ended = (0, 0.0), []

    @property
    def rates(self) -> Rates | None:
        """Seconds a token read and one written take; None where nothing says so yet."""
        known = self._plan.rates if self._plan else None
        read = self._readings.rate(*self._reading) or (known.read if known else None)
        if read is None:
            return None
        # What slows reading down slows writing down, too.
        slower = read / known.read if known and known.read else 1.0
        written = known.written * slower if known else _WRITTEN * read
        return Rates(read, self._batched.rate() or self._alone.rate() or written)

    @property
    def seconds_left(self) -> float | None:
        """Of reading and writing, loading apart; None until earlier runs, or this run's first prompt, tell."""
        rates = self.rates
        if rates is None or self._plan is None or not self._plan.work:
            return None
        read, written, last = self._left
        return read * rates.read + written * rates.written + last * (self._alone.rate() or rates.written)

    @property
    def share(self) -> float | None:
        """How much of the whole run is done, 0 to 1; it never falls. None where no plan says what there is to do."""
        if self._plan is None or not self._plan.work:
            return None
        rates = self.rates or Rates(1.0, _WRITTEN)
        read, written, last = self._left
        left = read * rates.read + (written + last) * rates.written
        done = (self._read + self._reading[0]) * rates.read + self._wrote * rates.written
        self._share = max(self._share, done / (done + left) if done + left else 0.0)
        return self._share

    @property
    def _left(self) -> tuple[float, float, float]:
        """Tokens to read, to write in levels before the last, and in the last."""
        size, answer = self._each
        shorter = self._shorter
        answer *= shorter
        read = max((self._prompts - self._begun) * size - self._reading[0], 0.0)
        begun = self._written - sum(self._ended)
        written = max((self._prompts - len(self._ended)) * answer - begun, 0.0)
        if not self._level:  # nothing is begun
            read = written = 0.0
        if not self._later:
            return read, 0.0, written
        read += shorter * sum(level.read for level in self._later)
        written += shorter * sum(level.written for level in self._later[:-1])
        return read, written, shorter * self._later[-1].written

    @property
    def _shorter(self) -> float:
        """How long answers are, times what was expected."""
        wrote, expected = self._answers
        trusted = _TRUSTED * self._each[1]
        return (trusted + wrote) / (trusted + expected) if trusted + expected else 1.0
