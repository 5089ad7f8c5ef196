"""`bench --experiment NAME`: each declares what varies, what is measured, and the tables and plots of it."""

from __future__ import annotations

from collections.abc import Generator
from importlib import import_module
from typing import TYPE_CHECKING

from specextend_cli.bench.tables import Experiment
from specextend_cli.errors import UsageError

if TYPE_CHECKING:
    from specextend_cli.bench.events import Running
    from specextend_cli.bench.experiments.study import Setting, Study

_STUDIES = {
    "lengths": ("methods", "LENGTHS"),
    "ablation": ("methods", "ABLATION"),
    "policies": ("methods", "POLICIES"),
    "needle": ("needle", "STUDY"),
    "costs": ("costs", "STUDY"),
    "profile": ("profile", "STUDY"),
}
"""The module of each, which is imported when it is run (it needs torch), and its declaration there."""
NAMES = tuple(name for name in _STUDIES if name != "profile")
"""Values of `--experiment`; the profile has an option of its own."""


def parse(text: str) -> tuple[str, ...]:
    """The experiments in `lengths,needle`. UsageError for an unknown name."""
    wanted = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in wanted:
        if name not in NAMES:
            raise UsageError(f"there is no experiment {name!r}", why=f"there are: {', '.join(NAMES)}")
    return wanted


def run(name: str, setting: Setting) -> Generator[Running, None, Experiment]:
    """Run one experiment, or "profile"; yields the events of its runs and returns its result."""
    module, declared = _STUDIES[name]
    study: Study = getattr(import_module(f"{__name__}.{module}"), declared)
    found = yield from study.measure(setting)
    return Experiment(name, study.question, tuple(study.tables(setting, found)), tuple(study.plots(setting, found)))
