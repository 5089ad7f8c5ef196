"""Table 7 of the paper by prompt length: a step's time on the target, the draft, and the choice of a working set."""

from __future__ import annotations

from collections.abc import Iterator

from specextend_cli.bench.experiments.study import Measurements, Setting, Study
from specextend_cli.bench.records import PLAIN
from specextend_cli.bench.tables import LinePlot, Point, Table

_PARTS = {
    "plain step (ms)": (PLAIN, "verify"),
    "drafting (ms)": ("retrieval", "draft"),
    "verifying (ms)": ("retrieval", "verify"),
    "retrieving (ms)": ("retrieval", "retrieve"),
}
"""Columns: the method, and the part of its steps."""


def _mean(found: Measurements, length: int, column: str, *, of_retrievals: bool = False) -> float | None:
    """Milliseconds a verification step, or a retrieval that took place."""
    method, part = _PARTS[column]
    records = found.of(method, length)
    times = sum(record.retrievals if of_retrievals else len(record.nodes) for record in records)
    return 1e3 * sum(getattr(record, f"{part}_seconds") for record in records) / times if times else None


def _tables(setting: Setting, found: Measurements) -> Iterator[Table]:
    def row(length: int) -> tuple[float | None, ...]:
        steps = (_mean(found, length, column) for column in _PARTS)
        return length, *steps, _mean(found, length, "retrieving (ms)", of_retrievals=True)

    yield Table(
        "Milliseconds a step (Table 7)",
        ("prompt (tokens)", *_PARTS, "one retrieval (ms)"),
        tuple(map(row, setting.lengths)),
        "Drafting, verifying and retrieving are means over verification steps; one retrieval is the mean of those that "
        "took place.",
    )


def _plots(setting: Setting, found: Measurements) -> Iterator[LinePlot]:
    costs = {column: [(length, _mean(found, length, column)) for length in setting.lengths] for column in _PARTS}
    lines = {
        column.removesuffix(" (ms)"): [Point(length, cost) for length, cost in by_length if cost is not None]
        for column, by_length in costs.items()
    }
    yield LinePlot("Cost of a step", "prompt (tokens)", "milliseconds a step", lines)


STUDY = Study(
    "What does a step cost, and does choosing a working set grow with the document?",
    measure=lambda setting: setting.measure({"retrieval": setting.policy("retrieval")}),
    tables=_tables,
    plots=_plots,
)
