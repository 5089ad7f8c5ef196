"""What the target has to say about a sample: its states, which the head reads, and its choices, which it learns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from specextend_cli.engine.config import Sampling
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.sampling import Sampler
from specextend_cli.engine.tree import from_lists
from specextend_cli.train.hidden_states import StateFile
from specextend_cli.train.samples import Sample
from specextend_cli.train.unroll import unroll


def states_of(lm: LanguageModel, head: EagleHead, sample: Sample, file: StateFile | None) -> Tensor:
    """The target's states at all of the sample's tokens, read from `file` or kept there."""
    if file is not None:
        found = file.find(sample.tokens)
        spans = sample.states or ((found,) if found else ())
        if spans and file.holds(spans):
            return file.read(spans)[: len(sample.tokens)].to(lm.device)
    states = read_states(lm, torch.tensor(sample.tokens, device=lm.device), head.config.feature_layers)
    if file is not None and not sample.states:
        file.keep(sample.tokens, states)
    return states


def precision(lm: LanguageModel) -> torch.autocast:
    """The head learns in the target's number format, where that is a half."""
    return torch.autocast(lm.device.type, dtype=torch.bfloat16, enabled=lm.dtype == torch.bfloat16)


def unrolled(lm: LanguageModel, head: EagleHead, sample: Sample, states: Tensor, steps: int) -> list[Tensor]:
    """What the output head reads in every step (see `unroll`)."""
    tokens = torch.tensor(sample.tokens, device=lm.device)
    features = states[: len(tokens), : -lm.config.hidden_size].to(head.fc.weight.dtype)
    with precision(lm):
        return unroll(head, tokens, features, sample.start, steps)


@torch.no_grad()
def targets_of(lm: LanguageModel, sample: Sample, states: Tensor, sampling: Sampling | None) -> Tensor:
    """The target's logits [rows, vocabulary] at the rows of step 0, penalties applied."""
    read = states[sample.start + 1 : len(sample.tokens), -lm.config.hidden_size :]
    targets: Tensor = lm.model.get_output_embeddings()(read)
    if sampling is not None and sample.output is not None:
        targets = bound(targets, sample, sampling)
    return targets


def bound(logits: Tensor, sample: Sample, sampling: Sampling) -> Tensor:
    """Logits as penalties leave them, each behind its own part of the answer: the rows are a chain of a draft tree."""
    assert sample.output is not None
    tokens, behind = sample.tokens, sample.start + 2
    sampler = Sampler(replace(sampling, temperature=0.0), tokens[: sample.output], logits.device)
    sampler.commit(tokens[sample.output : behind])
    chain = tokens[behind - 1 :]
    parents = [0, *range(len(chain) - 1)]
    return sampler.ranking(logits, from_lists(chain, parents, [1.0] * len(chain), logits.device))


def state_layers(feature_layers: Sequence[int], lm: LanguageModel) -> tuple[int, ...]:
    """The states that training reads: those that the head fuses, and the last one, which the output head reads."""
    return (*feature_layers, lm.layers)


def read_states(lm: LanguageModel, tokens: Tensor, feature_layers: Sequence[int]) -> Tensor:
    """The target's states [n, widths of `state_layers`] at tokens [n], fit for training what reads them."""
    positions = torch.arange(len(tokens), device=lm.device)
    layers = state_layers(feature_layers, lm)
    out = lm.forward(tokens, positions, lm.new_cache(len(tokens)), logits_to_keep=1, features=layers)
    assert out.features is not None
    return out.features.clone()  # tensors made in inference mode cannot take part in a backward pass; copies can
