"""Never slower than plain: documents where drafting does not pay, with the gate and without.

Besides the data set's, two adverse documents a length: tokens drawn at random, and one in a language that no model has
learnt (its letters exchanged, ROT13; there is none where letters are not Latin). What such prompts lead to cannot be
foreseen by a head, and little of it is copied. Plain decoding runs twice, so that the clock's own share of every
difference is known.
"""

from __future__ import annotations

import codecs
import operator
import random
from collections.abc import Iterator
from dataclasses import replace

from specextend_cli.bench.experiments.setting import COLUMNS, Measurements, Run, Setting, figures
from specextend_cli.bench.methods import PLAIN, Recipe
from specextend_cli.bench.rows import decode_ratios
from specextend_cli.bench.tables import Cell, Experiment, Table
from specextend_cli.bench.texts import Source
from specextend_cli.bench.workloads import Prompt, framed
from specextend_cli.summarize.prompt_builder import PromptBuilder

SLOWER = 0.97
"""Times plain decoding; above it, a difference is the clock's."""

RANDOM, FOREIGN = "tokens at random", "a language unknown"


def run(setting: Setting) -> Run:
    """The drafters that the preset can have, gated and not, document by document."""
    methods = {"plain, again": setting.named(PLAIN)[PLAIN]}
    for name, method in setting.named("ngram", "specextend").items():
        assert isinstance(method, Recipe)
        methods[f"{name}, gated"] = replace(method, gate=True)
        methods[f"{name}, every step"] = replace(method, gate=False)
    prompts = sorted([*setting.prompts, *adverse(setting)], key=lambda prompt: prompt.length)
    found = yield from setting.measure(methods, prompts)
    return Experiment(
        "gate",
        "Is drafting ever slower than plain decoding, and does the gate prevent it?",
        (_losses(found), _documents(found)),
    )


def adverse(setting: Setting) -> Iterator[Prompt]:
    """For each length, documents in which there is little to foresee, in the preset's own prompt."""
    models = setting.models
    prompter = PromptBuilder(models.preset, models.encoder, models.directories.target)
    ordinary = sorted({token for prompt in setting.prompts for token in prompt.text})
    for length in setting.lengths:
        draw = random.Random(f"{setting.seed} {length}")
        original = next(prompt for prompt in setting.prompts if prompt.length == length)
        text = models.encoder.decode(original.text)
        foreign = codecs.encode(text, "rot13")
        documents = {RANDOM: draw.choices(ordinary, k=length)}
        if 2 * sum(map(operator.ne, text, foreign)) > len(text):  # of other letters than Latin ones, it is not foreign
            documents[FOREIGN] = models.encoder.encode(foreign)
        for name, tokens in documents.items():
            prompt = framed(Source(name, ""), tokens, prompter, length)
            if prompt is not None:
                yield prompt


def _losses(found: Measurements) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for row in found.rows:
        ratios = sorted(decode_ratios(found.at(row.length), row.method).values())
        slower = sum(ratio < SLOWER for ratio in ratios)
        worst = ratios[0] if ratios else None
        rows.append((row.length, row.method, worst, f"{slower} of {len(ratios)}", *figures(row)))
    return Table(
        "Documents where drafting loses",
        ("prompt (tokens)", "method", "worst document, times plain", "slower documents", *COLUMNS),
        tuple(rows),
        f"Slower: below {SLOWER} times plain decoding on the same document, medians over repeats. Plain, again: how "
        "much the clock alone makes of two runs of the same.",
    )


def _documents(found: Measurements) -> Table:
    """A row a document, a column a method."""
    names = [name for name in dict.fromkeys(row.method for row in found.rows) if name != PLAIN]
    rows: list[tuple[Cell, ...]] = []
    for length in sorted({row.length for row in found.rows}):
        ratios = {name: decode_ratios(found.at(length), name) for name in names}
        documents = dict.fromkeys(record.document for record in found.at(length))
        rows += [(length, title, *(ratios[name].get((title, length)) for name in names)) for title in documents]
    return Table("Decoding, times plain, by document", ("prompt (tokens)", "document", *names), tuple(rows))
