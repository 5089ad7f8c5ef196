"""Benchmarks on disk: a finished one as JSON, which `--compare` reads, and the runs of one that was interrupted."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from specextend_cli.bench.records import Benchmark, Record
from specextend_cli.bench.rows import summarize
from specextend_cli.bench.tables import dumps
from specextend_cli.bench.workloads import Prompt
from specextend_cli.engine.private_files import create
from specextend_cli.errors import UsageError
from specextend_cli.humanize import printable
from specextend_cli.models.store import cache_root

SCHEMA = "specextend-bench/1"  # new keys may be added under it; a key that changes its meaning needs the next number

Item = TypeVar("Item")


def to_json(benchmark: Benchmark) -> str:
    """The whole benchmark in a line. `summary` is for other programs: `from_json` computes it anew."""
    summary = [row.flat() for row in summarize(benchmark)]
    return dumps({"schema": SCHEMA, "summary": summary, **asdict(benchmark)}) + "\n"


def from_json(text: str) -> Benchmark:
    """A benchmark that `to_json` wrote. UsageError for anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _broken(f"it is not JSON: {error}") from None
    schema = value.get("schema") if isinstance(value, dict) else None
    if schema != SCHEMA:
        found = "nothing of the kind" if schema is None else printable(str(schema))[:60]
        raise _broken(f'it should say "schema": "{SCHEMA}", and says {found}')
    try:
        return TypeAdapter(Benchmark).validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        place = printable(".".join(str(part) for part in first["loc"]))
        raise _broken(f"{place or 'it'}: {printable(first['msg'])}") from None


def _broken(why: str) -> UsageError:
    return UsageError("the benchmark cannot be read", why=why, fix="write it anew: specextend bench --format json")


class Journal(Generic[Item]):
    """Finished dataclasses of one kind in a file, a JSON line each, so that an interrupted command can be continued."""

    def __init__(self, path: Path, kind: type[Item]) -> None:
        self.path = path
        self._kind = TypeAdapter(kind)

    def read(self) -> list[Item]:
        """All items. A line that was cut by an interruption is removed, from the file as well.

        OSError if the file cannot be read, ValueError if it is damaged.
        """
        text = self.path.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]
        items = [self._kind.validate_json(line) for line in whole.split("\n") if line]
        if whole != text:
            os.truncate(self.path, len(whole.encode()))
        return items

    def add(self, item: Item) -> None:
        """On disk when this returns."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(self._kind.dump_python(item)) + "\n")


class Partial(Journal[Record]):
    """The records of one unfinished benchmark; a later line of the same run replaces an earlier one.

    `problem`: why they cannot be saved, if so.
    """

    def __init__(self, key: str, *, fresh: bool = False) -> None:
        super().__init__(cache_root() / "bench" / f"{key}.jsonl", Record)
        self.problem = ""
        if fresh:
            self.remove()

    def read(self) -> list[Record]:
        """The records; none of a damaged file, whose runs are measured again."""
        try:
            return super().read()
        except OSError:
            return []
        except ValueError:
            self.remove()
            return []

    def add(self, item: Record) -> None:
        """On disk when this returns, or there is a `problem`."""
        if self.problem:
            return
        try:
            create(self.path.parent)
            super().add(item)
        except OSError as error:
            self.problem = f"results are not being saved: {self.path}: {error}"

    def remove(self) -> None:
        """Delete the file."""
        with suppress(OSError):
            self.path.unlink()


def key(settings: Mapping[str, Any], prompts: Sequence[Prompt]) -> str:
    """A digest of settings and prompts."""
    asked = [settings, [(prompt.document, prompt.tokens) for prompt in prompts]]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:32]
