"""The real command line over an invented summarizer: `FAKE` of `shell.py`, '{"parts": 3}' summarize FILE ….

The first argument configures the stream of `tests/ui/fake_stream.py`. Keys of its own: `crash` (raise something
unexpected), and `hang` (seconds to sleep after the second chunk summary).
"""

from __future__ import annotations

import json
import sys
import time
import types
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

from specextend_cli.runtime.options import EngineOptions
from specextend_cli.summarize.events import ChunkSummarized, Event, LevelWork, Plan, Rates, Stage
from specextend_cli.summarize.request import SummaryRequest
from tests.ui.fake_stream import stream


@dataclass(frozen=True)
class Options:
    request: SummaryRequest = field(default_factory=SummaryRequest)
    engine: EngineOptions = field(default_factory=EngineOptions)
    preset: str = "smollm2-135m"
    max_tokens: int | None = None
    batch: int | None = None
    offline: bool = False
    cache: bool = True


class Summarizer(AbstractContextManager["Summarizer"]):
    def __init__(self, options: Options, *, crash: bool = False, hang: float = 0, **stream: Any) -> None:
        self.options, self.saves = options, options.cache
        self.crash, self.hang, self.stream = crash, hang, stream
        from specextend_cli.models.preset import DEFAULT  # heavy: only when it is used
        from specextend_cli.models.presets import load_preset

        self.preset = load_preset(DEFAULT)
        self.settings = SimpleNamespace(mode=options.request.mode or self.preset.mode)

    def plan(self, document: Any) -> Plan:
        return Plan(
            document.name, 3, 1234, (617, 617), 2, work=(LevelWork(2, 20, 2),), rates=Rates(1.0, 11.0), words=900
        )

    def run(self, document: Any) -> Iterator[Event]:
        if self.crash:
            raise ZeroDivisionError("no such luck")
        noted = 0
        for event in stream(document.name, **self.stream):
            yield event
            if isinstance(event, ChunkSummarized):
                noted += 1
                time.sleep(self.hang if noted == 2 else 0)

    def load(self) -> Iterator[Event]:
        yield Stage("loading")

    def close(self, *exception: object) -> None:
        pass

    load_ahead = __exit__ = close


MODULE = "specextend_cli.summarize.summarizer"


def module(**settings: Any) -> types.ModuleType:
    """What stands in for `MODULE`."""
    fake: Any = types.ModuleType(MODULE)
    fake.Options, fake.Summarizer = Options, partial(Summarizer, **settings)
    return fake


def run_main() -> None:
    """Run the command line of this process, whose first argument has the settings."""
    settings = json.loads(sys.argv.pop(1))
    sys.modules[MODULE] = module(**settings)
    from specextend_cli.cli.main import main

    main()
