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
_NOTE = (
    "Drafting, verifying and retrieving are means over verification steps; one retrieval is the mean of those that "
    "took place."
)


def _per_step(found: Measurements, length: int, column: str) -> float | None:
    """Milliseconds a verification step."""
    method, part = _PARTS[column]
    records = found.of(method, length)
    steps = sum(len(record.nodes) for record in records)
    return 1e3 * sum(getattr(record, f"{part}_seconds") for record in records) / steps if steps else None


def _one_retrieval(found: Measurements, length: int) -> float | None:
    records = found.of("retrieval", length)
    choices = sum(record.retrievals for record in records)
    return 1e3 * sum(record.retrieve_seconds for record in records) / choices if choices else None


def _tables(setting: Setting, found: Measurements) -> Iterator[Table]:
    rows = tuple(
        (length, *(_per_step(found, length, column) for column in _PARTS), _one_retrieval(found, length))
        for length in setting.lengths
    )
    header = ("prompt (tokens)", *_PARTS, "one retrieval (ms)")
    yield Table("Milliseconds a step (Table 7)", header, rows, _NOTE)


def _plots(setting: Setting, found: Measurements) -> Iterator[LinePlot]:
    lines = {
        column.removesuffix(" (ms)"): [
            Point(length, value)
            for length in setting.lengths
            if (value := _per_step(found, length, column)) is not None
        ]
        for column in _PARTS
    }
    yield LinePlot("Cost of a step", "prompt (tokens)", "milliseconds a step", lines)


STUDY = Study(
    "What does a step cost, and does choosing a working set grow with the document?",
    measure=lambda setting: setting.measure({"retrieval": setting.policy("retrieval")}),
    tables=_tables,
    plots=_plots,
)
