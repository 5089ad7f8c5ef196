"""The experiments that compare methods: by prompt length, by parts of SpecExtend, by what a draft sees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from specextend_cli.bench.experiments.study import Measurements, Setting, Study, by_method
from specextend_cli.bench.models import Method
from specextend_cli.bench.records import PLAIN, Record
from specextend_cli.bench.report import accepted_lengths, decoding_speedup
from specextend_cli.bench.rows import Row
from specextend_cli.bench.statistics import format_interval
from specextend_cli.bench.tables import Cell, Table

_DRAFTS = "The draft of standard and streaming drafts on every step; specextend is behind the gate."

LENGTHS = Study(
    "How do accepted length and speed change with the prompt?",
    measure=lambda setting: setting.measure(setting.named("standard", "streaming", "ngram", "specextend")),
    tables=lambda setting, found: [by_method("By prompt length (Table 2)", found.rows, _DRAFTS)],
    plots=lambda setting, found: (*decoding_speedup(found.rows), *accepted_lengths(found.rows)),
)

# Table 4 of the paper: each part alone, added to standard speculative decoding with masked attention.

PARTS = ("naive", "+flash", "+hta", "+streaming", "+retrieval", "specextend")
_PARTS_NOTE = (
    "naive: the full draft cache, masked attention in prefill and verification; every part is added to it alone. "
    "In all: prefill and decoding; outputs that differ (half precision) are compared as they are."
)


def _total(record: Record) -> float:
    """Prefill counts: one of the parts works there."""
    return record.prefill_seconds + record.decode_seconds


def _parts(setting: Setting, found: Measurements) -> Iterator[Table]:
    def columns(row: Row) -> dict[str, Cell]:
        ratio = found.ratio(row.method, "naive", _total, row.length)
        return {"prefill (s)": row.prefill_seconds, "in all, times naive": format_interval(ratio, "×")}

    yield by_method("Parts (Table 4)", found.rows, _PARTS_NOTE, columns=columns)


ABLATION = Study(
    "What does each part of SpecExtend gain on its own?",
    measure=lambda setting: setting.measure(setting.named(*PARTS)),
    tables=_parts,
    plots=lambda setting, found: decoding_speedup(found.rows),
)

# Draft attention by drafter: everything, the newest tokens, the target's choice of chunks, or of whole sentences.

SENTENCES = "retrieval of sentences"


def _drafters(setting: Setting) -> list[str]:
    """The drafter with attention, and the preset's own."""
    models = setting.models
    return [kind for kind in dict.fromkeys((models.attending, models.draft)) if kind != "ngram"]


def _methods(setting: Setting) -> dict[str, Method]:
    models = setting.models
    seen = {policy: models.under(policy) for policy in ("full", "streaming", "retrieval")}
    seen[SENTENCES] = replace(seen["retrieval"], breaks=models.encoder.sentence_ends)
    drafters = _drafters(setting)
    return {
        "ngram": models.recipe("ngram", seen["full"]),
        **{f"{kind}, {name}": models.recipe(kind, shown) for kind in drafters for name, shown in seen.items()},
    }


def _steps_per_token(record: Record) -> float | None:
    return len(record.accepted) / sum(record.accepted) if record.accepted else None


def _policies(setting: Setting, found: Measurements) -> Iterator[Table]:
    yield by_method("Drafters and what they see", found.rows, "On every step, in the preset's tree.", what="draft")
    drafters = _drafters(setting)
    pairs = [
        (f"{kind}, retrieval", other)
        for kind in drafters
        for other in (
            *(f"{kind}, {name}" for name in ("full", "streaming", SENTENCES)),
            "ngram",
            *(f"{other}, retrieval" for other in drafters if other != kind),
        )
    ]
    yield Table(
        "Accepted lengths side by side",
        ("prompt (tokens)", "draft", "over", "ratio"),
        tuple(
            (length, ours, theirs, format_interval(found.ratio(ours, theirs, _steps_per_token, length), "×"))
            for length in setting.lengths
            for ours, theirs in pairs
        ),
        "Medians of documents' own ratios.",
    )
    if len(setting.lengths) > 1:
        shortest = {row.method: row.accepted for row in found.rows if row.length == setting.lengths[0]}
        yield Table(
            "What is left as texts grow",
            ("prompt (tokens)", "draft", "accepted length, over that at the shortest"),
            tuple(
                (row.length, row.method, row.accepted.value / before.value)
                for row in found.rows
                if row.method != PLAIN and row.accepted and (before := shortest.get(row.method))
            ),
        )


POLICIES = Study(
    "What does a draft gain from what it sees, and does that hold as texts grow?",
    measure=lambda setting: setting.measure(_methods(setting)),
    tables=_policies,
)
