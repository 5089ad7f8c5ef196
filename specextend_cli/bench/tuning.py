"""`bench --tune`: settings for a pair on this machine and these documents, by successive halving (arXiv 1502.07943).

Many candidates run on few documents, the better half of them on twice as many, and so on. The winner is then compared
with the preset's own settings on documents that had no part in the choice.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from statistics import fmean

from specextend_cli.bench import statistics
from specextend_cli.bench.events import Running
from specextend_cli.bench.experiments.setting import Measurements, Setting
from specextend_cli.bench.methods import Recipe
from specextend_cli.bench.report import format_interval
from specextend_cli.bench.rows import decode_ratios
from specextend_cli.bench.tables import Cell, Experiment, Table
from specextend_cli.bench.workloads import Prompt
from specextend_cli.errors import UsageError
from specextend_cli.models.preset import Preset

CANDIDATES = 12
OWN = "preset"
"""The preset's own settings, as a candidate."""
ENOUGH = 1.01
"""Times the preset's speed: a single document must show as much; several must leave 1 outside their interval."""

_CHUNKS, _WORKING = (16, 32, 64, 128), (256, 512, 1024, 2048)
_NODES, _DEPTHS = (4, 8, 12, 16, 24, 32, 50), (3, 4, 6, 8, 10)


@dataclass(frozen=True, slots=True)
class Candidate:
    """What is tuned. `chunk` and `top_k` mean nothing to a drafter without attention, and are left alone there."""

    chunk: int
    top_k: int
    nodes: int
    depth: int

    def __str__(self) -> str:
        return f"chunk {self.chunk}, top-k {self.top_k}, nodes {self.nodes}, depth {self.depth}"


@dataclass(frozen=True)
class Tuned:
    """The tables, and the better preset; None where the preset's own settings stand."""

    experiment: Experiment
    preset: Preset | None


def tune(setting: Setting, *, explain: bool = False) -> Generator[Running, None, Tuned]:
    """Choose, check on held-out documents, and with `explain` take each change back. UsageError for one document."""
    tuning, held_out = split(setting.prompts)
    own = own_settings(setting)
    alive = {OWN: own} | {str(candidate): candidate for candidate in draw(setting, own)}
    rungs: list[tuple[Cell, ...]] = []
    documents = 1
    while True:
        prompts = _first(tuning, documents)
        found = yield from setting.measure({name: recipe(setting, made) for name, made in alive.items()}, prompts)
        scores = {name: _score(found, name) for name in alive}
        ranked = sorted(alive, key=lambda name: -scores[name])
        rungs += [(documents, name, round(scores[name], 3)) for name in ranked]
        if len(alive) <= 2 or documents >= len({prompt.document for prompt in tuning}):
            break
        kept = ranked[: -(-len(ranked) // 2)]
        alive = {name: alive[name] for name in dict.fromkeys((*kept, OWN))}
        documents *= 2
    best = alive[ranked[0]]
    compared = {OWN: own} if best == own else {OWN: own, "best": best}
    if explain and best != own:
        compared |= {f"best, own {name}": replace(best, **{name: getattr(own, name)}) for name in _changes(own, best)}
    found = yield from setting.measure({name: recipe(setting, made) for name, made in compared.items()}, held_out)
    rows, better = [], False
    for name, made in compared.items():
        ratios = _against(found, name)
        interval = statistics.bootstrap_interval(ratios, seed=setting.seed) if ratios else None
        if name == "best" and interval is not None and best != own:
            better = interval.value > ENOUGH and (interval.low is None or interval.low > 1)
        rows.append((name, str(made), _score(found, name), format_interval(interval, "×")))
    verdict = "The best settings are faster on documents they were not chosen on."
    stands = "The preset's own settings stand: nothing was faster on documents it was not chosen on."
    tables = (
        Table(
            "Held-out documents",
            ("settings", "", "times plain", "times the preset"),
            tuple(rows),
            verdict if better else stands,
        ),
        Table("Successive halving", ("documents", "settings", "times plain"), tuple(rungs)),
    )
    experiment = Experiment("tune", "Which settings suit this pair on this machine and these documents?", tables)
    return Tuned(experiment, tuned(setting.models.preset, best) if better else None)


def own_settings(setting: Setting) -> Candidate:
    """The preset's."""
    retrieval, shape = setting.models.retrieval, setting.models.shape
    return Candidate(retrieval.chunk, retrieval.top_k, shape.nodes, shape.depth)


def draw(setting: Setting, own: Candidate) -> list[Candidate]:
    """Distinct candidates at random, the preset's own left out."""
    attends = setting.models.preset.draft.kind != "ngram"
    every = {
        Candidate(chunk, working // chunk, nodes, depth)
        for chunk in (_CHUNKS if attends else (own.chunk,))
        for working in (_WORKING if attends else (own.top_k * own.chunk,))
        for nodes in _NODES
        for depth in _DEPTHS
        if depth < nodes and working >= chunk
    } - {own}
    return random.Random(setting.seed).sample(sorted(every, key=str), min(CANDIDATES, len(every)))


def split(prompts: Sequence[Prompt]) -> tuple[list[Prompt], list[Prompt]]:
    """Documents to choose on, and others to check on: every second one."""
    names = list(dict.fromkeys(prompt.document for prompt in prompts))
    if len(names) < 2:
        raise UsageError(
            "--tune needs two documents at least",
            why="settings are checked on others than they are chosen on",
            fix="--docs 6",
        )
    chosen = set(names[::2])
    return (
        [prompt for prompt in prompts if prompt.document in chosen],
        [prompt for prompt in prompts if prompt.document not in chosen],
    )


def recipe(setting: Setting, made: Candidate) -> Recipe:
    """The preset's own drafter behind the gate, as `summarize` has it, with a candidate's settings."""
    models = setting.models
    retrieval = replace(models.retrieval, chunk=made.chunk, top_k=made.top_k)
    shape = replace(models.shape, nodes=made.nodes, depth=made.depth)
    kind = models.choices.draft or models.preset.draft.kind
    return Recipe(lambda target: models.drafter(kind, target, retrieval), retrieval, shape, gate=True)


def tuned(preset: Preset, best: Candidate) -> Preset:
    """The preset with other settings."""
    retrieval = preset.retrieval.model_copy(update={"chunk": best.chunk, "top_k": best.top_k})
    tree = preset.tree.model_copy(update={"nodes": best.nodes, "depth": best.depth})
    return preset.model_copy(update={"retrieval": retrieval, "tree": tree})


def _first(prompts: Sequence[Prompt], documents: int) -> list[Prompt]:
    names = list(dict.fromkeys(prompt.document for prompt in prompts))[:documents]
    return [prompt for prompt in prompts if prompt.document in names]


def _score(found: Measurements, name: str) -> float:
    """Speed over plain decoding, the geometric mean over documents; 0 where nothing was measured."""
    ratios = decode_ratios(found.records, name).values()
    return exp(fmean(log(ratio) for ratio in ratios)) if ratios else 0.0


def _against(found: Measurements, name: str) -> tuple[float, ...]:
    """Speed over the preset's own settings, by document."""
    pairs = statistics.paired_ratios(found.records, name, OWN, statistics.decode_seconds_per_token)
    return tuple(pairs.values())


def _changes(own: Candidate, best: Candidate) -> list[str]:
    return [name for name in ("chunk", "top_k", "nodes", "depth") if getattr(own, name) != getattr(best, name)]
