"""`bench --experiment NAME`: a function each, which measures and returns tables and plots."""

from __future__ import annotations

from collections.abc import Generator
from importlib import import_module
from typing import TYPE_CHECKING

from specextend_cli.bench.tables import Experiment
from specextend_cli.errors import UsageError

if TYPE_CHECKING:
    from specextend_cli.bench.events import Running
    from specextend_cli.bench.setting import Setting

_MODULES = {
    "lengths": "methods",
    "ablation": "methods",
    "policies": "methods",
    "needle": "needle",
    "costs": "costs",
    "profile": "profile",
}
"""The module with the function of that name. It is imported when it is run, because it needs torch."""
NAMES = tuple(name for name in _MODULES if name != "profile")
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
    experiment = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    found: Experiment = yield from experiment(setting)
    return found
