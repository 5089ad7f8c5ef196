"""Runs documents × lengths × methods × repeats, in random order within a document, and compares all tokens."""

from __future__ import annotations

import random
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby

import torch

from specextend_cli.bench.formats import format_length, one_line
from specextend_cli.bench.measure import Decoding, divergence, is_wrong, measured
from specextend_cli.bench.methods import METHODS, reason
from specextend_cli.bench.models import Method, Models, Recipe
from specextend_cli.bench.prefilled import Prefilled
from specextend_cli.bench.prompts import Prompt
from specextend_cli.bench.results import PLAIN, Measured, Record, Run, Running
from specextend_cli.bench.statistics import Measurements
from specextend_cli.engine.cost_model import CostModel
from specextend_cli.engine.draft_gate import DraftGate
from specextend_cli.engine.events import Accepted
from specextend_cli.engine.events import Event as EngineEvent
from specextend_cli.errors import FitError, ModelError, SpecextendError, UsageError
from specextend_cli.summarize.events import Stage, Warned

_WARM_UP = 12  # tokens: enough for the gate to know what a plain step costs
_SLACK = 256  # rows for trees
_SHORT = 64  # prompt tokens that warm up an external program


@dataclass
class Runner:
    """Models, prompts and decoding of a benchmark.

    `skipped`: methods left out, and why. `wrong`: methods of ours whose tokens differ from plain decoding's by more
    than rounding explains: by nothing in float32.
    """

    models: Models
    prompts: Sequence[Prompt]
    decoding: Decoding
    repeats: int = 1
    seed: int = 0
    skipped: dict[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def named(self, *names: str) -> dict[str, Method]:
        """Methods of the registry; those that cannot run here are added to `skipped`."""
        able: dict[str, Method] = {}
        for name in names:
            try:
                able[name] = METHODS[name][1](self.models)
            except SpecextendError as error:  # noqa: PERF203 - each method may be missing something of its own
                self.skipped[name] = reason(error)
        return able

    def measure(self, methods: Mapping[str, Method]) -> Generator[Running, None, Measurements]:
        """Run every method, and plain decoding, on every prompt. A failing one is skipped; plain's error is raised."""
        self.methods = {**self.named(PLAIN), **methods}
        self._records: list[Record] = []
        self._warm: set[str] = set()
        self._runs = len(self.methods) * len(self.prompts) * self.repeats
        for length, group in groupby(self.prompts, key=lambda prompt: prompt.length):
            # Keys depend on RoPE's stretching, which depends on the length; step costs depend on the length.
            self._targets: dict[tuple[str, tuple[int, ...]], Prefilled] = {}
            self._costs: dict[str, CostModel] = {}
            self._warm = {name for name in self._warm if not isinstance(self.methods[name], Recipe)}
            with self.models.fitted(length + self.decoding.tokens) as scaled:
                for prompt in group:
                    yield from self._document(prompt, scaled)
        exact = self.models.dtype == torch.float32
        bad = {record.method for record in self._records if is_wrong(record.divergence, exact=exact)}
        self.wrong += [name for name in self.methods if name in bad and isinstance(self.methods[name], Recipe)]
        order = {name: number for number, name in enumerate(self.methods)}
        self._records.sort(key=lambda record: (record.length, order[record.method], record.document, record.repeat))
        return Measurements(tuple(self._records), self.seed)

    def _document(self, prompt: Prompt, scaled: bool) -> Iterator[Running]:
        found: list[Record] = []
        for repeat in range(self.repeats):
            names = list(self.methods)
            random.Random(f"{self.seed} {prompt.document} {prompt.length} {repeat}").shuffle(names)
            for name in names:
                if name in self.skipped:
                    continue
                try:
                    run = yield from self._run(name, prompt)
                except (FitError, ModelError, UsageError, torch.OutOfMemoryError) as error:
                    if name == PLAIN:
                        raise
                    why = "memory ran out" if isinstance(error, torch.OutOfMemoryError) else reason(error)
                    self.skipped[name] = f"{why}, at {prompt.length:,} tokens"
                    yield Warned(f"{name} is left out: {self.skipped[name]}")
                    continue
                found.append(
                    Record(
                        **asdict(run),
                        method=name,
                        length=prompt.length,
                        document=prompt.document,
                        repeat=repeat,
                        scaled=scaled,
                        text=self.models.encoder.decode(run.tokens),
                    )
                )
                yield Measured(found[-1], len(self._records) + len(found), self._runs)
        yield from self._check(prompt, found)

    def _run(self, name: str, prompt: Prompt) -> Generator[Running, None, Run]:
        """A run of the method, after a short one if it has had none yet."""
        method, decoding = self.methods[name], self.decoding
        where = f"{name} · {format_length(prompt.length)} {prompt.document}"
        if isinstance(method, Recipe):
            yield from self._read(method, prompt)
        if name not in self._warm:
            yield Stage(f"{where} · warming up")
            tokens = prompt.tokens if isinstance(method, Recipe) else prompt.tokens[:_SHORT]
            for _ in self._events(name, tokens, replace(decoding, tokens=min(_WARM_UP, decoding.tokens))):
                pass
            self._warm.add(name)
        yield Stage(where, 0, decoding.tokens)
        written = 0
        for event in self._events(name, prompt.tokens, decoding):
            if isinstance(event, Run):
                return event
            if isinstance(event, Accepted):
                written += event.accepted
                yield Stage(where, written, decoding.tokens)
        raise AssertionError("decoding ended without a result")

    def _events(self, name: str, prompt: Sequence[int], decoding: Decoding) -> Iterator[EngineEvent | Run]:
        """The engine's events, none of an external program, and last what was measured."""
        method = self.methods[name]
        if not isinstance(method, Recipe):
            yield method(prompt, decoding)
            return
        target = self._target(method)
        target.verify_backend = self.models.backend(method.verify)
        # Measured step costs are kept between texts; what a drafter learns from a text is not.
        gate = DraftGate(method.shape, enabled=method.gate, costs=self._costs.setdefault(name, CostModel()))
        yield from measured(target, method.drafter(target), prompt, decoding, method.retrieval, gate)

    def _target(self, recipe: Recipe) -> Prefilled:
        """One target for all methods that read a prompt the same way."""
        at = (recipe.prefill, recipe.retrieval.layers)
        if at not in self._targets:
            target = Prefilled(self.models.lm, score_layers=recipe.retrieval.layers)
            target.prefill_backend = self.models.backend(recipe.prefill)
            self._targets[at] = target
        return self._targets[at]

    def _read(self, recipe: Recipe, prompt: Prompt) -> Iterator[Running]:
        """Read the prompt if it was not read yet, before any method's run, so that all find equally warm caches."""
        target = self._target(recipe)
        features = recipe.drafter(target).feature_layers
        target.begin(prompt.length + self.decoding.tokens + max(_SLACK, recipe.shape.nodes + 1))
        chunk = self.decoding.prefill_chunk
        for at in range(0, prompt.length, chunk):
            piece = torch.tensor(prompt.tokens[at : at + chunk], device=self.models.device)
            yield Stage(f"reading {prompt.document}", at, prompt.length)
            target.prefill(piece, features=features)

    def _check(self, prompt: Prompt, found: Sequence[Record]) -> Iterator[Running]:
        """Keep the records of a prompt, each compared with plain decoding's first."""
        plain = next(record for record in found if record.method == PLAIN)
        recipe = self.methods[PLAIN]
        assert isinstance(recipe, Recipe)
        for record in found:
            differs = divergence(self._target(recipe), prompt.tokens, plain.tokens, record.tokens, self.decoding)
            if differs is not None:
                record = replace(record, divergence=differs)
                yield Warned(format_divergence(record))
            self._records.append(record)


def format_divergence(record: Record) -> str:
    """Where a run left plain decoding."""
    assert record.divergence is not None
    gap = "" if record.divergence.gap is None else f", where the two best are {record.divergence.gap:.2g} apart"
    where = f"{record.method} · {format_length(record.length)} {one_line(record.document)}"
    return f"{where} · differs from plain decoding from token {record.divergence.index + 1} on{gap}"
