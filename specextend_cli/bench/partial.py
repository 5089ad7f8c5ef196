"""Finished runs on disk, so that an interrupted benchmark can be continued.

The key covers the settings and the prompts' tokens. If the file cannot be written, one warning is given.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from specextend_cli.bench.events import Checked, Measured, Running
from specextend_cli.bench.records import Divergence, Record
from specextend_cli.bench.workloads import Prompt
from specextend_cli.engine.private_files import create
from specextend_cli.models.store import cache_root

_VERSION = 1


def key(settings: Mapping[str, object], prompts: Sequence[Prompt]) -> str:
    """A digest of settings and prompts."""
    asked = [_VERSION, dict(settings), [(prompt.document, prompt.tokens) for prompt in prompts]]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:32]


class Partial:
    """The records of one unfinished benchmark, one JSON line each; a later line of the same run replaces an earlier."""

    def __init__(self, key: str, *, fresh: bool = False) -> None:
        self.path = cache_root() / "bench" / f"{key}.jsonl"
        self.problem = ""
        if fresh:
            self.remove()

    def read(self) -> list[Record]:
        """The records. An incomplete last line is removed, from the file as well."""
        try:
            text = self.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return []
        whole = text[: text.rfind("\n") + 1]
        try:
            records = [record(json.loads(line)) for line in whole.splitlines()]
        except (ValueError, TypeError, LookupError, AttributeError):
            self.remove()  # damaged: its runs are measured again
            return []
        if whole != text:
            self.path.write_text(whole, encoding="utf-8")
        return records

    def add(self, record: Record) -> None:
        """On disk when this returns."""
        if self.problem:
            return
        try:
            create(self.path.parent)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(record)) + "\n")
        except OSError as error:
            self.problem = f"results are not being saved: {self.path}: {error}"

    def keep(self, events: Iterable[Running]) -> Iterator[Running]:
        """Pass events on, each after its record is on disk."""
        for event in events:
            if isinstance(event, Measured | Checked):
                self.add(event.record)
            yield event

    @property
    def saves(self) -> bool:
        """Whether an interrupted run can be continued."""
        return not self.problem

    def remove(self) -> None:
        """Delete the file."""
        with suppress(OSError):
            self.path.unlink()


def record(data: Mapping[str, Any]) -> Record:
    """A record from its JSON. TypeError, LookupError or AttributeError for anything else."""
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}
    if values.get("divergence") is not None:
        values["divergence"] = Divergence(**values["divergence"])
    return Record(**values)
