"""How long the stages take between the command and the first words of a summary, for --verbose."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import psutil

from specextend_cli.engine.events import Prefilling, Step
from specextend_cli.humanize import format_seconds
from specextend_cli.summarize.events import ChunkRead, Event, Sentence, Stage, Text

_LEAST = 0.05  # seconds of a stage that is worth a word; remarks are stages, too


@dataclass
class StageTimes:
    """Call `begin` with each stage, and `add` each event; what comes after the first words does not count.

    `clock` gives seconds since the epoch. The first stage began with the process. Of a stage that began beside earlier
    ones, only what was left after them counts to the first words.
    """

    clock: Callable[[], float] = time.time
    last: float = field(default_factory=lambda: psutil.Process().create_time())
    stage: str = "starting"
    seconds: dict[str, float] = field(default_factory=dict)
    """By stage, in their order."""
    beside: dict[str, float] = field(default_factory=dict)
    """Seconds of stages while earlier ones were not over."""
    began: float = 0.0

    def begin(self, stage: str) -> None:
        """A stage begins where the one before ends; "" ends them."""
        now = self.clock()
        if self.stage:
            self.seconds[self.stage] = self.seconds.get(self.stage, 0.0) + max(now - self.last, 0.0)
        self.stage, self.last, self.began = stage, now, now

    def _follow(self, stage: Stage) -> None:
        """A stage of loading begins. The one before ended then, if it ran beside others as well."""
        before = self.stage
        spent = min(self.last, stage.began) - self.began
        if spent > 0:
            self.beside[before] = self.beside.get(before, 0.0) + spent
        self.begin(stage.name)
        self.began = min(stage.began, self.last)

    def add(self, event: Event) -> None:
        """Take one event of a document."""
        match event:
            case Text(final=True) | Sentence():
                self.begin("")
            case Stage() if self.stage:
                self._follow(event)
            case Prefilling() | ChunkRead() if self.stage:
                self.begin("reading by the model")
            case Step() if self.stage:
                self.begin("writing")

    def __str__(self) -> str:
        """ "9.8 s to the first words: starting 0.6 s, reading 1.9 s, …; beside these: loading … 3.1 s, …"."""
        long = {name: spent for name, spent in self.seconds.items() if spent >= _LEAST or name == "starting"}
        beside = {name: spent for name, spent in self.beside.items() if spent >= _LEAST}
        total = format_seconds(sum(self.seconds.values()))
        return f"{total} to the first words: {_listed(long)}" + (f"; beside these: {_listed(beside)}" if beside else "")


def _listed(seconds: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {format_seconds(spent)}" for name, spent in seconds.items())
