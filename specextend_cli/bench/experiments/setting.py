"""What every experiment is given, and the one way they have of measuring methods: the benchmark's own runner."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from specextend_cli.bench.events import Running
from specextend_cli.bench.measure import Decoding
from specextend_cli.bench.methods import PLAIN, Method, Recipe, build, with_policy
from specextend_cli.bench.models import Models
from specextend_cli.bench.partial import Partial
from specextend_cli.bench.records import Benchmark, Machine, Record
from specextend_cli.bench.report import format_interval
from specextend_cli.bench.rows import Row, summarize
from specextend_cli.bench.runner import Key, Runner
from specextend_cli.bench.tables import Cell, Experiment, Table
from specextend_cli.bench.workloads import Prompt
from specextend_cli.engine.config import Retrieval, TreeShape

Run: TypeAlias = Generator[Running, None, Experiment]


@dataclass
class Setting:
    """Models, prompts and decoding. `wrong` and `skipped` collect what the runs find out about methods."""

    models: Models
    prompts: Sequence[Prompt]
    decoding: Decoding
    repeats: int
    seed: int
    machine: Machine
    partial: Partial | None = None
    wrong: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    _known: dict[Key, Record] = field(default_factory=dict, init=False)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Of the prompts, ascending."""
        return tuple(sorted({prompt.length for prompt in self.prompts}))

    def named(self, *names: str) -> dict[str, Method]:
        """Methods of the registry; those that cannot run here are noted in `skipped`."""
        able, unable = build(names, self.models)
        self.skipped |= unable
        return able

    def policy(self, policy: str, **changes: object) -> Recipe:
        """The preset's drafter with attention, every step, under a policy and changed settings of retrieval."""
        retrieval = with_policy(self.models, policy, **changes)
        return self.recipe(retrieval)

    def recipe(self, retrieval: Retrieval, shape: TreeShape | None = None, *, gate: bool = False) -> Recipe:
        """The preset's drafter with attention under `retrieval`, in a tree of `shape` (default: the preset's)."""
        kind = self.models.attending
        return Recipe(
            lambda target: self.models.drafter(kind, target, retrieval),
            retrieval,
            shape or self.models.shape,
            gate,
        )

    def measure(
        self, methods: Mapping[str, Method], prompts: Sequence[Prompt] | None = None, *, repeats: int | None = None
    ) -> Generator[Running, None, Measurements]:
        """Run every method on every prompt, plain decoding among them. What was run before is not run again."""
        every = {**self.named(PLAIN), **methods}
        runner = Runner(self.models, every, self.decoding, repeats or self.repeats, self.seed)
        saved = self.partial.read() if self.partial else ()
        events = runner.run(self.prompts if prompts is None else prompts, [*saved, *self._known.values()])
        yield from self.partial.keep(events) if self.partial else events
        self._known |= runner.known
        self.wrong += [name for name in runner.wrong() if name not in self.wrong]
        self.skipped |= runner.skipped
        settings: dict[str, object] = {"methods": list(every)}
        result = Benchmark(self.models.preset.name, settings, self.machine, self.seed, runner.records(), {}, {})
        return Measurements(runner.records(), summarize(result))


@dataclass(frozen=True)
class Measurements:
    """Every run, and a row a method and length."""

    records: tuple[Record, ...]
    rows: tuple[Row, ...]

    def at(self, length: int) -> tuple[Record, ...]:
        """The runs of every method at one length."""
        return tuple(record for record in self.records if record.length == length)

    def of(self, method: str, length: int) -> tuple[Record, ...]:
        """The runs of one method at one length."""
        return tuple(record for record in self.at(length) if record.method == method)


COLUMNS = ("accepted length", "tokens/s", "decoding, times plain", "nodes", "attention seen")


def by_method(title: str, what: str, rows: Sequence[Row], note: str) -> Table:
    """A row a method and length under the usual columns; `what` says what the methods stand for."""
    cells = tuple((row.length, row.method, *figures(row)) for row in rows)
    return Table(title, ("prompt (tokens)", what, *COLUMNS), cells, note)


def figures(row: Row) -> tuple[Cell, ...]:
    """The usual columns of a row, as `COLUMNS` names them."""
    return (
        format_interval(row.accepted),
        row.tokens_per_second,
        format_interval(row.decode_speedup, "×"),
        row.nodes,
        row.hit,
    )


def per_step(records: Sequence[Record], part: str) -> float | None:
    """Milliseconds a verification step of `draft`, `verify` or `retrieve`."""
    steps = sum(len(record.nodes) for record in records)
    seconds = sum(getattr(record, f"{part}_seconds") for record in records)
    return 1e3 * seconds / steps if steps else None


def changed(retrieval: Retrieval, **values: object) -> Retrieval:
    """`replace`, for values that come in dictionaries."""
    return replace(retrieval, **values)  # type: ignore[arg-type]
