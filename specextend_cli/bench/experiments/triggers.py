"""When to choose a working set anew: by the clock, once, or by need."""

from __future__ import annotations

from statistics import fmean

from specextend_cli.bench.experiments.setting import COLUMNS, Run, Setting, figures
from specextend_cli.bench.tables import Experiment, Table

_TRIGGERS: dict[str, dict[str, int | bool]] = {
    "once": {"every": 0, "adaptive": False},
    "every step": {"every": 1, "adaptive": False},
    "every 4 steps": {"every": 4, "adaptive": False},
    "every 16 steps": {"every": 16, "adaptive": False},
    "every 64 steps": {"every": 64, "adaptive": False},
    "by need": {"every": 0, "adaptive": True},
    "by need, or every 16": {"every": 16, "adaptive": True},
}


def run(setting: Setting) -> Run:
    """Every trigger, with how often it fired."""
    found = yield from setting.measure(
        {name: setting.policy("retrieval", **values) for name, values in _TRIGGERS.items()}
    )
    return Experiment(
        "triggers",
        "Does it matter how often, and when, a working set is chosen anew?",
        (
            Table(
                "Triggers",
                ("prompt (tokens)", "chosen anew", "choices a run", *COLUMNS),
                tuple(
                    (
                        row.length,
                        row.method,
                        fmean(record.retrievals for record in found.of(row.method, row.length)),
                        *figures(row),
                    )
                    for row in found.rows
                ),
                "By need: when the accepted length of the last few steps falls below three quarters of its mean.",
            ),
        ),
    )
