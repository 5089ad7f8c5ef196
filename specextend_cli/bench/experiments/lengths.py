"""Table 2 of the paper: accepted length, speed and speedup by prompt length, and the same without its parts."""

from __future__ import annotations

from specextend_cli.bench.charts import accepted_lengths, speedups, step_shares
from specextend_cli.bench.experiments.setting import Run, Setting, by_method
from specextend_cli.bench.tables import Experiment


def run(setting: Setting) -> Run:
    """Standard speculative decoding, streaming and SpecExtend at every length."""
    found = yield from setting.measure(setting.named("standard", "streaming", "ngram", "specextend"))
    plots = (
        speedups(found.rows, "Decoding", lambda row: row.decode_speedup),
        accepted_lengths(found.rows),
        step_shares(found.rows),
    )
    return Experiment(
        "lengths",
        "How do accepted length and speed change with the prompt?",
        (
            by_method(
                "By prompt length (Table 2)",
                "method",
                found.rows,
                "The draft of standard and streaming drafts on every step; specextend is behind the gate.",
            ),
        ),
        tuple(plot for plot in plots if plot is not None),
    )
