"""Never slower than plain: documents where drafting does not pay, with the gate and without."""

from __future__ import annotations

from dataclasses import replace

from specextend_cli.bench.experiments.setting import COLUMNS, Run, Setting, figures
from specextend_cli.bench.methods import Recipe
from specextend_cli.bench.rows import decode_ratios
from specextend_cli.bench.tables import Experiment, Table

SLOWER = 0.97
"""Times plain decoding; above it, a difference is the clock's."""


def run(setting: Setting) -> Run:
    """The drafters that the preset can have, gated and not, document by document."""
    methods = {}
    for name, method in setting.named("ngram", "specextend").items():
        assert isinstance(method, Recipe)
        methods[f"{name}, gated"] = replace(method, gate=True)
        methods[f"{name}, every step"] = replace(method, gate=False)
    found = yield from setting.measure(methods)
    rows = []
    for row in found.rows:
        ratios = sorted(decode_ratios(found.at(row.length), row.method).values())
        slower = sum(ratio < SLOWER for ratio in ratios)
        worst = ratios[0] if ratios else None
        rows.append((row.length, row.method, worst, f"{slower} of {len(ratios)}", *figures(row)))
    return Experiment(
        "gate",
        "Is drafting ever slower than plain decoding, and does the gate prevent it?",
        (
            Table(
                "Documents where drafting loses",
                ("prompt (tokens)", "method", "worst document, times plain", "slower documents", *COLUMNS),
                tuple(rows),
                f"Slower: below {SLOWER} times plain decoding on the same document.",
            ),
        ),
    )
