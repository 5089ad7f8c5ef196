"""Table 7 of the paper by prompt length: a step's time on the target, the draft, and the choice of a working set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specextend_cli.bench.experiments.study import Measurements, Setting, Study
from specextend_cli.bench.records import PLAIN, Record
from specextend_cli.bench.tables import LinePlot, Point, Series, Table

HEADER = (
    "prompt (tokens)",
    "plain step (ms)",
    "drafting (ms)",
    "verifying (ms)",
    "retrieving (ms)",
    "one retrieval (ms)",
)


def _rows(setting: Setting, found: Measurements) -> Iterator[tuple[float | None, ...]]:
    for length in setting.lengths:
        plain, drafted = found.of(PLAIN, length), found.of("retrieval", length)
        parts = (_per_step(drafted, part) for part in ("draft", "verify", "retrieve"))
        choices = sum(record.retrievals for record in drafted)
        one = 1e3 * sum(record.retrieve_seconds for record in drafted) / choices if choices else None
        yield (length, _per_step(plain, "verify"), *parts, one)


def _per_step(records: Sequence[Record], part: str) -> float | None:
    """Milliseconds a verification step."""
    steps = sum(len(record.nodes) for record in records)
    return 1e3 * sum(getattr(record, f"{part}_seconds") for record in records) / steps if steps else None


def _tables(setting: Setting, found: Measurements) -> Iterator[Table]:
    note = (
        "Drafting, verifying and retrieving are means over verification steps; one retrieval is the mean of those that "
        "took place."
    )
    yield Table("Milliseconds a step (Table 7)", HEADER, tuple(_rows(setting, found)), note)


def _plots(setting: Setting, found: Measurements) -> Iterator[LinePlot]:
    lines: dict[str, list[Point]] = {}
    for length, *cells in _rows(setting, found):
        for name, value in zip(HEADER[1:-1], cells, strict=False):
            if length is not None and value is not None:
                lines.setdefault(name.removesuffix(" (ms)"), []).append(Point(length, value))
    series = tuple(Series(name, tuple(points)) for name, points in lines.items())
    yield LinePlot("Cost of a step", "prompt (tokens)", "milliseconds a step", series, log_x=True)


STUDY = Study(
    "What does a step cost, and does choosing a working set grow with the document?",
    measure=lambda setting: setting.measure({"retrieval": setting.policy("retrieval")}),
    tables=_tables,
    plots=_plots,
)
