"""The model card of a trained head: its purpose, its training data, its measured quality."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specextend_cli.train.config import Distillation
from specextend_cli.train.storage import read_lines, replace_whole


@dataclass(frozen=True)
class Facts:
    """Facts from the caller: the target's name and licence, the corpus's name and licences, the machine."""

    target: str
    target_licence: str
    corpus: str
    corpus_licences: str
    machine: str


@dataclass(frozen=True)
class Figures:
    """Figures of the run: the head's architecture, the size of the draft's vocabulary and its share of the tokens in
    the held-out answers, and the number of answers and of document tokens trained on."""

    architecture: str
    vocabulary: int
    coverage: float
    answers: int
    corpus_tokens: int


def write_card(directory: Path, facts: Facts, plan: Distillation, figures: Figures, curve: Path) -> None:
    """README.md in `directory`, with the curve of validations in `curve` (JSON lines), which may be empty."""
    points = read_lines(curve)
    best = next((point for point in reversed(points) if point["best"]), None)
    took = f"**Steps** {best['step']:,}, {best['seconds'] / 60:.0f} minutes of training" if best else "**Training**"
    rows = plan.schedule.batch * plan.schedule.rows
    begun = f"begun from the head in {plan.init.name}; " if plan.init else ""
    is_block = plan.architecture == "dflash"
    layout = "in speculators' layout for DFlash" if is_block else "in the published EAGLE-3 layout"
    drafted = "blocks of" if is_block else "unroll"
    text = f"""---
library_name: transformers
base_model: {facts.target}
tags: [speculative-decoding, {plan.architecture}]
---
# {figures.architecture} draft head for {facts.target}

Proposes tokens that {facts.target} verifies; it cannot change what the target writes. Made by `specextend train-draft`,
{layout}. The embedding is the target's and is not in the file. `ngrams.npz` counts what followed
up to three tokens in the same answers.

- **Trained on** {figures.answers:,} of the target's own answers about excerpts of {min(plan.lengths):,} to
  {max(plan.lengths):,} tokens, on passages quoted from excerpts ({100 * plan.quotes:.0f}% of the steps), and on plain
  text of the same documents ({figures.corpus_tokens:,} tokens): {facts.corpus}.
- **Licences**: target {facts.target_licence}; documents {facts.corpus_licences}.
- {took} on {facts.machine};
  {begun}{drafted} {plan.schedule.unroll}, rate {plan.schedule.rate:g}, at most {rows:,} rows of loss a step.
- **Vocabulary** {figures.vocabulary:,} tokens, {100 * figures.coverage:.1f}% of what the target writes in held-out
  answers.
"""
    if best:
        text += _measured(points, best, is_block=is_block)
    replace_whole(directory / "README.md", text)


def _measured(points: list[dict[str, Any]], best: dict[str, Any], *, is_block: bool) -> str:
    """The best measurement, and all of them."""
    why = "it is teacher-forced: every depth\nis fed the text's own tokens, not the head's drafts"
    if is_block:
        why = "the target's choices are those\nafter the answer's own tokens, some of which were sampled"
    depth = "".join(f" {share:.2f} |" for share in best["agreement"])
    heads = "".join(f" {k} |" for k in range(1, len(best["agreement"]) + 1))
    rows = "\n".join(
        f"| {point['step']} | {point['seconds'] / 60:.1f} | {point['accepted']:.3f} | {_quoted(point)} |"
        for point in points
    )
    quoted = f", in quotations **{_quoted(best)}**" if best["quoted"] else ""
    return f"""
On held-out answers, a chain of {len(best["agreement"])} drafts has an estimated accepted length of
**{best["accepted"]:.2f}**{quoted}, bonus included. It is an estimate because {why}. `specextend bench` measures
what a run accepts.
Agreement with the target's likeliest token by depth:

| depth |{heads}
|---|{"---|" * len(best["agreement"])}
| agreement |{depth}

## Validation

| step | minutes | estimated accepted length | in quotations |
|---|---|---|---|
{rows}
"""


def _quoted(point: dict[str, Any]) -> str:
    return f"{point['quoted']:.2f}" if point["quoted"] else "–"
