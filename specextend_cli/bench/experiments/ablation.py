"""Table 4 of the paper: each part alone, on top of standard speculative decoding with masked attention."""

from __future__ import annotations

from specextend_cli.bench import statistics
from specextend_cli.bench.charts import speedups
from specextend_cli.bench.experiments.setting import COLUMNS, Run, Setting, figures
from specextend_cli.bench.report import format_interval
from specextend_cli.bench.tables import Experiment, Table

_PARTS = ("naive", "+flash", "+hta", "+streaming", "+retrieval", "specextend")


def run(setting: Setting) -> Run:
    """Prefill counts here: it is where one of the parts works."""
    found = yield from setting.measure(setting.named(*_PARTS))
    rows = []
    for row in found.rows:
        ratios = tuple(
            statistics.paired_ratios(
                found.at(row.length), row.method, "naive", lambda record: record.prefill_seconds + record.decode_seconds
            ).values()
        )
        over = format_interval(statistics.bootstrap_interval(ratios, seed=setting.seed), "×") if ratios else None
        rows.append((row.length, row.method, row.prefill_seconds, over, *figures(row)))
    plot = speedups(found.rows, "Decoding", lambda row: row.decode_speedup)
    return Experiment(
        "ablation",
        "What does each part of SpecExtend gain on its own?",
        (
            Table(
                "Parts (Table 4)",
                ("prompt (tokens)", "method", "prefill (s)", "in all, times naive", *COLUMNS),
                tuple(rows),
                "naive: the full draft cache, masked attention in prefill and verification; every part is added to it "
                "alone. In all: prefill and decoding; outputs that differ (half precision) are compared as they are.",
            ),
        ),
        () if plot is None else (plot,),
    )
