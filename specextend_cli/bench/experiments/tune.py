"""`bench --tune`: settings for a pair on this machine and these documents, by successive halving (arXiv 1502.07943).

Many candidates run on few documents, the better half of them on twice as many, and so on. The winner is then compared
with the preset's own settings on held-out documents. The preset's settings run twice in every round, and the winner
must beat them in a permutation test, so that noise of the machine does not choose.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Sequence
from dataclasses import dataclass, fields, replace
from math import exp, log
from statistics import fmean

from specextend_cli.bench import statistics
from specextend_cli.bench.events import Running
from specextend_cli.bench.experiments.study import Measurements, Setting, Study
from specextend_cli.bench.models import Recipe
from specextend_cli.bench.overview import format_interval
from specextend_cli.bench.rows import decode_ratios
from specextend_cli.bench.tables import Cell, Table
from specextend_cli.bench.workloads import Prompt
from specextend_cli.engine.config import Retrieval, TreeShape
from specextend_cli.errors import UsageError
from specextend_cli.models.preset import Preset

CANDIDATES = 12
OWN, AGAIN = "preset", "preset, again"  # the preset's own settings, as a candidate and as its control
ENOUGH = 1.01  # the least speed over the preset's; several documents must also have 1 outside their interval
CHANCE = 0.01  # the largest p-value
ROUNDS = 5  # least runs of each setting on held-out documents

_CHUNKS, _WORKING = (16, 32, 64, 128), (256, 512, 1024, 2048)
_NODES, _DEPTHS = (4, 8, 12, 16, 24, 32, 50), (3, 4, 6, 8, 10)


@dataclass(frozen=True, slots=True)
class Candidate:
    """What is tuned. `chunk` and `top_k` stay the preset's for a drafter without attention."""

    chunk: int
    top_k: int
    nodes: int
    depth: int

    def __str__(self) -> str:
        return f"chunk {self.chunk}, top-k {self.top_k}, nodes {self.nodes}, depth {self.depth}"

    def applied(self, retrieval: Retrieval, shape: TreeShape) -> tuple[Retrieval, TreeShape]:
        """Settings with those of the candidate."""
        tuned = replace(retrieval, chunk=self.chunk, top_k=self.top_k)
        return tuned, replace(shape, nodes=self.nodes, depth=self.depth)


def _measure(setting: Setting) -> Generator[Running, None, tuple[Table, Table]]:
    """Choose, check on held-out documents, and with `explain` revert each change alone. UsageError for one document.

    The better preset, if there is one, is left in `setting.better`.
    """
    tuning, held_out = split(setting.prompts)
    own = own_settings(setting)
    best, halving = yield from _halve(setting, tuning, own)
    compared, better = yield from _compare(setting, held_out, own, best)
    setting.better = tuned(setting.models.preset, best) if better else None
    return compared, halving


def _halve(
    setting: Setting, tuning: Sequence[Prompt], own: Candidate
) -> Generator[Running, None, tuple[Candidate, Table]]:
    """The winner. The preset's own settings stay until the end."""
    alive = {OWN: own} | {str(candidate): candidate for candidate in draw(setting, own)}
    names = _documents(tuning)
    rungs: list[tuple[Cell, ...]] = []
    documents = 1
    while True:
        methods = {name: recipe(setting, made) for name, made in alive.items()}
        found = yield from setting.measure(methods, _of(tuning, names[:documents]))
        scores = {name: _score(found, name) for name in alive}
        ranked = sorted(alive, key=lambda name: -scores[name])
        rungs += [(documents, name, round(scores[name], 3)) for name in ranked]
        if len(alive) <= 2 or documents >= len(names):
            table = Table("Successive halving", ("documents", "settings", "times plain"), tuple(rungs))
            return alive[ranked[0]], table
        kept = ranked[: -(-len(ranked) // 2)]
        alive = {name: alive[name] for name in dict.fromkeys((*kept, OWN))}
        documents *= 2


def _compare(
    setting: Setting, held_out: Sequence[Prompt], own: Candidate, best: Candidate
) -> Generator[Running, None, tuple[Table, bool]]:
    """Whether `best` beats the preset on held-out documents by more than the preset's own runs differ.

    Measured in rounds, because a shared machine's speed varies more than settings do.
    """
    compared = {OWN: own} if best == own else {OWN: own, AGAIN: own, "best": best}
    if setting.explain:
        undone = {field.name: replace(best, **{field.name: getattr(own, field.name)}) for field in fields(best)}
        compared |= {f"best, own {name}": made for name, made in undone.items() if made not in (own, best)}
    recipes = {name: recipe(setting, made) for name, made in compared.items()}
    rounds = setting.repeats if best == own else max(setting.repeats, ROUNDS)
    found = yield from setting.measure(recipes, held_out, repeats=rounds)
    cost = statistics.decode_seconds_per_token
    gains = {name: found.ratio(name, OWN, cost) for name in compared}
    luck = statistics.chance(found.records, "best", (OWN, AGAIN), cost, setting.seed)
    gain = gains.get("best")
    better = gain is not None and gain.value > ENOUGH and (gain.low is None or gain.low > 1) and luck <= CHANCE
    if better:
        verdict = f"The best settings are faster on documents they were not chosen on (by chance: p = {luck:.4f})."
    elif gain is not None and gain.value > ENOUGH and luck > CHANCE:
        verdict = f"The preset's own settings stand: they differ as much from themselves (p = {luck:.2f})."
    else:
        verdict = "The preset's own settings stand: nothing was faster on documents it was not chosen on."
    rows = (
        (name, str(made), _score(found, name), format_interval(gains[name], "×")) for name, made in compared.items()
    )
    head = ("settings", "", "times plain", "times the preset")
    return Table("Held-out documents", head, tuple(rows), verdict), better


def own_settings(setting: Setting) -> Candidate:
    """The preset's."""
    retrieval, shape = setting.models.retrieval, setting.models.preset.tree
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
    names = _documents(prompts)
    if len(names) < 2:
        why = "settings are checked on others than they are chosen on"
        raise UsageError("--tune needs two documents at least", why=why, fix="--docs 6")
    return _of(prompts, names[::2]), _of(prompts, names[1::2])


def _documents(prompts: Sequence[Prompt]) -> list[str]:
    return list(dict.fromkeys(prompt.document for prompt in prompts))


def _of(prompts: Sequence[Prompt], documents: Sequence[str]) -> list[Prompt]:
    return [prompt for prompt in prompts if prompt.document in documents]


def recipe(setting: Setting, made: Candidate) -> Recipe:
    """The preset's own drafter behind the gate, as `summarize` has it, with a candidate's settings."""
    models = setting.models
    return models.recipe(models.own_draft, *made.applied(models.retrieval, models.preset.tree), gate=True)


def tuned(preset: Preset, best: Candidate) -> Preset:
    """The preset with other settings."""
    retrieval, tree = best.applied(preset.retrieval, preset.tree)
    return preset.model_copy(update={"retrieval": retrieval, "tree": tree})


def _score(found: Measurements, name: str) -> float:
    """Speed over plain decoding, the geometric mean over documents; 0 where nothing was measured."""
    ratios = decode_ratios(found.records, name).values()
    return exp(fmean(log(ratio) for ratio in ratios)) if ratios else 0.0


STUDY = Study(
    "Which settings suit this pair on this machine and these documents?",
    measure=_measure,
    tables=lambda setting, found: found,
)
