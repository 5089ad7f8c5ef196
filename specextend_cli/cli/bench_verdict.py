"""Whether a benchmark passes: its exit code says that something is wrong, or worse than it was."""

from __future__ import annotations

from pathlib import Path

from specextend_cli.bench.events import Explored, Result
from specextend_cli.bench.records import Benchmark
from specextend_cli.bench.regression import regressions
from specextend_cli.bench.storage import from_json
from specextend_cli.errors import Exit, InputError, SpecextendError


class DivergedError(SpecextendError):
    """A method that claims to be lossless is not: a bug of ours."""

    exit = Exit.INTERNAL


class RegressionError(SpecextendError):
    """Something is worse than it was."""

    exit = Exit.INTERNAL


def read(path: Path) -> Benchmark:
    """An earlier result, read before hours are spent."""
    try:
        return from_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}", why=str(error)) from error


def judge(result: Result, old: Benchmark | None) -> None:
    """Raise what is to be said about it, after the result, which stays useful."""
    if result.wrong:
        exact = result.exact if isinstance(result, Explored) else result.benchmark.settings.get("dtype") == "float32"
        why = "in float32 none may differ" if exact else "where the choice was too clear for rounding to turn it over"
        raise DivergedError(
            f"{', '.join(result.wrong)} wrote other tokens than plain decoding",
            why=why,
            fix="please report this with the result: specextend bench … --json",
        )
    if old is None or isinstance(result, Explored):
        return
    if worse := regressions(old, result.benchmark):
        raise RegressionError("something is worse than it was", why="; ".join(worse))
