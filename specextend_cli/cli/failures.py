"""Documents of several that fail: the others go on, and the failures are listed at the end."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from specextend_cli.cli.signals import DeadlineError
from specextend_cli.errors import ModelError, PartialError, SpecextendError

if TYPE_CHECKING:
    from specextend_cli.cli.source import Source
    from specextend_cli.ui.output import Output

    Failure: TypeAlias = tuple[Source, SpecextendError]


def attempt(work: Callable[[], object]) -> SpecextendError | None:
    """Do the work for one of several documents; returns its error. Errors that concern all documents are raised."""
    try:
        work()
    except (DeadlineError, ModelError, OSError):
        raise
    except SpecextendError as error:
        error.__cause__ = error.__context__ = None  # they and the traceback would keep the document in memory
        return error.with_traceback(None)
    except Exception as error:
        return SpecextendError("something unexpected went wrong", why=f"{type(error).__name__}: {error}")
    return None


def show(output: Output, failures: Sequence[Failure]) -> None:
    """List the failures, if there are any."""
    from specextend_cli.ui.tables import failure_table

    if failures:
        output.note(failure_table([(source.name, error) for source, error in failures]))


def report(output: Output, failures: Sequence[Failure], total: int) -> None:
    """List the failures among `total` documents and raise PartialError if there are any."""
    if not failures:
        return
    show(output, failures)
    there = next((source.path for source, _ in failures if Path(source.path).exists()), None)
    fix = "" if there is None else f"to look into one of them: specextend extract {shlex.quote(there)}"
    raise PartialError(f"{len(failures)} of {total} documents failed", fix=fix)
