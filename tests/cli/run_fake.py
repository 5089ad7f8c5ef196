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
from functools import partial
from typing import Any

from specextend_cli.runtime.options import Engine
from specextend_cli.summarize.events import ChunkSummarized, Event, LevelWork, Plan, Rates, Stage
from specextend_cli.summarize.request import Request
from tests.ui.fake_stream import stream


class Summarizer(AbstractContextManager["Summarizer"]):
    def __init__(
        self,
        engine: Engine | None = None,
        *,
        batch: int | None = None,
        cache: bool = True,
        crash: bool = False,
        hang: float = 0,
        **stream: Any,
    ) -> None:
        self.engine, self.batch, self.saves = engine or Engine(), batch, cache
        self.crash, self.hang, self.stream = crash, hang, stream
        from specextend_cli.models.preset import DEFAULT  # heavy: only when it is used
        from specextend_cli.models.presets import load_preset

        self.preset = load_preset(self.engine.model or DEFAULT)

    def mode(self, request: Request) -> str:
        return request.mode or ("abstractive" if self.engine.model else "extractive")

    def check(self, request: Request) -> None:
        pass

    def plan(self, document: Any, request: Request) -> Plan:
        return Plan(
            document.name, 3, 1234, (617, 617), 2, work=(LevelWork(2, 20, 2),), rates=Rates(1.0, 11.0), words=900
        )

    def run(self, document: Any, request: Request) -> Iterator[Event]:
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
    fake.Summarizer = partial(Summarizer, **settings)
    return fake


def run_main() -> None:
    """Run the command line of this process, whose first argument has the settings."""
    settings = json.loads(sys.argv.pop(1))
    sys.modules[MODULE] = module(**settings)
    from specextend_cli.cli.main import main

    main()
