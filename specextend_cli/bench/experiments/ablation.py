"""Table 4 of the paper: each part alone, added to standard speculative decoding with masked attention."""

from __future__ import annotations

from collections.abc import Iterator

from specextend_cli.bench.experiments.study import Measurements, Setting, Study, by_method
from specextend_cli.bench.records import Record
from specextend_cli.bench.report import decoding_speedup
from specextend_cli.bench.rows import Columns
from specextend_cli.bench.statistics import format_interval
from specextend_cli.bench.tables import Table

PARTS = ("naive", "+flash", "+hta", "+streaming", "+retrieval", "specextend")
NOTE = (
    "naive: the full draft cache, masked attention in prefill and verification; every part is added to it alone. "
    "In all: prefill and decoding; outputs that differ (half precision) are compared as they are."
)


def _total(record: Record) -> float:
    """Prefill counts: one of the parts works there."""
    return record.prefill_seconds + record.decode_seconds


def _tables(setting: Setting, found: Measurements) -> Iterator[Table]:
    columns: Columns = {
        "prefill (s)": lambda row: row.prefill_seconds,
        "in all, times naive": lambda row: format_interval(found.ratio(row.method, "naive", _total, row.length), "×"),
    }
    yield by_method("Parts (Table 4)", found.rows, NOTE, columns=columns)


STUDY = Study(
    "What does each part of SpecExtend gain on its own?",
    measure=lambda setting: setting.measure(setting.named(*PARTS)),
    tables=_tables,
    plots=lambda setting, found: decoding_speedup(found.rows),
)
