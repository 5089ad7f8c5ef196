"""A benchmark as a JSON file with a schema version, written by one run and read by the next one's `--compare`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, fields

from specextend_cli.bench.records import Benchmark, Record
from specextend_cli.bench.rows import summarize
from specextend_cli.bench.tables import dumps
from specextend_cli.documents.names import printable
from specextend_cli.errors import UsageError

SCHEMA = "specextend-bench/1"
"""New keys may be added under it; a key that changes its meaning needs the next number."""


def to_json(benchmark: Benchmark) -> str:
    """The whole benchmark, a line a record. `summary` is for other programs: `from_json` computes it anew."""
    head: dict[str, object] = {
        "schema": SCHEMA,
        "preset": benchmark.preset,
        "settings": benchmark.settings,
        "machine": asdict(benchmark.machine),
        "seed": benchmark.seed,
        "references": benchmark.references,
        "skipped": benchmark.skipped,
    }
    lines = [f"  {dumps(key)}: {dumps(value)}" for key, value in head.items()]
    lines += [
        _list("summary", [row.flat() for row in summarize(benchmark)]),
        _list("records", [_plain(record) for record in benchmark.records]),
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _list(key: str, items: Sequence[object]) -> str:
    return f"  {dumps(key)}: [" + ",".join(f"\n    {dumps(item)}" for item in items) + "\n  ]"


def _plain(record: Record) -> dict[str, object]:
    """A record as a dictionary, one level at a time: `asdict` would copy every token."""
    made = {field.name: getattr(record, field.name) for field in fields(record)}
    return {**made, "divergence": record.divergence and asdict(record.divergence)}


def from_json(text: str) -> Benchmark:
    """What `to_json` wrote. UsageError for anything else."""
    from pydantic import TypeAdapter, ValidationError  # not needed to write a report

    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _broken(f"it is not JSON: {error}") from None
    schema = value.get("schema") if isinstance(value, dict) else None
    if schema != SCHEMA:
        found = "nothing of the kind" if schema is None else printable(str(schema))[:60]
        raise _broken(f'it should say "schema": "{SCHEMA}", and says {found}')
    try:
        benchmark = TypeAdapter(Benchmark).validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        place = printable(".".join(str(part) for part in first["loc"]))
        raise _broken(f"{place or 'it'}: {printable(first['msg'])}") from None
    for index, record in enumerate(benchmark.records):
        if wrong := _impossible(record):
            raise _broken(f"records.{index}.{wrong}")
    return benchmark


def _impossible(record: Record) -> str | None:
    """A value that cannot have been measured; statistics on it would not fail, but be wrong."""
    for name in ("prefill_seconds", "decode_seconds", "draft_seconds", "verify_seconds", "retrieve_seconds"):
        value: float = getattr(record, name)
        if not 0 <= value < float("inf"):
            return f"{name}: {value} seconds"
    if record.length < 1 or record.peak_bytes < 0:
        return "length: below 1" if record.length < 1 else "peak_bytes: below 0"
    if any(size < 1 for size in record.accepted):
        return "accepted: a step emits at least one token"
    return None


def _broken(why: str) -> UsageError:
    return UsageError("the benchmark cannot be read", why=why, fix="write it anew: specextend bench --format json")
