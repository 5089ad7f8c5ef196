"""What a benchmark and every experiment run in: `Setting` measures methods on prompts, as `Measurements`."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

from specextend_cli.bench.events import Checked, Measured, Running
from specextend_cli.bench.measure import Decoding
from specextend_cli.bench.methods import build
from specextend_cli.bench.models import Method, Models
from specextend_cli.bench.records import PLAIN, Benchmark, Machine, Record
from specextend_cli.bench.rows import Row, summarize
from specextend_cli.bench.runner import Runner
from specextend_cli.bench.statistics import Interval, Quantity, bootstrap_interval, paired_ratios
from specextend_cli.bench.storage import Partial
from specextend_cli.bench.workloads import Prompt


@dataclass
class Setting:
    """Models, prompts and decoding of a benchmark.

    `asked`: the settings as JSON. `partial`: the file of finished runs. `traces`: see `session.explore`.
    `wrong`: lossless methods whose tokens were wrong; `skipped`: methods left out.
    """

    models: Models
    prompts: Sequence[Prompt]
    decoding: Decoding
    repeats: int
    seed: int
    machine: Machine
    asked: dict[str, object] = field(default_factory=dict)
    partial: Partial | None = None
    traces: Path | None = None
    wrong: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Prompt lengths, ascending."""
        return tuple(sorted({prompt.length for prompt in self.prompts}))

    @property
    def one_a_length(self) -> list[Prompt]:
        """The first prompt of each length."""
        return [next(of) for _, of in groupby(self.prompts, key=lambda prompt: prompt.length)]

    def saved_as(self, key: str, *, fresh: bool) -> Setting:
        """The same with its own file of finished runs. `wrong` and `skipped` are shared."""
        return replace(self, partial=Partial(key, fresh=fresh))

    def benchmark(self, records: Sequence[Record] = (), **values: Any) -> Benchmark:
        """A benchmark of these records."""
        references = {prompt.document: prompt.reference for prompt in self.prompts if prompt.reference}
        made = Benchmark(
            self.models.preset.name, self.asked, self.machine, self.seed, tuple(records), references, self.skipped
        )
        return replace(made, **values)

    def named(self, *names: str) -> dict[str, Method]:
        """Methods of the registry; those that cannot run here are added to `skipped`."""
        able, unable = build(names, self.models)
        self.skipped |= unable
        return able

    def measure(self, methods: Mapping[str, Method]) -> Generator[Running, None, Measurements]:
        """Run every method, and plain decoding, on every prompt. Finished runs are not repeated."""
        every = {**self.named(PLAIN), **methods}
        runner = Runner(self.models, every, self.decoding, self.repeats, self.seed)
        saved = self.partial.read() if self.partial else ()
        for event in runner.run(self.prompts, saved):
            if self.partial and isinstance(event, Measured | Checked):
                self.partial.add(event.record)  # before anyone sees it
            yield event
        self.wrong += [name for name in runner.wrong() if name not in self.wrong]
        self.skipped |= runner.skipped
        return Measurements(self.benchmark(runner.records(), settings={"methods": list(every)}, references={}))


@dataclass(frozen=True)
class Measurements:
    """The runs of an experiment, and figures of them."""

    benchmark: Benchmark

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """A row a method and length."""
        return summarize(self.benchmark)

    def ratio(self, method: str, other: str, quantity: Quantity, length: int) -> Interval | None:
        """How many times less of `quantity` a method needs than another: the median of documents' own ratios."""
        records = tuple(record for record in self.benchmark.records if record.length == length)
        ratios = tuple(paired_ratios(records, method, other, quantity).values())
        return bootstrap_interval(ratios, seed=self.benchmark.seed) if ratios else None
