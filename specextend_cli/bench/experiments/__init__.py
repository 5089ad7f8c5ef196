"""`bench --experiment NAME`: the paper's questions, each a small module that measures and returns tables and plots."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from specextend_cli.errors import UsageError

if TYPE_CHECKING:
    from specextend_cli.bench.experiments.setting import Run, Setting

NAMES = (
    "lengths",
    "ablation",
    "overhead",
    "parameters",
    "policies",
    "positions",
    "triggers",
    "gate",
    "layers",
    "recall",
    "needle",
    "divergence",
    "costs",
)


def parse(text: str) -> tuple[str, ...]:
    """The experiments in `lengths,gate`. UsageError for a name that is none."""
    wanted = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in wanted:
        if name not in NAMES:
            raise UsageError(f"there is no experiment {name!r}", why=f"there are: {', '.join(NAMES)}")
    return wanted


def run(name: str, setting: Setting) -> Run:
    """Measure; yields what a benchmark's runner yields and returns the experiment."""
    measured: Run = import_module(f"{__name__}.{name}").run(setting)
    return measured
