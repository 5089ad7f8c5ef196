"""Whose attention finds a sentence hidden in a long text? Layer by layer, by the working set that each would choose.

The paper averages the heads of the last layer. Which layers look for what comes next is a matter of the model, and a
draft that reads well is no better than what it is shown: so a preset should name those of its target.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import fmean

import torch
from torch import Tensor

from specextend_cli.bench.events import Reading
from specextend_cli.bench.experiments.needle import DEPTHS, Needle, hide
from specextend_cli.bench.experiments.setting import Run, Setting
from specextend_cli.bench.methods import with_policy
from specextend_cli.bench.prefilled import Prefilled
from specextend_cli.bench.tables import Experiment, HeatMap, Table
from specextend_cli.engine.retrieval import Chunks, working_set
from specextend_cli.engine.target import Target
from specextend_cli.engine.tree import root


def run(setting: Setting) -> Run:
    """Every document at every depth, read once: after the prompt and after each of the answer's tokens."""
    models = setting.models
    retrieval, layers = with_policy(models, "retrieval"), models.lm.layers
    own = [layer % layers for layer in models.retrieval.layers]
    choices = {str(layer): [layer] for layer in range(layers)}
    choices |= {"all": list(range(layers)), f"the preset's: {', '.join(map(str, own))}": own}
    found: dict[tuple[int, str], list[bool]] = {}
    for prompt in setting.prompts:
        with models.fitted(prompt.length + 32):
            target = Prefilled(models.lm, score_layers=range(layers))
            for depth in DEPTHS:
                needle = hide(setting, prompt, depth)
                yield Reading(prompt.document, prompt.length, 0)
                chunks = Chunks(retrieval)
                chunks.add((*needle.prompt, *needle.answer))
                for looks in _looks(target, needle, setting.decoding.prefill_chunk):
                    starts = chunks.starts(target.length, looks.device)
                    for name, asked in choices.items():
                        seen = working_set(retrieval, target.length, looks[asked].mean(0), looks.device, starts)
                        shown = bool(torch.isin(torch.tensor(needle.hidden, device=seen.device), seen).all())
                        found.setdefault((prompt.length, name), []).append(shown)
    rows = tuple((length, name, fmean(shown), len(shown)) for (length, name), shown in found.items())
    table = Table(
        "The hidden number in the working set",
        ("prompt (tokens)", "layers that score", "found", "choices"),
        rows,
        "Found: all of the number is among what this layer alone, or the mean of several, would show a draft, after "
        "the prompt and after each token of the answer. A prompt no longer than the working set of "
        f"{retrieval.size:,} tokens hides nothing.",
    )
    return Experiment("recall", "Whose attention finds a sentence hidden in the document?", (table,), (_map(rows),))


@torch.inference_mode()
def _looks(target: Target, needle: Needle, prefill_chunk: int) -> Iterator[Tensor]:
    """[layers, length]: where every layer looked after the prompt, and after each token of the answer but the last."""
    device = target.lm.device
    target.begin(len(needle.prompt) + len(needle.answer) + 1)
    for at in range(0, len(needle.prompt), prefill_chunk):
        target.prefill(torch.tensor(needle.prompt[at : at + prefill_chunk], device=device))
    yield _rows(target, -1)
    for token, _ in pairwise(needle.answer):
        target.verify(root(token, device), record=True)
        target.keep([0])
        yield _rows(target, 0)


def _rows(target: Target, node: int) -> Tensor:
    return torch.stack([target.attention_in(layer, [node])[0] for layer in range(target.lm.layers)])


def _map(rows: Sequence[tuple[int, str, float, int]]) -> HeatMap:
    lengths, names = sorted({row[0] for row in rows}), list(dict.fromkeys(row[1] for row in rows))
    shares = {(length, name): found for length, name, found, _ in rows}
    return HeatMap(
        "Found, by layer",
        "prompt (tokens)",
        "layer",
        tuple(f"{length:,}" for length in lengths),
        tuple(names),
        tuple(tuple(shares[length, name] for length in lengths) for name in names),
        low=0.0,
        high=1.0,
        percent=True,
    )
