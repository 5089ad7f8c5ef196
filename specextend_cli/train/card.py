"""The model card beside a trained head: what it is for, what it learnt from, how well it drafts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specextend_cli.train.distill import Distillation


@dataclass(frozen=True)
class Facts:
    """What only the caller knows: the target's name and licence, the corpus's name and licences, the machine."""

    target: str
    target_licence: str
    corpus: str
    corpus_licences: str
    machine: str


def write_card(
    directory: Path, facts: Facts, plan: Distillation, curve: Path, coverage: float, answers: int, corpus_tokens: int
) -> None:
    """README.md in `directory`, with the curve of validations in `curve` (JSON lines)."""
    points = [json.loads(line) for line in curve.read_text(encoding="utf-8").splitlines()]
    best = max(points, key=lambda point: float(point["accepted"]))
    depth = "".join(f" {share:.2f} |" for share in best["agreement"])
    heads = "".join(f" {k} |" for k in range(1, len(best["agreement"]) + 1))
    rows = "\n".join(f"| {p['step']} | {p['seconds'] / 60:.1f} | {p['accepted']:.3f} |" for p in points)
    text = f"""---
library_name: transformers
base_model: {facts.target}
tags: [speculative-decoding, eagle3]
---
# EAGLE-3 draft head for {facts.target}

Proposes tokens that {facts.target} verifies; it cannot change what the target writes. Made by `specextend train-draft`,
in the published EAGLE-3 layout. The embedding is the target's and is not in the file.

- **Trained on** {answers:,} of the target's own answers about excerpts of {min(plan.lengths):,} to
  {max(plan.lengths):,} tokens, and on plain text of the same documents ({corpus_tokens:,} tokens): {facts.corpus}.
- **Licences**: target {facts.target_licence}; documents {facts.corpus_licences}.
- **Steps** {best["step"]:,}, {best["seconds"] / 60:.0f} minutes of training on {facts.machine};
  unroll {plan.schedule.unroll}, rate {plan.schedule.rate:g}, {plan.schedule.batch} samples a step.
- **Vocabulary** {plan.vocabulary:,} tokens, {100 * coverage:.1f}% of what the target writes in held-out answers.

On held-out answers, a chain of {plan.schedule.unroll} drafts has an accepted length of
**{best["accepted"]:.2f}**, bonus included. Agreement with the target's likeliest token by depth:

| depth |{heads}
|---|{"---|" * len(best["agreement"])}
| agreement |{depth}

## Validation

| step | minutes | accepted length |
|---|---|---|
{rows}
"""
    (directory / "README.md").write_text(text, encoding="utf-8")
