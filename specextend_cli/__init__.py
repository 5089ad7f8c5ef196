"""specextend: summaries of long documents on your own machine, with SpecExtend speculative decoding.

    from specextend_cli import Options, Summarizer, SummaryRequest

    with Summarizer(Options(request=SummaryRequest(style="bullets"))) as summarizer:
        print(summarizer.summarize("report.pdf").text)

The names below are the library, documented in docs/library.md. Each is imported on first use; none imports torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from specextend_cli.documents.document import Document
    from specextend_cli.documents.read import read, read_bytes
    from specextend_cli.errors import FitError, InputError, ModelError, SpecextendError, UsageError
    from specextend_cli.runtime.options import EngineOptions
    from specextend_cli.summarize.events import Coverage, Event, Plan, Summary
    from specextend_cli.summarize.request import SummaryRequest
    from specextend_cli.summarize.summarizer import Options, Summarizer

_HOMES = {
    "documents.document": ("Document",),
    "documents.read": ("read", "read_bytes"),
    "errors": ("FitError", "InputError", "ModelError", "SpecextendError", "UsageError"),
    "runtime.options": ("EngineOptions",),
    "summarize.events": ("Coverage", "Event", "Plan", "Summary"),
    "summarize.request": ("SummaryRequest",),
    "summarize.summarizer": ("Options", "Summarizer"),
}

__all__ = [
    "Coverage",
    "Document",
    "EngineOptions",
    "Event",
    "FitError",
    "InputError",
    "ModelError",
    "Options",
    "Plan",
    "SpecextendError",
    "Summarizer",
    "Summary",
    "SummaryRequest",
    "UsageError",
    "read",
    "read_bytes",
]


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
