"""The suite's parts in order, within the time for which a GPU is typically borrowed."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from time import monotonic

import torch

from specextend_cli import __version__
from specextend_cli.bench import roofline
from specextend_cli.bench.roofline import Roofline
from specextend_cli.bench.suite import timings
from specextend_cli.bench.suite.device_info import MOST_LAYERS, Sizes, sizes_for
from specextend_cli.bench.suite.kernels import check
from specextend_cli.bench.suite.synthetic_models import GRAPHS, RETRIEVAL, SyntheticModels
from specextend_cli.bench.tables import Cell, Experiment, Table, dumps, to_plain
from specextend_cli.errors import Exit, SpecextendError
from specextend_cli.humanize import format_many

SECONDS = 7.5 * 60
"""After which no new part starts, so that everything ends within nine minutes."""

QUESTION = "Are the kernels right on this GPU, and how near do steps come to what it can do?"
REHEARSAL = "There is no GPU here: this was a rehearsal at tiny sizes, and no figure in it is a GPU's."


@dataclass(frozen=True)
class Suite:
    """The result. `wrong`: what computed wrong values; `skipped`: what was left out, and why."""

    experiment: Experiment
    facts: dict[str, str]
    wrong: tuple[str, ...]
    skipped: dict[str, str]

    @property
    def left_out(self) -> dict[str, str]:
        """`skipped` as facts."""
        return {f"left out: {name}": why for name, why in self.skipped.items()}


class WrongError(SpecextendError):
    """A kernel or a method computed wrong values."""

    exit = Exit.INTERNAL


@dataclass
class _Run:
    """A run in progress."""

    sizes: Sizes
    ends: float
    tables: list[Table] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    def table(self, title: str, header: tuple[str, ...], rows: Iterable[tuple[Cell, ...]], note: str = "") -> None:
        """Add a table; every row names its device."""
        note = note if self.sizes.is_gpu else f"{note} {REHEARSAL}".strip()
        labelled = tuple((self.sizes.label, *row) for row in rows)
        if labelled:
            self.tables.append(Table(title, ("device", *header), labelled, note))

    def late(self, what: str) -> bool:
        """Whether there is no time left for `what`; it is then noted as skipped."""
        if monotonic() > self.ends:
            self.skipped[what] = "time was up"
        return what in self.skipped

    def failed(self, what: str, error: Exception) -> None:
        """A part that fails is skipped alone."""
        self.skipped[what] = f"{type(error).__name__}: {error}".splitlines()[0]


def run(device: torch.device, *, seconds: float = SECONDS) -> Generator[str, None, Suite]:
    """Yields a line for every part that starts."""
    made = _Run(sizes_for(device), monotonic() + seconds)
    sizes = made.sizes
    yield f"{sizes.label}: what it can do at best"
    machine = roofline.measure(device, sizes.dtype, scale=sizes.ceiling)
    made.table(
        "Ceilings",
        ("memory (GB/s)", "products (TFLOP/s)", "number format"),
        [(machine.bandwidth / 1e9, machine.arithmetic / 1e12, _name(sizes.dtype))],
        "The best of a few: reading or copying a large buffer; the product of two large square matrices.",
    )
    if why := _no_triton(sizes):
        made.skipped["Triton's kernels"] = why
    else:
        yield from _kernels(made)
        yield from _timings(made, machine)
    yield from _synthetic(made, machine)
    yield from _pair(made)
    return Suite(Experiment("gpu", QUESTION, tuple(made.tables)), _facts(sizes), tuple(made.wrong), made.skipped)


def finish(events: Generator[str, None, Suite], say: Callable[[str], object]) -> Suite:
    """What `run` returns; its lines are passed to `say`."""
    while True:
        try:
            line = next(events)
        except StopIteration as ended:
            suite: Suite = ended.value
            return suite
        say(line)


def judge(suite: Suite) -> None:
    """WrongError if something is wrong. Call it after the result was shown."""
    if suite.wrong:
        raise WrongError(
            f"{format_many(len(suite.wrong), 'check')} failed",
            why=", ".join(suite.wrong),
            fix="please report this with the result: specextend bench --suite gpu --json",
        )


def to_json(suite: Suite) -> str:
    """The result for programs."""
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


def _timings(made: _Run, machine: Roofline) -> Generator[str, None, None]:
    rows: list[tuple[Cell, ...]] = []
    for length in made.sizes.lengths:
        what = f"kernels' times behind {length:,} tokens"
        if made.late(what):
            break
        yield what
        try:
            for one in timings.timings(made.sizes, machine.bandwidth, length):
                graph = None if one.graph is None else 1e6 * one.graph
                share = one.least / (one.eager if one.graph is None else one.graph)
                rows.append((one.keys, one.nodes, one.method, 1e6 * one.least, graph, 1e6 * one.eager, share))
        except Exception as error:  # see `kernels.check`
            made.failed(what, error)
    made.table(
        "A layer's attention",
        ("keys", "nodes", "method", "reading them (µs)", "in a graph (µs)", "eager (µs)", "share of bandwidth"),
        rows,
        f"{made.sizes.heads} heads, {made.sizes.kv_heads} key heads of {made.sizes.head_dim}, "
        f"{_name(made.sizes.dtype)}. Reading them: keys and values once, at the measured bandwidth.",
    )


def _synthetic(made: _Run, machine: Roofline) -> Generator[str, None, None]:
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
        models = SyntheticModels.made(sizes)
        backends = ("auto",) if _no_triton(sizes) else ("auto", "triton", *([GRAPHS] if sizes.is_gpu else []))
        for length in sizes.lengths:
            if made.late(f"the model behind {length:,} tokens"):
                break
            yield f"{what}: behind {length:,} tokens"
            rows += models.measured(length, machine, backends, made.failed)
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
    """The benchmark itself on the embedded pair, one prompt, if its weights and the program are installed here."""
    what = "the embedded pair"
    if made.late(what):
        return
    yield f"{what}, end to end"
    try:
        from specextend_cli.bench import session
        from specextend_cli.bench.events import Finished
        from specextend_cli.bench.rows import summarize

        options = session.Options(
            lengths=(made.sizes.prompt,),
            tokens=made.sizes.prompt // 4,
            docs=1,
            methods=("plain", "ngram", "specextend"),
            device=str(made.sizes.device),
            offline=True,
            fresh=True,
        )
        (found,) = (event for event in session.run(options) if isinstance(event, Finished))
    except (ImportError, RuntimeError, SpecextendError) as error:
        made.failed(what, error)
        return
    found.forget()
    made.wrong += [f"tokens of {method}" for method in found.wrong]
    made.table(
        "The embedded pair, end to end",
        ("prompt (tokens)", "method", "prefill (s)", "tokens/s", "times plain", "accepted length", "equal to plain"),
        [
            (
                row.length,
                row.method,
                row.prefill_seconds,
                row.tokens_per_second,
                None if row.decode_speedup is None else row.decode_speedup.value,
                None if row.accepted is None else row.accepted.value,
                f"{row.equal} of {row.compared}" if row.compared else None,
            )
            for row in summarize(found.benchmark)
        ],
        "One document; the preset's own decoding. In half precision a tree rounds otherwise than a single token, so "
        "outputs may part where two logits are almost equal; parting elsewhere is an error, and ends in one.",
    )


def _no_triton(sizes: Sizes) -> str:
    """Why Triton's kernels cannot run; "" if they can."""
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
