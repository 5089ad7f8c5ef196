"""`bench --experiment NAME`: each file declares what varies, what is measured, and the tables and plots of it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from specextend_cli.errors import UsageError

if TYPE_CHECKING:
    from specextend_cli.bench.experiments.study import Run, Setting, Study

NAMES = ("lengths", "ablation", "overhead", "parameters", "policies", "gate", "recall", "needle", "costs")


def parse(text: str) -> tuple[str, ...]:
    """The experiments in `lengths,gate`. UsageError for an unknown name."""
    wanted = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in wanted:
        if name not in NAMES:
            raise UsageError(f"there is no experiment {name!r}", why=f"there are: {', '.join(NAMES)}")
    return wanted


def run(name: str, setting: Setting) -> Run:
    """Run one experiment, "profile" or "tune"; yields the events of its runs and returns its result."""
    study: Study = import_module(f"{__name__}.{name}").STUDY
    return study.run(name, setting)
