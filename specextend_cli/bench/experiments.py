"""What is measured: the chosen methods, or experiments by prompt length, by parts of SpecExtend, by what a draft sees.

Each is a generator that yields the events of its runs and returns its tables and plots.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias, get_args

from specextend_cli.bench.formats import Cell, Experiment, Table
from specextend_cli.bench.methods import have_own_attention
from specextend_cli.bench.needle import needle
from specextend_cli.bench.report import charts, columns, table
from specextend_cli.bench.results import Event, Record, Running
from specextend_cli.bench.runner import Runner
from specextend_cli.bench.session import Options, prepared
from specextend_cli.bench.statistics import Row
from specextend_cli.engine.config import Policy
from specextend_cli.errors import UsageError
from specextend_cli.summarize.events import Stage, Warned

_FIGURES = ("accepted", "tokens_per_second", "decode_speedup", "nodes", "hit")

Steps: TypeAlias = Generator[Running, None, Experiment]


def run(options: Options, names: Sequence[str] = ()) -> Iterator[Event]:
    """Measure the methods of `options`, or run experiments one after the other; the last event is the `Benchmark`."""
    layers = "ablation" not in names if names else not have_own_attention(options.methods)
    runner, made = yield from prepared(options, layers=layers)
    if not names:
        able = runner.named(*options.methods)
        for method, why in runner.skipped.items():
            yield Warned(f"{method} is left out: {why}")
        found = yield from runner.measure(able)
        plots = charts(found.rows)
        experiment = Experiment("methods", "How do the methods compare?", (table(found.rows),), plots)
        made = replace(made, records=found.records, experiments=(experiment,))
    else:
        made = replace(made, settings={**made.settings, "methods": []})  # they choose their own
    for name in names:
        yield Stage(f"experiment {name}")
        experiment = yield from EXPERIMENTS[name](runner)
        made = replace(made, experiments=(*made.experiments, experiment))
    yield replace(made, skipped=runner.skipped, wrong=tuple(dict.fromkeys(runner.wrong)))


def parse(text: str) -> tuple[str, ...]:
    """The experiments in `lengths,needle`. UsageError for an unknown name."""
    wanted = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in wanted:
        if name not in EXPERIMENTS:
            raise UsageError(f"there is no experiment {name!r}", why=f"there are: {', '.join(EXPERIMENTS)}")
    return wanted


def lengths(runner: Runner) -> Steps:
    """Table 2 of the paper."""
    found = yield from runner.measure(runner.named("standard", "streaming", "ngram", "specextend"))
    note = "The draft of standard and streaming drafts on every step; specextend is behind the gate."
    return Experiment(
        "lengths",
        "How do accepted length and speed change with the prompt?",
        (Table.of("By prompt length (Table 2)", (columns(row, *_FIGURES) for row in found.rows), note),),
        charts(found.rows, "decode_speedup", "accepted"),
    )


def ablation(runner: Runner) -> Steps:
    """Table 4 of the paper: each part alone, added to standard speculative decoding with masked attention."""
    parts = runner.named("naive", "+flash", "+hta", "+streaming", "+retrieval", "specextend")
    found = yield from runner.measure(parts)

    def total(record: Record) -> float:  # prefill counts: one of the parts works there
        return record.prefill_seconds + record.decode_seconds

    def cells(row: Row) -> dict[str, Cell]:
        return {
            **columns(row, "prefill_seconds"),
            "in all, times naive": found.ratio(row, "naive", total),
            **columns(row, *_FIGURES),
        }

    note = (
        "naive: the full draft cache, masked attention in prefill and verification; every part is added to it alone. "
        "In all: prefill and decoding; outputs that differ (half precision) are compared as they are."
    )
    return Experiment(
        "ablation",
        "What does each part of SpecExtend gain on its own?",
        (Table.of("Parts (Table 4)", map(cells, found.rows), note),),
        charts(found.rows, "decode_speedup"),
    )


def policies(runner: Runner) -> Steps:
    """Draft attention by drafter: everything, the newest tokens, the target's choice of chunks.

    Drafters are that with attention, and the preset's own.
    """
    models = runner.models
    drafters = [kind for kind in dict.fromkeys((models.attending, models.draft)) if kind != "ngram"]
    seen = {policy: models.under(policy) for policy in get_args(Policy)}
    methods = {"ngram": models.recipe("ngram", seen["full"])}
    methods |= {f"{kind}, {name}": models.recipe(kind, shown) for kind in drafters for name, shown in seen.items()}
    found = yield from runner.measure(methods)

    def cells(row: Row) -> dict[str, Cell]:
        full, streaming = (f"{row.method.partition(',')[0]}, {policy}" for policy in ("full", "streaming"))
        return {
            **columns(row, *_FIGURES),
            "accepted, over full": found.ratio(row, full, _steps_per_token),
            "accepted, over streaming": found.ratio(row, streaming, _steps_per_token),
            "accepted, over n-grams": found.ratio(row, "ngram", _steps_per_token),
        }

    note = "On every step, in the preset's tree. Ratios of accepted lengths: medians of documents' own."
    made = Table.of("Drafters and what they see", map(cells, found.rows), note)
    question = "What does a draft gain from what it sees, and does that hold as texts grow?"
    return Experiment("policies", question, (made,), charts(found.rows, "accepted"))


EXPERIMENTS: dict[str, Callable[[Runner], Steps]] = {
    "lengths": lengths,
    "ablation": ablation,
    "policies": policies,
    "needle": needle,
}
"""Values of `--experiment`."""


def _steps_per_token(record: Record) -> float | None:
    return len(record.accepted) / sum(record.accepted) if record.accepted else None
