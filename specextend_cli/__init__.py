"""specextend: summaries of long documents on your own machine, with SpecExtend speculative decoding.

    from specextend_cli import Request, Summarizer

    with Summarizer() as summarizer:
        print(summarizer.summarize("report.pdf", Request(style="bullets")).text)

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
    from specextend_cli.runtime.options import Engine
    from specextend_cli.summarize.events import Coverage, Event, Plan, Summary
    from specextend_cli.summarize.request import Request
    from specextend_cli.summarize.summarizer import Summarizer

_HOMES = {
    "documents.document": ("Document",),
    "documents.read": ("read", "read_bytes"),
    "errors": ("FitError", "InputError", "ModelError", "SpecextendError", "UsageError"),
    "runtime.options": ("Engine",),
    "summarize.events": ("Coverage", "Event", "Plan", "Summary"),
    "summarize.request": ("Request",),
    "summarize.summarizer": ("Summarizer",),
}

__all__ = [
    "Coverage",
    "Document",
    "Engine",
    "Event",
    "FitError",
    "InputError",
    "ModelError",
    "Plan",
    "Request",
    "SpecextendError",
    "Summarizer",
    "Summary",
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
