"""Which layer's attention finds a sentence hidden in a long text, by the working set that it would choose.

The paper averages the heads of the last layer. Which layers attend to what comes next differs by model, so a preset
names those of its target; this experiment finds them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from statistics import fmean
from typing import TypeAlias

import torch
from torch import Tensor

from specextend_cli.bench.events import Running, Working
from specextend_cli.bench.experiments.needle import Needle, needles
from specextend_cli.bench.experiments.study import Setting, Study
from specextend_cli.bench.prefilled import read
from specextend_cli.bench.tables import HeatMap, Table
from specextend_cli.engine.retrieval import Chunks, working_set
from specextend_cli.engine.target import Target
from specextend_cli.engine.tree import root

_Found: TypeAlias = dict[tuple[int, str], list[bool]]
"""Whether the whole number was in the working set, by prompt length and layers."""


def _measure(setting: Setting) -> Generator[Running, None, _Found]:
    """Every document at every depth: after the prompt and after each of the answer's tokens."""
    models = setting.models
    retrieval, layers = models.under("retrieval"), models.lm.layers
    own = [layer % layers for layer in models.retrieval.layers]
    choices = {str(layer): [layer] for layer in range(layers)}
    choices |= {"all": list(range(layers)), f"the preset's: {', '.join(map(str, own))}": own}
    found: _Found = {}
    for target, depth, needle in needles(setting, range(layers)):
        length = len(needle.prompt)
        yield Working(f"{length:,} tokens, {depth:.0%} deep")
        chunks = Chunks(retrieval)
        chunks.add((*needle.prompt, *needle.answer))
        hidden = torch.tensor(needle.hidden, device=models.device)
        for attention in _attention(target, needle, setting.decoding.prefill_chunk):
            starts = chunks.starts(target.length)
            for name, asked in choices.items():
                seen = working_set(retrieval, target.length, attention[asked].mean(0), models.device, starts)
                found.setdefault((length, name), []).append(bool(torch.isin(hidden, seen).all()))
    return found


@torch.inference_mode()
def _attention(target: Target, needle: Needle, prefill_chunk: int) -> Iterator[Tensor]:
    """[layers, length]: every layer's attention after the prompt, and after each token of the answer but the last."""

    def rows(node: int) -> Tensor:
        return torch.stack([target.attention_in(layer, [node])[0] for layer in range(target.lm.layers)])

    read(target, needle.prompt, prefill_chunk, room=len(needle.answer) + 1)
    yield rows(-1)
    for token in needle.answer[:-1]:
        target.verify(root(token), record=True)
        target.keep([0])
        yield rows(0)


def _tables(setting: Setting, found: _Found) -> Iterator[Table]:
    yield Table(
        "The hidden number in the working set",
        ("prompt (tokens)", "layers that score", "found", "choices"),
        tuple((length, name, fmean(shown), len(shown)) for (length, name), shown in found.items()),
        "Found: all of the number is among what this layer alone, or the mean of several, would show a draft, after "
        "the prompt and after each token of the answer. A prompt no longer than the working set of "
        f"{setting.models.retrieval.size:,} tokens hides nothing.",
    )


def _plots(setting: Setting, found: _Found) -> Iterator[HeatMap]:
    values = {
        name: {f"{length:,}": fmean(found[length, name]) for length in setting.lengths}
        for name in dict.fromkeys(name for _, name in found)
    }
    yield HeatMap("Found, by layer", "prompt (tokens)", "layer", values)


STUDY = Study(
    "Whose attention finds a sentence hidden in the document?", measure=_measure, tables=_tables, plots=_plots
)
