"""Errors as they are shown: what happened, why, and what to do, the remedy last."""

from __future__ import annotations

from rich.text import Text

from specextend_cli.errors import SpecextendError
from specextend_cli.ui.streams import Output, sanitize


def format_error(error: SpecextendError) -> Text:
    """`error: …`, `why:   …`, `try:   …`; the lines that have nothing to say are left out."""
    text = Text.assemble(("error: ", "bold red"), sanitize(error.what))
    for label, value in (("why:   ", error.why), ("try:   ", error.fix)):
        if value:
            text.append(f"\n{label}", style="bold")
            text.append(sanitize(value).replace("\n", "\n       "))
    return text


def print_error(output: Output, error: SpecextendError) -> None:
    """Write an error to stderr."""
    output.note(format_error(error))


def print_surprise(output: Output, error: BaseException) -> None:
    """Write to stderr what to do about a defect in this program."""
    detail = sanitize(f"{type(error).__name__}: {error}").splitlines()
    text = Text.assemble(("error: ", "bold red"), f"something unexpected went wrong ({detail[0][:300]})")
    text.append("\nwhy:   ", style="bold").append("this is a defect in specextend, not in your document")
    text.append("\ntry:   ", style="bold").append(
        "run again with --debug, and report the traceback with the output of: specextend doctor"
    )
    output.note(text)
