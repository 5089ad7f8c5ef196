"""Table 2 of the paper: accepted length and speed by prompt length."""

from __future__ import annotations

from specextend_cli.bench.experiments.study import Study, by_method
from specextend_cli.bench.report import accepted_lengths, decoding_speedup, step_shares

NOTE = "The draft of standard and streaming drafts on every step; specextend is behind the gate."

STUDY = Study(
    "How do accepted length and speed change with the prompt?",
    measure=lambda setting: setting.measure(setting.named("standard", "streaming", "ngram", "specextend")),
    tables=lambda setting, found: [by_method("By prompt length (Table 2)", found.rows, NOTE)],
    plots=lambda setting, found: (
        *decoding_speedup(found.rows),
        *accepted_lengths(found.rows),
        *step_shares(found.rows),
    ),
)
