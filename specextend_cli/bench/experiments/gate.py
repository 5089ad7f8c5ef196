"""Whether drafting is ever slower than plain decoding, gated and not, on ordinary and on adverse documents.

Two adverse documents a length are added: tokens drawn at random, and ROT13 of a document (left out if most letters are
not Latin), which no head predicts and of which little is copied. Plain decoding runs twice, to show the clock's noise.
"""

from __future__ import annotations

import codecs
import operator
import random
from collections.abc import Generator, Iterator
from dataclasses import replace

from specextend_cli.bench.events import Running
from specextend_cli.bench.experiments.study import Measurements, Setting, Study, by_method
from specextend_cli.bench.models import Recipe
from specextend_cli.bench.overview import Columns
from specextend_cli.bench.records import PLAIN
from specextend_cli.bench.rows import Row, decode_ratios
from specextend_cli.bench.tables import Table
from specextend_cli.bench.texts import Source
from specextend_cli.bench.workloads import Prompt, framed

SLOWER = 0.97  # times plain decoding; above it, a difference is the clock's

RANDOM, FOREIGN = "tokens at random", "a language unknown"


def _measure(setting: Setting) -> Generator[Running, None, Measurements]:
    methods = {"plain, again": setting.named(PLAIN)[PLAIN]}
    for name, method in setting.named("ngram", "specextend").items():
        assert isinstance(method, Recipe)
        methods |= {f"{name}, gated": replace(method, gate=True), f"{name}, every step": replace(method, gate=False)}
    prompts = sorted([*setting.prompts, *adverse(setting)], key=lambda prompt: prompt.length)
    return (yield from setting.measure(methods, prompts))


def adverse(setting: Setting) -> Iterator[Prompt]:
    """The adverse documents of each length, in the preset's own prompt."""
    models = setting.models
    ordinary = sorted({token for prompt in setting.prompts for token in prompt.text})
    for length in setting.lengths:
        documents = {RANDOM: random.Random(f"{setting.seed} {length}").choices(ordinary, k=length)}
        text = models.encoder.decode(next(prompt.text for prompt in setting.prompts if prompt.length == length))
        foreign = codecs.encode(text, "rot13")
        if 2 * sum(map(operator.ne, text, foreign)) > len(text):
            documents[FOREIGN] = models.encoder.encode(foreign)
        for name, tokens in documents.items():
            if (prompt := framed(Source(name, ""), tokens, models.prompter, length)) is not None:
                yield prompt


def _tables(setting: Setting, found: Measurements) -> Iterator[Table]:
    ratios = {name: decode_ratios(found.records, name) for name in dict.fromkeys(row.method for row in found.rows)}

    def of(row: Row) -> list[float]:
        return [ratio for (_, length), ratio in ratios[row.method].items() if length == row.length]

    columns: Columns = {
        "worst document, times plain": lambda row: min(of(row), default=None),
        "slower documents": lambda row: f"{sum(ratio < SLOWER for ratio in of(row))} of {len(of(row))}",
    }
    note = (
        f"Slower: below {SLOWER} times plain decoding on the same document, medians over repeats. Plain, again: how "
        "much the clock alone makes of two runs of the same."
    )
    yield by_method("Documents where drafting loses", found.rows, note, columns=columns)
    others = {name: own for name, own in ratios.items() if name != PLAIN}
    yield Table(
        "Decoding, times plain, by document",
        ("prompt (tokens)", "document", *others),
        tuple(
            (length, document, *(own.get((document, length)) for own in others.values()))
            for length in setting.lengths
            for document in dict.fromkeys(record.document for record in found.at(length))
        ),
    )


STUDY = Study(
    "Is drafting ever slower than plain decoding, and does the gate prevent it?", measure=_measure, tables=_tables
)
