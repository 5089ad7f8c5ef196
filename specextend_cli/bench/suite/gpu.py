"""The suite's parts in order, within the time for which a GPU is typically borrowed."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from time import monotonic

import torch

from specextend_cli import __version__
from specextend_cli.bench import roofline
from specextend_cli.bench.roofline import Roofline
from specextend_cli.bench.suite.device_info import MOST_LAYERS, Sizes, sizes_for
from specextend_cli.bench.suite.kernels import RIGHT, check, timings
from specextend_cli.bench.suite.synthetic_models import (
    GRAPHS,
    LATER,
    PROMPT,
    RETRIEVAL,
    TOKENS,
    SyntheticModels,
    batches,
    counting_captures,
    prompts,
)
from specextend_cli.bench.tables import Cell, Experiment, Format, Table, render
from specextend_cli.errors import Exit, SpecextendError
from specextend_cli.humanize import format_many

SECONDS = 7.5 * 60  # after which no new part starts, so that everything ends within nine minutes
QUESTION = "Are the kernels right on this GPU, and how near do steps come to what it can do?"
REHEARSAL = "There is no GPU here: this was a rehearsal at tiny sizes, and no figure in it is a GPU's."


class WrongError(SpecextendError):
    """A kernel or a method computed wrong values."""

    exit = Exit.INTERNAL


@dataclass
class Suite:
    """A run and its result. `wrong`: what computed wrong values; `skipped`: what was left out, and why."""

    sizes: Sizes
    say: Callable[[str], object]
    ends: float
    tables: list[Table] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    @property
    def experiment(self) -> Experiment:
        """The tables."""
        return Experiment("gpu", QUESTION, tuple(self.tables))

    @property
    def facts(self) -> dict[str, str]:
        """Device and software."""
        names = ", ".join(f"{name} {_version(name)}" for name in ("torch", "transformers", "triton"))
        software = f"specextend {__version__}, {names}"
        if not self.sizes.is_gpu:
            return {"device": self.sizes.label, "no GPU": REHEARSAL, "software": software}
        gpu = torch.cuda.get_device_properties(self.sizes.device)
        size = f"{gpu.total_memory / 1e9:.0f} GB, {gpu.multi_processor_count} multiprocessors"
        return {"device": f"{self.sizes.label}, {size}, CUDA {torch.version.cuda}", "software": software}

    @property
    def left_out(self) -> dict[str, str]:
        """`skipped` as facts."""
        return {f"left out: {name}": why for name, why in self.skipped.items()}

    def render(self, kind: Format) -> str:
        """The result as text."""
        facts = self.facts if kind == "json" else self.facts | self.left_out
        return render(self.experiment, kind, facts, skipped=self.skipped)

    def judge(self) -> None:
        """WrongError if something is wrong. Call it after the result was shown."""
        if self.wrong:
            raise WrongError(
                f"{format_many(len(self.wrong), 'check')} failed",
                why=", ".join(self.wrong),
                fix="please report this with the result: specextend bench --suite gpu --json",
            )

    def table(self, title: str, rows: Iterable[Mapping[str, Cell]], note: str) -> None:
        """Add a table, if it has rows; every row names its device."""
        note = note if self.sizes.is_gpu else f"{note} {REHEARSAL}"
        made = Table.of(title, ({"device": self.sizes.label, **row} for row in rows), note)
        if made.rows:
            self.tables.append(made)

    def attempt(self, what: str, part: Callable[[], object]) -> None:
        """Run a part, if there is time left; one that fails is skipped alone."""
        if monotonic() > self.ends:
            self.skipped[what] = "time was up"
            return
        self.say(what)
        try:
            part()
        except Exception as error:  # triton's own have no common class
            self.failed(what, error)

    def failed(self, what: str, error: Exception) -> None:
        """Note that a part was skipped."""
        self.skipped[what] = f"{type(error).__name__}: {error}".splitlines()[0]


def run(device: torch.device, say: Callable[[str], object] = lambda line: None, *, seconds: float = SECONDS) -> Suite:
    """`say` gets a line for every part that starts."""
    suite = Suite(sizes_for(device), say, monotonic() + seconds)
    sizes = suite.sizes
    say(f"{sizes.label}: what it can do at best")
    machine = roofline.measure(device, sizes.dtype, scale=sizes.ceiling)
    best: dict[str, Cell] = {
        "memory (GB/s)": machine.bandwidth / 1e9,
        "products (TFLOP/s)": machine.arithmetic / 1e12,
        "number format": _name(sizes.dtype),
    }
    note = "The best of a few: reading or copying a large buffer; the product of two large square matrices."
    suite.table("Ceilings", [best], note)
    if why := _no_triton(sizes):
        suite.skipped["Triton's kernels"] = why
    else:
        suite.attempt("kernels against the reference", lambda: _kernels(suite))
        _timings(suite, machine)
    _synthetic(suite, machine)
    suite.attempt("the embedded pair", lambda: _pair(suite))
    suite.attempt("the command", lambda: _command(suite))
    return suite


def _kernels(suite: Suite) -> None:
    found = list(check(suite.sizes))
    suite.wrong += [f"{row['kernel']} in {row['number format']}" for row in found if row["verdict"] != RIGHT]
    note = "The reference is attention under one explicit mask, in float32 on the processor."
    suite.table("Triton's kernels against the reference", found, note)


def _timings(suite: Suite, machine: Roofline) -> None:
    found = list[dict[str, Cell]]()
    for length in suite.sizes.lengths:
        timed = timings(suite.sizes, machine.bandwidth, length)
        suite.attempt(f"kernels' times behind {length:,} tokens", partial(found.extend, timed))
    suite.table(
        "A layer's attention",
        found,
        f"{suite.sizes.heads} heads, {suite.sizes.kv_heads} key heads of {suite.sizes.head_dim}, "
        f"{_name(suite.sizes.dtype)}. Reading them: keys and values once, at the measured bandwidth.",
    )


def _synthetic(suite: Suite, machine: Roofline) -> None:
    sizes, found = suite.sizes, list[dict[str, Cell]]()
    what = f"a model of Llama 3.1 8B's shape, {sizes.layers} of its {MOST_LAYERS} layers"
    if not sizes.is_gpu:
        what = "a tiny model, drafted for by a tiny head"
    if sizes.layers < 2:
        suite.skipped["a model of Llama 3.1 8B's shape"] = "there is no memory for two of its layers"
        return
    made: list[SyntheticModels] = []
    suite.attempt(what, lambda: made.append(SyntheticModels.create(sizes)))
    backends = ("auto",) if _no_triton(sizes) else (*([GRAPHS] if sizes.is_gpu else []), "triton", "auto")
    for length in sizes.lengths if made else ():
        measured = made[0].measured(length, machine, backends, suite.failed)
        suite.attempt(f"the model behind {length:,} tokens", partial(found.extend, measured))
    suite.wrong += ["captures after load, in steps"] * any(row[LATER] for row in found)
    if made and sizes.is_gpu and not _no_triton(sizes):
        _batches(suite, made[0])
    if made:
        _prompts(suite, made[0])
    suite.table(
        f"Steps of {what}",
        found,
        "Random weights. The prompt is read once, by the first. Drafting: eight forwards of an EAGLE-3 head over "
        f"{RETRIEVAL.size:,} tokens at most, and over all. A working set is chosen every {RETRIEVAL.every} steps. "
        "Floor: what must be read and multiplied, at the ceilings above.",
    )


def _batches(suite: Suite, models: SyntheticModels) -> None:
    found = list[dict[str, Cell]]()
    suite.attempt("batches", lambda: found.extend(batches(models, (1, 4, 16, 32))))
    suite.wrong += ["captures after load, in batches"] * any(row[LATER] for row in found)
    suite.table(
        "Plain decoding in batches",
        found,
        f"Prompts of {PROMPT:,} tokens, {TOKENS} new ones each, with a repetition penalty. Preparing: kernels compiled "
        "before, graphs captured and checked.",
    )


def _prompts(suite: Suite, models: SyntheticModels) -> None:
    fused, found = not _no_triton(suite.sizes), list[dict[str, Cell]]()
    suite.attempt("prompts by kernel", lambda: found.extend(prompts(models, fused=fused)))
    by = "the fused forward" if fused else "transformers' layers"
    suite.table("Prompts by kernel", found, f"The same model, by {by}, in pieces of {suite.sizes.piece:,} tokens.")


def _pair(suite: Suite) -> None:
    """The benchmark itself on the embedded pair, one prompt, if its weights and the program are installed here."""
    from specextend_cli.bench import session
    from specextend_cli.bench.events import Finished, Running
    from specextend_cli.bench.rows import summarize

    options = session.Options(
        lengths=(suite.sizes.prompt,),
        tokens=suite.sizes.prompt // 4,
        docs=1,
        methods=("plain", "ngram", "specextend"),
        device=str(suite.sizes.device),
        offline=True,
        fresh=True,
    )
    with counting_captures() as captures:
        events = [(event, len(captures)) for event in session.run(options)]
    (found,) = (event for event, _ in events if isinstance(event, Finished))
    found.forget()
    at_load = next(count for event, count in events if isinstance(event, Running))
    suite.wrong += ["captures after load, of the embedded pair"] * (len(captures) > at_load)
    suite.wrong += [f"tokens of {method}" for method in found.wrong]
    rows = (
        {
            "prompt (tokens)": row.length,
            "method": row.method,
            "prefill (s)": row.prefill_seconds,
            "tokens/s": row.tokens_per_second,
            "times plain": None if row.decode_speedup is None else row.decode_speedup.value,
            "accepted length": None if row.accepted is None else row.accepted.value,
            "equal to plain": f"{row.equal} of {row.compared}" if row.compared else None,
        }
        for row in summarize(found.benchmark)
    )
    note = (
        "One document; the preset's own decoding. In half precision a tree rounds otherwise than a single token, so "
        "outputs may part where two logits are almost equal; parting elsewhere is an error, and ends in one."
    )
    suite.table("The embedded pair, end to end", rows, note)


def _command(suite: Suite, model: str | None = None, limit: float = 120.0) -> None:
    """`summarize` as a new process. One that fails, or takes over `limit` seconds, has no time and says so."""
    from specextend_cli.bench.texts import builtin
    from specextend_cli.models.preset import DEFAULT

    gc.collect()
    torch.cuda.empty_cache()  # the process needs the memory
    pages, wall = 11 if suite.sizes.is_gpu else 1, None
    asked = ["summarize", "--mode", "abstractive", "--model", model or DEFAULT, "--device", str(suite.sizes.device)]
    asked += ["--offline", "--no-cache", "--verbose"]
    command = [sys.executable, "-c", "from specextend_cli.cli.main import main; main()", *asked]
    text = builtin()[0].text[: 3000 * pages]
    limit = min(limit, suite.ends + 80 - monotonic())
    began = monotonic()
    try:
        done = subprocess.run(command, input=text, capture_output=True, encoding="utf-8", timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        result = f"it took longer than {limit:.0f} s"
    else:
        wall = monotonic() - began if done.returncode == 0 else None
        told = r"^(?:(?:start|reading|writing) {2}|error:|[\w.]+Error:).*"
        result = "; ".join((f"exit code {done.returncode}", *re.findall(told, done.stderr, re.MULTILINE)))
    suite.table(
        "The command, end to end",
        [{"pages": pages, "seconds": wall, "result": result}],
        "summarize --mode abstractive by the embedded pair, its kernels compiled before. Result: what it says itself.",
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


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
