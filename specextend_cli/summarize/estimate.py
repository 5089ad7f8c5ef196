"""How much of a run is done and how long the rest takes: one estimate, begun by the plan and refined by measurement.

The work is tokens to read and tokens to write, level by level. A token of either kind costs what earlier runs of the
preset took, until this run has measured it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field

from specextend_cli.engine.events import Finished, Prefilled, Prefilling, Step
from specextend_cli.summarize.events import ChunkRead, Event, Level, LevelWork, Part, Plan, Rates, Retried

_WRITTEN = 4.0  # cost of a generated token in tokens read, until it is measured; with batches and drafts
_TRUSTED = 8  # answers: how many measured ones weigh as much as the expected length
_BEGUN = 256  # tokens of a prompt that are read before its speed counts
_PROMPTS, _STEPS = 4, 64  # the latest ones, of which the present speed is the mean


def _mean(measured: Collection[tuple[int, float]]) -> float | None:
    """Seconds a token, of measured tokens and seconds; None where there are none."""
    tokens = sum(tokens for tokens, _ in measured)
    return sum(seconds for _, seconds in measured) / tokens if tokens else None


@dataclass
class Estimate:
    """Feed it events; read `seconds_left` and `share`."""

    _plan: Plan | None = None
    _later: list[LevelWork] = field(default_factory=list)
    _level: int = 0
    _prompts: int = 0  # of this level that are answered in this run
    _expected: tuple[float, float] = (0.0, 0.0)  # tokens of one of them, and of its answer
    _prompts_read: int = 0  # of them that are read
    _prefill: tuple[int, float] = (0, 0.0)  # tokens of the next one that are read, and the seconds this took
    _finished: list[int] = field(default_factory=list)  # tokens of this level's finished answers
    _level_written: int = 0  # tokens of all this level's answers, unfinished ones too
    _total_read: int = 0  # tokens of prompts, on all levels
    _total_written: int = 0
    _lengths: tuple[float, float] = (0.0, 0.0)  # tokens of finished answers on all levels: real and expected
    _share: float = 0.0
    # Tokens and seconds of the latest prompts, and of steps with one sequence and with several.
    _prompt_times: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=_PROMPTS))
    _single_times: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=_STEPS))
    _batch_times: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=_STEPS))

    def add(self, event: Event) -> None:
        """Take one event in."""
        match event:
            case Plan():
                self._plan, self._later = event, list(event.work)
            case Level():
                self._begin(event)
            case Part() if event.level != self._level:  # a stream without `Level` events
                self._begin(Level(event.level, event.parts, 0, event.final))
            case Retried():
                self._prompts += 1
            case ChunkRead(reused=True):
                self._prompts -= 1
            case Prefilling():
                self._prefill = (event.done, event.seconds) if event.done >= _BEGUN else (0, 0.0)
            case Prefilled():
                self._prompt_times.append((event.tokens, event.seconds))
                self._prefill = 0, 0.0
                self._prompts_read += 1
                self._total_read += event.tokens
            case Step():
                self._level_written += event.accepted
                self._total_written += event.accepted
                if event.nodes:
                    times = self._batch_times if event.batch_size > 1 else self._single_times
                    times.append((event.accepted, event.draft_seconds + event.verify_seconds))
            case Finished():
                self._finished.append(event.tokens)
                wrote, expected = self._lengths
                self._lengths = wrote + event.tokens, expected + self._expected[1]

    def _begin(self, level: Level) -> None:
        work = self._plan.work if self._plan else ()
        expected = self._later.pop(0) if self._later else work[-1] if work else LevelWork(1, 0, 0)
        if level.final:
            expected, self._later = (work[-1] if work else expected), []
        self._level, self._prompts = level.level, level.prompts - level.reused
        self._expected = expected.read / expected.prompts, expected.written / expected.prompts
        if level.level > 1:  # its prompts have the answers of the level before
            self._expected = self._expected[0] * self._shorter, self._expected[1]
        self._prompts_read = self._level_written = 0
        self._prefill, self._finished = (0, 0.0), []

    @property
    def rates(self) -> Rates | None:
        """Seconds a token read and one written take; None where nothing says so yet."""
        known = self._plan.rates if self._plan else None
        read = _mean([*self._prompt_times, self._prefill]) or (known.read if known else None)
        if read is None:
            return None
        # A busy machine slows both kinds of tokens down.
        slower = read / known.read if known and known.read else 1.0
        written = known.written * slower if known else _WRITTEN * read
        return Rates(read, _mean(self._batch_times) or _mean(self._single_times) or written)

    @property
    def seconds_left(self) -> float | None:
        """Without the time of loading; None until earlier runs, or this run's first prompt, have measured it."""
        rates = self.rates
        if rates is None or self._plan is None or not self._plan.work:
            return None
        read, written, last = self._left
        return read * rates.read + written * rates.written + last * (_mean(self._single_times) or rates.written)

    @property
    def share(self) -> float | None:
        """How much of the whole run is done, 0 to 1; it never falls. None without a plan."""
        if self._plan is None or not self._plan.work:
            return None
        rates = self.rates or Rates(1.0, _WRITTEN)
        read, written, last = self._left
        left = read * rates.read + (written + last) * rates.written
        done = (self._total_read + self._prefill[0]) * rates.read + self._total_written * rates.written
        self._share = max(self._share, done / (done + left) if done + left else 1.0)
        return self._share

    @property
    def _left(self) -> tuple[float, float, float]:
        """Tokens to read, to write in levels before the last, and in the last."""
        size, answer = self._expected
        shorter = self._shorter
        begun = self._level_written - sum(self._finished)
        # Both are 0 before the first level, which has no prompts yet.
        read = max((self._prompts - self._prompts_read) * size - self._prefill[0], 0.0)
        written = max((self._prompts - len(self._finished)) * answer * shorter - begun, 0.0)
        if not self._later:
            return read, 0.0, written
        read += shorter * sum(level.read for level in self._later)
        written += shorter * sum(level.written for level in self._later[:-1])
        return read, written, shorter * self._later[-1].written

    @property
    def _shorter(self) -> float:
        """The length of answers so far, relative to what was expected."""
        wrote, expected = self._lengths
        trusted = _TRUSTED * self._expected[1]
        return (trusted + wrote) / (trusted + expected) if trusted + expected else 1.0
