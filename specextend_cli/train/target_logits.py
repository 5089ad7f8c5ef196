"""The target's hidden states at a sample, which the head reads, and its logits there, which the head learns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from specextend_cli.engine.config import Sampling
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.sampling import Sampler
from specextend_cli.engine.tree import DraftTree
from specextend_cli.train.samples import Sample
from specextend_cli.train.storage import StateFiles
from specextend_cli.train.unroll import Rows, join, padded, unroll


@dataclass(frozen=True)
class TargetReader:
    """Reads the target `lm` for a head that fuses `feature_layers`.

    In answers, the penalties of `sampling` apply to the logits. Hidden states are read from `files` where they are
    there; else they are computed, and kept.
    """

    lm: LanguageModel
    feature_layers: tuple[int, ...]
    files: StateFiles | None = None
    sampling: Sampling | None = None

    def states(self, sample: Sample) -> Tensor:
        """The states [n, widths of `state_layers`] at all of the sample's tokens."""
        found = None if self.files is None else self.files.find(sample)
        if found is not None:
            return found.to(self.lm.device)
        states = read_states(self.lm, torch.tensor(sample.tokens, device=self.lm.device), self.feature_layers)
        if self.files is not None:
            self.files.keep_all(sample, states)
        return states

    @torch.no_grad()
    def logits(self, samples: Sequence[Sample], states: Sequence[Tensor]) -> Tensor:
        """The target's logits [rows of loss, vocabulary] of samples behind one prompt, after penalties."""
        # The state at the next position predicts what the head predicts at this one.
        read = [some[sample.start + 1 : len(sample.tokens)] for sample, some in zip(samples, states, strict=True)]
        lengths = list(map(len, read))
        logits: Tensor = self.lm.model.get_output_embeddings()(
            padded(torch.cat(read)[:, -self.lm.config.hidden_size :])
        )
        if self.sampling is not None:
            for sample, some in zip(samples, logits[: sum(lengths)].split(lengths), strict=True):
                if sample.output is not None:
                    some.copy_(penalized(some, sample, self.sampling))
        return logits

    def rows(self, samples: Sequence[Sample], states: Sequence[Tensor], dtype: torch.dtype) -> Rows:
        """The rows of samples behind one prompt, with the states that a head fuses, as numbers of `dtype`."""
        texts = [torch.tensor(sample.tokens, device=self.lm.device) for sample in samples]
        width = self.lm.config.hidden_size
        features = [some[: len(text), :-width].to(dtype) for some, text in zip(states, texts, strict=True)]
        return join(texts, features, samples[0].start)

    def unroll(
        self, head: EagleHead, samples: Sequence[Sample], states: Sequence[Tensor], steps: int
    ) -> tuple[Rows, list[Tensor]]:
        """The rows of samples behind one prompt, and the inputs of the head's output layer in every step."""
        rows = self.rows(samples, states, head.fc.weight.dtype)
        with self.precision:
            return rows, unroll(head, rows, steps)

    @property
    def precision(self) -> torch.autocast:
        """A context in which the head computes in bfloat16 where the target does."""
        return torch.autocast(self.lm.device.type, dtype=torch.bfloat16, enabled=self.lm.dtype == torch.bfloat16)


def penalized(logits: Tensor, sample: Sample, sampling: Sampling) -> Tensor:
    """Logits after penalties, each row with the answer up to it as context: the rows are a chain of a draft tree."""
    assert sample.output is not None
    tokens, behind = sample.tokens, sample.start + 2
    sampler = Sampler(replace(sampling, temperature=0.0), tokens[: sample.output], logits.device)
    sampler.commit(tokens[sample.output : behind])
    chain = tokens[behind - 1 :]
    parents = [0, *range(len(chain) - 1)]
    return sampler.ranking(logits, DraftTree(chain, parents, [1.0] * len(chain)))


def state_layers(feature_layers: Sequence[int], lm: LanguageModel) -> tuple[int, ...]:
    """The layers whose states training needs: those that the head fuses, and the last, for the target's logits."""
    return (*feature_layers, lm.layers)


def read_states(lm: LanguageModel, tokens: Tensor, feature_layers: Sequence[int]) -> Tensor:
    """The target's states [n, widths of `state_layers`] at tokens [n]."""
    positions = torch.arange(len(tokens), device=lm.device)
    layers = state_layers(feature_layers, lm)
    out = lm.forward(tokens, positions, lm.new_cache(len(tokens)), logits_to_keep=1, features=layers)
    assert out.features is not None
    return out.features.clone()  # inference tensors cannot take part in a backward pass; copies can
