"""What a GPU makes of this program: kernels, steps, prompts, batches and the embedded pair, in ten minutes, offline.

    python -m tests.scripts.gpu [--device cuda:1] [--json] > gpu.md

The first table has every figure of docs/performance.md, "On a GPU", beside what the machine can do at best and what is
aimed at. Every Triton kernel is compared with the reference; `pytest -m gpu` tests the rest.
Without a GPU it is a rehearsal: the same code at tiny sizes, the kernels in Triton's interpreter, and every table says
that its figures are no GPU's. Needs torch, transformers, safetensors, numpy and triton; what else is missing is left
out. Exits with 1, after the result, if anything computed wrong values.
"""

from __future__ import annotations

import argparse
import gc
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from time import monotonic
from typing import Any

import torch

if __name__ == "__main__" and not torch.cuda.is_available():  # triton reads it when it is imported
    os.environ.setdefault("TRITON_INTERPRET", "1")

from specextend_cli.bench.formats import Cell, Interval, Table, dumps, escape, to_markdown
from tests.scripts.gpu_kernels import RIGHT, check, timings
from tests.scripts.gpu_models import (
    CHOSEN,
    GRAPHS,
    LATER,
    PROMPT,
    RETRIEVAL,
    TOKENS,
    VERIFYING,
    Ceilings,
    Sizes,
    SyntheticModels,
    batches,
    counting_captures,
    prompts,
    sizes_for,
)

SECONDS = 8 * 60  # after which no new part starts, so that everything ends within ten minutes
AIMS = {
    ("8B", "60 nodes, times a plain step"): "≤ 1.12",
    ("8B", "eight levels, times a plain step"): "≤ 0.40",
    ("8B", "drafts that accept three, times a step without graphs"): "≥ 8",
    ("135M", "drafting by the embedded pair, times plain"): "≥ 1.3",
    ("135M", "11 pages (s)"): "≤ 12",
}
"""By the model's shape and the figure."""
REHEARSAL = "There is no GPU here: this was a rehearsal at tiny sizes, and no figure in it is a GPU's."


@dataclass
class Suite:
    """A run and its result. `wrong`: what computed wrong values; `skipped`: what was left out, and why."""

    sizes: Sizes
    ends: float
    tables: list[Table] = field(default_factory=list)
    figures: list[dict[str, Cell]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    def table(self, title: str, rows: Iterable[Mapping[str, Cell]], note: str) -> None:
        """Add a table, if it has rows; every row names its device."""
        note = note if self.sizes.is_gpu else f"{note} {REHEARSAL}"
        made = Table.of(title, ({"device": self.sizes.label, **row} for row in rows), note)
        if made.rows:
            self.tables.append(made)

    def figure(self, what: str, model: str, prompt: Cell, value: float | None, floor: Cell = None) -> None:
        """Note a figure of docs/performance.md, beside its aim."""
        aim = AIMS.get((model, what), "")
        row: dict[str, Cell] = {"figure": what, "model": model, "prompt (tokens)": prompt, "measured": value}
        self.figures.append({**row, "floor": floor, "aim": aim, "met": is_met(value, aim)})

    def attempt(self, what: str, part: Callable[[], object]) -> None:
        """Run a part, if there is time left; one that fails is skipped alone."""
        if monotonic() > self.ends:
            self.skipped[what] = "time was up"
            return
        print(what, file=sys.stderr, flush=True)
        try:
            part()
        except Exception as error:  # triton's own have no common class
            self.failed(what, error)

    def failed(self, what: str, error: Exception) -> None:
        """Note that a part was skipped."""
        self.skipped[what] = f"{type(error).__name__}: {error}".splitlines()[0]

    def facts(self) -> dict[str, str]:
        """Device and software, and what was left out."""
        device = self.sizes.label
        if self.sizes.is_gpu:
            gpu = torch.cuda.get_device_properties(self.sizes.device)
            size = f"{gpu.total_memory / 1e9:.0f} GB, {gpu.multi_processor_count} multiprocessors"
            device = f"{device}, {size}, CUDA {torch.version.cuda}"
        software = ", ".join(f"{name} {_version(name)}" for name in ("torch", "transformers", "triton"))
        left_out = {f"left out: {name}": why for name, why in self.skipped.items()}
        return {"device": device, "software": software, **left_out, "wrong": ", ".join(self.wrong) or "nothing"}


def is_met(value: float | None, aim: str) -> str:
    """Whether a value is within an aim; "" without either."""
    if value is None or not aim:
        return ""
    return "yes" if (value <= float(aim[2:]) if aim[0] == "≤" else value >= float(aim[2:])) else "no"


def commit() -> str:
    """The checkout's, or that there is none."""
    found = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def run(device: torch.device, *, limit: float = SECONDS) -> Suite:
    """All parts in order."""
    suite = Suite(sizes_for(device), monotonic() + limit)
    sizes = suite.sizes
    ceilings = Ceilings.measured(sizes)
    best: dict[str, Cell] = {
        "memory (GB/s)": ceilings.bandwidth / 1e9,
        "products (TFLOP/s)": ceilings.arithmetic / 1e12,
        "number format": _name(sizes.dtype),
    }
    suite.table(
        "Ceilings", [best], "The best of a few: reading or copying a large buffer; a product of large matrices."
    )
    if why := no_triton(sizes):
        suite.skipped["Triton's kernels"] = why
    else:
        suite.attempt("kernels against the reference", lambda: _kernels(suite))
        _timings(suite, ceilings)
    for one in (sizes, sizes.of_small()):
        _synthetic(suite, one, ceilings)
    suite.attempt("the embedded pair", lambda: _pair(suite))
    suite.attempt("the command", lambda: _command(suite))
    others, suite.tables = suite.tables, []
    note = "Docs/performance.md, On a GPU. A step's floor is reading its weights and keys, a prompt's its products."
    suite.table(f"Figures at commit {commit()}", suite.figures, note)
    suite.tables += others
    return suite


def _kernels(suite: Suite) -> None:
    found = list(check(suite.sizes))
    suite.wrong += [f"{row['kernel']} in {row['number format']}" for row in found if row["verdict"] != RIGHT]
    note = "The reference is attention under one explicit mask, in float32 on the processor."
    suite.table("Triton's kernels against the reference", found, note)


def _timings(suite: Suite, ceilings: Ceilings) -> None:
    sizes, found = suite.sizes, list[dict[str, Cell]]()
    for length in sizes.lengths:
        timed = timings(sizes, ceilings.bandwidth, length)
        suite.attempt(f"kernels' times behind {length:,} tokens", partial(found.extend, timed))
    suite.table(
        "A layer's attention",
        found,
        f"{sizes.heads} heads, {sizes.kv_heads} key heads of {sizes.head_dim}, {_name(sizes.dtype)}. Reading: keys and "
        "values once, at the measured bandwidth.",
    )


def _synthetic(suite: Suite, sizes: Sizes, ceilings: Ceilings) -> None:
    found = list[dict[str, Cell]]()
    what = f"a model of the shape of {sizes.model}"
    if sizes.layers < 2:
        suite.skipped[what] = "there is no memory for two of its layers"
        return
    made: list[SyntheticModels] = []
    suite.attempt(what, lambda: made.append(SyntheticModels.create(sizes)))
    has_triton = not no_triton(sizes)
    backends = (*([GRAPHS] if sizes.is_gpu else []), "triton", "auto") if has_triton else ("auto",)
    for length in sizes.lengths if made else ():
        measured = made[0].measured(length, ceilings, backends, suite.failed)
        suite.attempt(f"{sizes.model} behind {length:,} tokens", partial(found.extend, measured))
    suite.wrong += [f"captures after load, in steps of {sizes.model}"] * any(row[LATER] for row in found)
    suite.table(
        f"Steps of {what}",
        found,
        "Random weights. The prompt is read once, by the first. Drafting: eight forwards of an EAGLE-3 head over "
        f"{RETRIEVAL.size:,} tokens at most, and over all. Floor: what must be read and multiplied, at the ceilings.",
    )
    _of_steps(suite, found, backends[0])
    if not made:
        return
    rows = list[dict[str, Cell]]()
    for length in sizes.lengths:
        read = prompts(made[0], ceilings, length, fused=has_triton)
        suite.attempt(f"prompts of {length:,} tokens", partial(rows.extend, read))
    by = "the fused forward" if has_triton else "transformers' layers"
    suite.table(f"Prompts by kernel, {sizes.model}", rows, f"By {by}, in pieces of {sizes.piece:,} tokens.")
    for row in rows:
        if row["attention"] == CHOSEN:
            suite.figure("reading (s)", sizes.model, row["prompt (tokens)"], row["seconds"], row["floor (s)"])
    if sizes.is_gpu and has_triton:
        _batches(suite, made[0])
    made.clear()
    gc.collect()
    torch.cuda.empty_cache()  # for the next


def _of_steps(suite: Suite, rows: Sequence[dict[str, Any]], name: str) -> None:
    """The figures of the rows of that back end, and what drafting gains over those without graphs."""
    plainly = {row["prompt (tokens)"]: row["plain step (ms)"] for row in rows if row["attention"] == "triton"}
    for row in rows:
        if row["attention"] != name:
            continue
        at, nodes = (row["model"], row["prompt (tokens)"]), suite.sizes.nodes
        plain, verifying, drafting = (
            row[f"{part} (ms)"] for part in ("plain step", VERIFYING.format(nodes), "drafting")
        )
        suite.figure("plain step (ms)", *at, plain, row["its floor (ms)"])
        suite.figure(f"{nodes} nodes (ms)", *at, verifying)
        suite.figure(f"{nodes} nodes, times a plain step", *at, verifying / plain)
        suite.figure("eight levels (ms)", *at, drafting)
        suite.figure("eight levels, times a plain step", *at, drafting / plain)
        if without := plainly.get(at[1]):
            suite.figure("plain step without graphs (ms)", *at, without)
            gain = "drafts that accept three, times a step without graphs"
            suite.figure(gain, *at, 3 * without / (verifying + drafting))


def _batches(suite: Suite, models: SyntheticModels) -> None:
    found, model = list[dict[str, Cell]](), models.sizes.model
    suite.attempt(f"batches of {model}", lambda: found.extend(batches(models, (1, 4, 16, 32))))
    suite.wrong += [f"captures after load, in batches of {model}"] * any(row[LATER] for row in found)
    suite.table(
        f"Plain decoding in batches, {model}",
        found,
        f"Prompts of {PROMPT:,} tokens, {TOKENS} new ones each, with a repetition penalty. Preparing: kernels compiled "
        "before, graphs captured and checked.",
    )
    for row in found:
        suite.figure(f"{row['sequences']} sequences, tokens/s", model, PROMPT, row["tokens/s in all"])


def _pair(suite: Suite) -> None:
    """The benchmark itself on the embedded pair, one prompt, if its weights and the program are installed here."""
    from specextend_cli.bench import experiments
    from specextend_cli.bench.results import Benchmark, Measured
    from specextend_cli.bench.session import Options

    options = Options(
        lengths=(suite.sizes.prompt,),
        tokens=suite.sizes.prompt // 4,
        docs=1,
        methods=("plain", "ngram", "specextend"),
        device=str(suite.sizes.device),
        offline=True,
    )
    with counting_captures() as captures:
        events = [(event, len(captures)) for event in experiments.run(options)]
    (found,) = (event for event, _ in events if isinstance(event, Benchmark))
    # The first stage whose end is known is the reading of a prompt.
    runs = (count for event, count in events if isinstance(event, Measured) or getattr(event, "total", 0))
    at_load = next(runs)
    suite.wrong += ["captures after load, of the embedded pair"] * (len(captures) > at_load)
    suite.wrong += [f"tokens of {method}" for method in found.wrong]
    table = found.experiments[0].tables[0]
    rows = [dict(zip(table.header, row, strict=True)) for row in table.rows]
    suite.table("The embedded pair, end to end", rows, f"One document. {table.note}")
    for row in rows:
        if row["method"] == "specextend" and isinstance(speedup := row["decoding, times plain"], Interval):
            gain = "drafting by the embedded pair, times plain"
            suite.figure(gain, "135M", row["prompt (tokens)"], speedup.value)


def _command(suite: Suite, model: str | None = None, limit: float = 120.0) -> None:
    """`summarize` as a new process. One that fails, or takes over `limit` seconds, has no time and says so."""
    from specextend_cli.bench.prompts import builtin
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
    suite.figure(f"{pages} pages (s)", "135M", None, wall)


def no_triton(sizes: Sizes) -> str:
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


def render(suite: Suite, *, json: bool) -> str:
    """The result as Markdown, or as a line of JSON."""
    facts = suite.facts()
    if json:
        tables = [{"title": table.title, "header": table.header, "rows": table.rows} for table in suite.tables]
        return dumps({"facts": facts, "tables": tables, "skipped": suite.skipped, "wrong": suite.wrong})
    told = "".join(f"- {escape(name)}: {escape(value)}\n" for name, value in facts.items())
    return "\n".join([*map(to_markdown, suite.tables), told])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cpu: a rehearsal")
    parser.add_argument("--json", action="store_true", help="JSON instead of Markdown")
    asked = parser.parse_args()
    device = torch.device(asked.device)
    if device.type != "cuda":
        print(REHEARSAL, file=sys.stderr)
    suite = run(device)
    print(render(suite, json=asked.json))
    return 1 if suite.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
