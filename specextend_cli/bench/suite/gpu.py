"""The suite from its first ceiling to its last table, within a time that a borrowed GPU has."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from time import monotonic

import torch

from specextend_cli import __version__
from specextend_cli.bench.ceilings import Ceilings, measure
from specextend_cli.bench.suite import pair, timings
from specextend_cli.bench.suite.kernels import check
from specextend_cli.bench.suite.shaped import GRAPHS, RETRIEVAL, Shaped
from specextend_cli.bench.suite.sizes import MOST_LAYERS, Sizes, sizes_for
from specextend_cli.bench.tables import Cell, Experiment, Table, dumps, to_plain
from specextend_cli.errors import Exit, SpecextendError
from specextend_cli.humanize import format_many

SECONDS = 7.5 * 60
"""After which nothing new is begun, so that all ends within nine minutes."""

QUESTION = "Are the kernels right on this GPU, and how near do steps come to what it can do?"
REHEARSAL = "There is no GPU here: this was a rehearsal at tiny sizes, and no figure in it is a GPU's."


@dataclass(frozen=True)
class Suite:
    """What came out. `wrong` names what is not what it should be; `skipped` what was left out, and why."""

    experiment: Experiment
    facts: dict[str, str]
    wrong: tuple[str, ...]
    skipped: dict[str, str]

    @property
    def left_out(self) -> dict[str, str]:
        """The same, as facts."""
        return {f"left out: {name}": why for name, why in self.skipped.items()}


class WrongError(SpecextendError):
    """A kernel computes, or a method writes, something else than it should."""

    exit = Exit.INTERNAL


@dataclass
class _Run:
    """One run. Tables come in the order in which they are made."""

    sizes: Sizes
    ends: float
    tables: list[Table] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    def table(self, title: str, header: tuple[str, ...], rows: Iterable[tuple[Cell, ...]], note: str = "") -> None:
        """Every row says which device it is of."""
        note = note if self.sizes.is_gpu else f"{note} {REHEARSAL}".strip()
        labelled = tuple((self.sizes.label, *row) for row in rows)
        if labelled:
            self.tables.append(Table(title, ("device", *header), labelled, note))

    def late(self, what: str) -> bool:
        """Whether there is no time to begin with `what`; noted, if so."""
        if monotonic() > self.ends:
            self.skipped[what] = "time was up"
        return what in self.skipped

    def failed(self, what: str, error: Exception) -> None:
        """One part that does not run costs only itself."""
        self.skipped[what] = f"{type(error).__name__}: {error}".splitlines()[0]


def run(device: torch.device, *, seconds: float = SECONDS) -> Generator[str, None, Suite]:
    """Yields a line for every part that begins."""
    made = _Run(sizes_for(device), monotonic() + seconds)
    sizes = made.sizes
    yield f"{sizes.label}: what it can do at best"
    ceilings = measure(device, sizes.dtype, scale=sizes.ceiling)
    made.table(
        "Ceilings",
        ("memory (GB/s)", "products (TFLOP/s)", "number format"),
        [(ceilings.bandwidth / 1e9, ceilings.arithmetic / 1e12, _name(sizes.dtype))],
        "The best of a few: reading or copying a large buffer; the product of two large square matrices.",
    )
    if why := _no_triton(sizes):
        made.skipped["Triton's kernels"] = why
    else:
        yield from _kernels(made)
        yield from _timings(made, ceilings)
    yield from _shaped(made, ceilings)
    yield from _pair(made)
    experiment = Experiment("gpu", QUESTION, tuple(made.tables))
    return Suite(experiment, _facts(sizes), tuple(made.wrong), made.skipped)


def finish(events: Generator[str, None, Suite], say: Callable[[str], object]) -> Suite:
    """What `run` returns, its lines told to `say`."""
    while True:
        try:
            line = next(events)
        except StopIteration as ended:
            suite: Suite = ended.value
            return suite
        say(line)


def judge(suite: Suite) -> None:
    """WrongError where something is wrong: after the result, which stays useful."""
    if suite.wrong:
        raise WrongError(
            f"{format_many(len(suite.wrong), 'check')} failed",
            why=", ".join(suite.wrong),
            fix="please report this with the result: specextend bench --suite gpu --json",
        )


def to_json(suite: Suite) -> str:
    """Everything, for programs."""
    return dumps({**to_plain(suite.experiment), "facts": suite.facts, "skipped": suite.skipped}, indent=2) + "\n"


def _kernels(made: _Run) -> Generator[str, None, None]:
    yield "kernels against the reference"
    rows: list[tuple[Cell, ...]] = []
    for found in check(made.sizes):
        verdict = "right" if found.is_right else f"WRONG {found.failure}".strip()
        if not found.is_right:
            made.wrong.append(f"{found.kernel} in {_name(found.dtype)}")
        rows.append((found.kernel, _name(found.dtype), found.cases, found.error, found.tolerance, verdict))
    made.table(
        "Triton's kernels against the reference",
        ("kernel", "number format", "cases", "largest difference", "tolerated", "verdict"),
        rows,
        "The reference is attention under one explicit mask, in float32 on the processor.",
    )


def _timings(made: _Run, ceilings: Ceilings) -> Generator[str, None, None]:
    rows: list[tuple[Cell, ...]] = []
    for length in made.sizes.lengths:
        if made.late(f"kernels' times behind {length:,} tokens"):
            break
        yield f"kernels' times behind {length:,} tokens"
        try:
            for one in timings.timings(made.sizes, ceilings.bandwidth, length):
                graph = None if one.graph is None else 1e6 * one.graph
                share = one.ceiling / (one.eager if one.graph is None else one.graph)
                rows.append((one.keys, one.nodes, one.method, 1e6 * one.ceiling, graph, 1e6 * one.eager, share))
        except Exception as error:  # see `kernels.check`
            made.failed(f"kernels' times behind {length:,} tokens", error)
    made.table(
        "A layer's attention",
        ("keys", "nodes", "method", "reading them (µs)", "in a graph (µs)", "eager (µs)", "share of bandwidth"),
        rows,
        f"{made.sizes.heads} heads, {made.sizes.kv_heads} key heads of {made.sizes.head_dim}, "
        f"{_name(made.sizes.dtype)}. Reading them: keys and values once, at the measured bandwidth.",
    )


def _shaped(made: _Run, ceilings: Ceilings) -> Generator[str, None, None]:
    sizes = made.sizes
    what = f"a model of Llama 3.1 8B's shape, {sizes.layers} of its {MOST_LAYERS} layers"
    if not sizes.is_gpu:
        what = "a tiny model, drafted for by a tiny head"
    if sizes.layers < 2:
        made.skipped["a model of Llama 3.1 8B's shape"] = "there is no memory for two of its layers"
        return
    if made.late(what):
        return
    yield what
    rows: list[tuple[Cell, ...]] = []
    try:
        shaped = Shaped.made(sizes)
        backends = ("auto",) if _no_triton(sizes) else ("auto", "triton", *([GRAPHS] if sizes.is_gpu else []))
        for length in sizes.lengths:
            if made.late(f"the model behind {length:,} tokens"):
                break
            yield f"{what}: behind {length:,} tokens"
            for one in shaped.behind(length, ceilings, backends, made.failed):
                plain_floor, tree_floor = one.floors
                rows.append(
                    (
                        length,
                        one.backend,
                        one.prefill,
                        1e3 * one.plain,
                        one.plain / plain_floor,
                        1e3 * one.verifying,
                        one.verifying / tree_floor,
                        one.verifying / one.plain,
                        1e3 * one.drafting,
                        1e3 * one.drafting_all,
                        1e3 * one.choosing,
                        one.choosing_share,
                    )
                )
    except (RuntimeError, ValueError, SpecextendError) as error:  # out of memory is a RuntimeError
        made.failed(what, error)
    made.table(
        f"Steps of {what}",
        (
            "prompt (tokens)",
            "attention",
            "prefill (s)",
            "plain step (ms)",
            "times its floor",
            f"verification, {sizes.nodes} nodes (ms)",
            "times its floor ",
            "times a plain step",
            "drafting (ms)",
            "drafting, all seen (ms)",
            "one choice (ms)",
            "choosing, share of a step",
        ),
        rows,
        f"Random weights. Drafting: eight forwards of an EAGLE-3 head over {RETRIEVAL.size:,} tokens at most, and over "
        f"all. A working set is chosen every {RETRIEVAL.every} steps. Floor: what must be read and multiplied, at the "
        "ceilings above.",
    )


def _pair(made: _Run) -> Generator[str, None, None]:
    what = "the embedded pair"
    if made.late(what):
        return
    yield f"{what}, end to end"
    try:
        rows, wrong = pair.measured(made.sizes)
    except (ImportError, RuntimeError, SpecextendError) as error:
        made.failed(what, error)
        return
    made.wrong += [f"tokens of {method}" for method in wrong]
    note = (
        "One document; the preset's own decoding. In half precision a tree rounds otherwise than a single token, so "
        "outputs may part where two logits are almost equal; parting elsewhere is an error, and ends in one."
    )
    made.table("The embedded pair, end to end", pair.HEADER, rows, note)


def _no_triton(sizes: Sizes) -> str:
    """Why Triton's kernels cannot run, "" where they can."""
    if find_spec("triton") is None:
        return "triton is not installed"
    if not sizes.is_gpu and tuple(map(int, re.findall(r"\d+", version("triton"))[:2])) < (3, 7):
        return "its interpreter works with today's numpy from triton 3.7 on"
    from specextend_cli.engine.attention.triton_kernels import attend_split

    if not sizes.is_gpu and type(attend_split).__name__ != "InterpretedFunction":
        return "without a GPU they need Triton's interpreter: TRITON_INTERPRET=1"
    return ""


def _facts(sizes: Sizes) -> dict[str, str]:
    facts = {"device": sizes.label}
    if sizes.is_gpu:
        properties = torch.cuda.get_device_properties(sizes.device)
        facts["device"] += (
            f", {properties.total_memory / 1e9:.0f} GB, {properties.multi_processor_count} multiprocessors, "
            f"CUDA {torch.version.cuda}"
        )
    else:
        facts["no GPU"] = REHEARSAL
    names = ", ".join(f"{name} {_version(name)}" for name in ("torch", "transformers", "triton"))
    return {**facts, "software": f"specextend {__version__}, {names}"}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
