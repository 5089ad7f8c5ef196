"""Table 4 of the paper: each part alone, added to standard speculative decoding with masked attention."""

from __future__ import annotations

from collections.abc import Iterator

from specextend_cli.bench.charts import decoding_speedup
from specextend_cli.bench.experiments.study import COLUMNS, Measurements, Setting, Study, figures
from specextend_cli.bench.records import Record
from specextend_cli.bench.report import format_interval
from specextend_cli.bench.tables import Table

PARTS = ("naive", "+flash", "+hta", "+streaming", "+retrieval", "specextend")


def _total(record: Record) -> float:
    """Prefill counts: one of the parts works there."""
    return record.prefill_seconds + record.decode_seconds


def _tables(setting: Setting, found: Measurements) -> Iterator[Table]:
    yield Table(
        "Parts (Table 4)",
        ("prompt (tokens)", "method", "prefill (s)", "in all, times naive", *COLUMNS),
        tuple(
            (
                row.length,
                row.method,
                row.prefill_seconds,
                format_interval(found.ratio(row.length, row.method, "naive", _total), "×"),
                *figures(row),
            )
            for row in found.rows
        ),
        "naive: the full draft cache, masked attention in prefill and verification; every part is added to it alone. "
        "In all: prefill and decoding; outputs that differ (half precision) are compared as they are.",
    )


STUDY = Study(
    "What does each part of SpecExtend gain on its own?",
    measure=lambda setting: setting.measure(setting.named(*PARTS)),
    tables=_tables,
    plots=lambda setting, found: [decoding_speedup(found.rows)],
)
