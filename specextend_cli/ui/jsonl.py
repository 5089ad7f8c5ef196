"""Events and results as JSON. Keys are stable: new ones may be added, none changes its meaning."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any

from specextend_cli import __version__
from specextend_cli.engine.events import Retrieved
from specextend_cli.engine.meter import Meter
from specextend_cli.summarize.events import Event, Summarized, Summary

_PROPERTIES = {Retrieved: ("hit", "spans", "length", "changed", "seconds")}
"""Of events that keep their values on a device until somebody asks."""


def format_event(event: Event, document: str = "") -> str:
    """One event as one line: `{"event": "step", "document": ..., ...}`; the last one has the whole result."""
    values = summary_record(event.summary) if isinstance(event, Summarized) else record(event)
    head = {"event": type(event).__name__.lower(), **({"document": document} if document else {})}
    return _escape_controls(json.dumps({**head, **named(values, document)}, ensure_ascii=False))


def named(values: dict[str, Any], document: str) -> dict[str, Any]:
    """A record with the name of its document in this command, which may include directories."""
    return {**values, "document": document} if document else values


def format_json(value: Any) -> str:
    """A record as indented JSON."""
    return _escape_controls(json.dumps(value, ensure_ascii=False, indent=2))


def summary_record(summary: Summary) -> dict[str, Any]:
    """The result for one document."""
    return {
        "document": summary.document,
        "text": summary.text,
        "mode": summary.method,
        "warnings": list(summary.warnings),
        "coverage": {**record(summary.coverage), "complete": summary.coverage.complete},
        "plan": record(summary.plan),
        "statistics": {"seconds": round(summary.seconds, 3), **statistics(summary.meter)},
        "chunk_summaries": list(summary.chunk_summaries),
        "request": record(summary.request),
        "sentences": [record(sentence) for sentence in summary.sentences],
        "unsupported": [record(one) for one in summary.unsupported],
        "retried": [record(one) for one in summary.retried],
        "reused": summary.reused,
        "run": summary.run,
        "preset": summary.preset,
        "drafter": summary.drafter,
        "version": __version__,
    }


def statistics(meter: Meter) -> dict[str, Any]:
    """Statistics of a run; null: not measured. Accepted length counts the bonus token: plain decoding has 1.0."""
    return {
        "prompt_tokens": meter.prompt_tokens,
        "prefill_seconds": round(meter.prefill_seconds, 3),
        "tokens": meter.tokens,
        "tokens_per_second": round(meter.tokens_per_second, 2),
        "speedup": _rounded(meter.speedup),
        "batched_tokens": meter.batched_tokens,
        "batched_seconds": round(meter.batched_seconds, 3),
        "steps": meter.steps,
        "nodes": meter.nodes,
        "accepted_length": round(meter.accepted_length, 3),
        "accepted_lengths": {str(length): count for length, count in sorted(meter.accepted_lengths.items())},
        "hit": _rounded(meter.hit),
        "retrievals": meter.retrievals,
        "draft_seconds": round(meter.draft_seconds, 3),
        "verify_seconds": round(meter.verify_seconds, 3),
        "retrieve_seconds": round(meter.retrieve_seconds, 3),
    }


def _escape_controls(text: str) -> str:
    """Escape C1 control characters, which terminals interpret and `json` does not escape."""
    return text.translate({code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)})


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def record(value: Any) -> dict[str, Any]:
    """A dataclass as a dictionary of plain values, without the fields that its repr leaves out."""
    names = _PROPERTIES.get(type(value)) or [field.name for field in fields(value) if field.repr]
    return {name: _plain(getattr(value, name)) for name in names}


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return record(value)
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return value
