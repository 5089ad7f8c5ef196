"""What drafters see, alone and joined: everything, the newest tokens, what the target looks at, or its sentences."""

from __future__ import annotations

from dataclasses import replace

from specextend_cli.bench.experiments.setting import Measurements, Run, Setting, by_method
from specextend_cli.bench.methods import Recipe, with_policy
from specextend_cli.bench.records import Record
from specextend_cli.bench.report import format_interval
from specextend_cli.bench.rows import BASELINE
from specextend_cli.bench.statistics import accepted_length, bootstrap_interval, paired_ratios
from specextend_cli.bench.tables import Experiment, Table
from specextend_cli.engine.config import Retrieval
from specextend_cli.engine.target import Target

_SENTENCES = "retrieval of sentences"


def run(setting: Setting) -> Run:
    """The drafter with attention and the preset's own, where that is another, on every step; copies beside them."""
    models = setting.models
    seen = {policy: with_policy(models, policy) for policy in ("full", "streaming", "retrieval")}
    seen[_SENTENCES] = replace(seen["retrieval"], breaks=models.encoder.sentence_ends)
    methods = {"ngram": _every_step(setting, "ngram", seen["full"])}
    drafters = tuple(kind for kind in dict.fromkeys((models.attending, models.draft)) if kind != "ngram")
    for kind in drafters:
        methods |= {f"{kind}, {name}": _every_step(setting, kind, retrieval) for name, retrieval in seen.items()}
    found = yield from setting.measure(methods)
    return Experiment(
        "policies",
        "What does a draft gain from what it sees, and does that hold as texts grow?",
        (
            by_method("Drafters and what they see", "draft", found.rows, "On every step, in the preset's tree."),
            _gains(setting, drafters, found),
            *((_kept(setting, found),) if len(setting.lengths) > 1 else ()),
        ),
    )


def _every_step(setting: Setting, kind: str, retrieval: Retrieval) -> Recipe:
    models = setting.models
    models.drafter(kind, Target(models.lm), retrieval)  # what is missing is said now, not in the middle of a run
    return Recipe(lambda target: models.drafter(kind, target, retrieval), retrieval, models.shape)


def _gains(setting: Setting, drafters: tuple[str, ...], found: Measurements) -> Table:
    """Accepted length with retrieval over that with another policy, and over that of copies and of the others."""
    rows = []
    for length in setting.lengths:
        for kind in drafters:
            ours = f"{kind}, retrieval"
            others = (*(f"{kind}, {name}" for name in ("full", "streaming", _SENTENCES)), "ngram")
            for theirs in (*others, *(f"{other}, retrieval" for other in drafters if other != kind)):
                ratios = paired_ratios(found.at(length), ours, theirs, _steps_per_token)
                interval = bootstrap_interval(list(ratios.values()), seed=setting.seed) if ratios else None
                rows.append((length, ours, theirs, format_interval(interval, "×")))
    return Table(
        "Accepted lengths side by side",
        ("prompt (tokens)", "draft", "over", "ratio"),
        tuple(rows),
        "Medians of documents' own ratios.",
    )


def _steps_per_token(record: Record) -> float | None:
    accepted = accepted_length([record])
    return 1 / accepted if accepted else None


def _kept(setting: Setting, found: Measurements) -> Table:
    """Accepted length over that behind the shortest prompts."""
    first = {row.method: row.accepted for row in found.rows if row.length == setting.lengths[0]}
    rows = []
    for row in found.rows:
        before = first.get(row.method)
        if row.method != BASELINE and row.accepted and before:
            rows.append((row.length, row.method, row.accepted.value / before.value))
    return Table(
        "What is left as texts grow",
        ("prompt (tokens)", "draft", "accepted length, over that at the shortest"),
        tuple(rows),
    )
