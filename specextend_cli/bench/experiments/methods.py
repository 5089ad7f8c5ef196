"""The experiments that compare methods: by prompt length, by parts of SpecExtend, by what a draft sees."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from typing import get_args

from specextend_cli.bench.events import Running
from specextend_cli.bench.records import PLAIN, Record
from specextend_cli.bench.report import accepted_lengths, decoding_speedup
from specextend_cli.bench.rows import Row
from specextend_cli.bench.setting import Setting
from specextend_cli.bench.statistics import format_interval
from specextend_cli.bench.tables import Cell, Experiment, Table
from specextend_cli.engine.config import Policy


def lengths(setting: Setting) -> Generator[Running, None, Experiment]:
    """Table 2 of the paper."""
    found = yield from setting.measure(setting.named("standard", "streaming", "ngram", "specextend"))
    note = "The draft of standard and streaming drafts on every step; specextend is behind the gate."
    return Experiment(
        "lengths",
        "How do accepted length and speed change with the prompt?",
        (_by_method("By prompt length (Table 2)", found.rows, note),),
        (*decoding_speedup(found.rows), *accepted_lengths(found.rows)),
    )


def ablation(setting: Setting) -> Generator[Running, None, Experiment]:
    """Table 4 of the paper: each part alone, added to standard speculative decoding with masked attention."""
    parts = setting.named("naive", "+flash", "+hta", "+streaming", "+retrieval", "specextend")
    found = yield from setting.measure(parts)

    def total(record: Record) -> float:  # prefill counts: one of the parts works there
        return record.prefill_seconds + record.decode_seconds

    def columns(row: Row) -> dict[str, Cell]:
        ratio = found.ratio(row.method, "naive", total, row.length)
        return {"prefill (s)": row.prefill_seconds, "in all, times naive": format_interval(ratio, "×")}

    note = (
        "naive: the full draft cache, masked attention in prefill and verification; every part is added to it alone. "
        "In all: prefill and decoding; outputs that differ (half precision) are compared as they are."
    )
    return Experiment(
        "ablation",
        "What does each part of SpecExtend gain on its own?",
        (_by_method("Parts (Table 4)", found.rows, note, columns=columns),),
        tuple(decoding_speedup(found.rows)),
    )


SENTENCES = "retrieval of sentences"


def policies(setting: Setting) -> Generator[Running, None, Experiment]:
    """Draft attention by drafter: everything, the newest tokens, the target's choice of chunks, or of whole sentences.

    Drafters are that with attention, and the preset's own.
    """
    models = setting.models
    drafters = [kind for kind in dict.fromkeys((models.attending, models.draft)) if kind != "ngram"]
    seen = {policy: models.under(policy) for policy in get_args(Policy)}
    seen[SENTENCES] = replace(seen["retrieval"], breaks=models.encoder.sentence_ends)
    methods = {"ngram": models.recipe("ngram", seen["full"])}
    methods |= {f"{kind}, {name}": models.recipe(kind, shown) for kind in drafters for name, shown in seen.items()}
    found = yield from setting.measure(methods)
    tables = [
        _by_method("Drafters and what they see", found.rows, "On every step, in the preset's tree.", what="draft")
    ]
    pairs = [
        (f"{kind}, retrieval", other)
        for kind in drafters
        for other in (
            *(f"{kind}, {name}" for name in ("full", "streaming", SENTENCES)),
            "ngram",
            *(f"{other}, retrieval" for other in drafters if other != kind),
        )
    ]
    tables.append(
        Table(
            "Accepted lengths side by side",
            ("prompt (tokens)", "draft", "over", "ratio"),
            tuple(
                (length, ours, theirs, format_interval(found.ratio(ours, theirs, _steps_per_token, length), "×"))
                for length in setting.lengths
                for ours, theirs in pairs
            ),
            "Medians of documents' own ratios.",
        )
    )
    if len(setting.lengths) > 1:
        shortest = {row.method: row.accepted for row in found.rows if row.length == setting.lengths[0]}
        tables.append(
            Table(
                "What is left as texts grow",
                ("prompt (tokens)", "draft", "accepted length, over that at the shortest"),
                tuple(
                    (row.length, row.method, row.accepted.value / before.value)
                    for row in found.rows
                    if row.method != PLAIN and row.accepted and (before := shortest.get(row.method))
                ),
            )
        )
    question = "What does a draft gain from what it sees, and does that hold as texts grow?"
    return Experiment("policies", question, tuple(tables))


def _steps_per_token(record: Record) -> float | None:
    return len(record.accepted) / sum(record.accepted) if record.accepted else None


def _by_method(
    title: str,
    rows: Iterable[Row],
    note: str,
    what: str = "method",
    columns: Callable[[Row], dict[str, Cell]] = lambda row: {},
) -> Table:
    """A row a method and length, with further `columns`; `what` is the header of the methods."""
    cells = (
        {
            "prompt (tokens)": row.length,
            what: row.method,
            **columns(row),
            "accepted length": format_interval(row.accepted),
            "tokens/s": row.tokens_per_second,
            "decoding, times plain": format_interval(row.decode_speedup, "×"),
            "nodes": row.nodes,
            "attention seen": row.hit,
        }
        for row in rows
    )
    return Table.of(title, cells, note)
