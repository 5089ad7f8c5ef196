"""The real command line over an invented summarizer: `FAKE` of `shell.py`, '{"parts": 3}' summarize FILE ….

The first argument configures the stream of `tests/ui/fake_stream.py`. Keys of its own: `fail` (names of documents
that raise), `crash` (raise something unexpected), `hang` (seconds to sleep after the second note), `native` (written
to descriptor 2 with every note, as native code does), and `loaded` (report heavy modules on stderr at the end).
"""

from __future__ import annotations

import json
import os
import sys
import time
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

from specextend_cli.errors import InputError
from specextend_cli.runtime.options import EngineOptions
from specextend_cli.summarize.events import ChunkSummarized, Coverage, Event, Plan, Stage
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
    strict: bool = False
    cache: bool = True


class Summarizer:
    def __init__(
        self,
        options: Options,
        *,
        fail: Sequence[str] = (),
        crash: bool = False,
        hang: float = 0,
        native: str = "",
        coverage: dict[str, Any] | None = None,
        **stream: Any,
    ) -> None:
        self.options, self.saves = options, options.cache
        self.fail, self.crash, self.hang, self.native, self.stream = fail, crash, hang, native, stream
        if coverage:
            tuples = {key: tuple(value) if isinstance(value, list) else value for key, value in coverage.items()}
            self.stream["coverage"] = Coverage(**tuples)
        from specextend_cli.models.preset import DEFAULT  # heavy: only when it is used
        from specextend_cli.models.presets import load_preset

        self.preset = load_preset(DEFAULT)
        self.settings = SimpleNamespace(mode=options.request.mode or self.preset.mode)

    def plan(self, document: Any) -> Plan:
        return Plan(document.name, 3, 1234, (617, 617), 2)

    def expected_seconds(self, plan: Plan) -> float:
        return 42.0

    def run(self, document: Any) -> Iterator[Event]:
        if document.name in self.fail:
            raise InputError(f"{document.name} is encrypted", why="it needs a password", fix="--password-file")
        if self.crash:
            raise ZeroDivisionError("no such luck")
        noted = 0
        for event in stream(document.name, **self.stream):
            yield event
            if isinstance(event, ChunkSummarized):
                noted += 1
                if self.native:
                    os.write(2, self.native.encode())
                time.sleep(self.hang if noted == 2 else 0)

    def load_ahead(self) -> None:
        pass

    def load(self) -> Iterator[Event]:
        yield Stage("loading")

    def close(self) -> None:
        pass

    def __enter__(self) -> Summarizer:
        return self

    def __exit__(self, *exception: object) -> None:
        pass


MODULE = "specextend_cli.summarize.summarizer"


def module(**settings: Any) -> types.ModuleType:
    """What stands in for `MODULE`."""
    fake: Any = types.ModuleType(MODULE)
    fake.Options, fake.Summarizer = Options, partial(Summarizer, **settings)
    return fake


def run_main() -> None:
    """Run the command line of this process, whose first argument has the settings."""
    settings = json.loads(sys.argv.pop(1))
    loaded = settings.pop("loaded", False)
    sys.modules[MODULE] = module(**settings)
    from specextend_cli.cli.main import main

    try:
        main()
    finally:
        if loaded:
            heavy = {"torch", "transformers", "pydantic", "pypdf", "pypdfium2", "numpy"} & set(sys.modules)
            print("loaded:", *sorted(heavy), file=sys.stderr)
