"""The target's own answers: batched generation, so that a head learns the text it will have to draft."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import GenerationConfig, LogitsProcessorList, PreTrainedModel, RepetitionPenaltyLogitsProcessor

from specextend_cli.engine.attention import NAME
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.models.quiet import quiet
from specextend_cli.train.files import add_lines, read_lines
from specextend_cli.train.samples import Sample


@dataclass(frozen=True)
class Asking:
    """How the target is asked. Half of each batch is sampled at `temperature`, for variety; half is greedy."""

    new_tokens: int = 192
    batch: int = 16
    temperature: float = 0.7
    repetition_penalty: float = 1.05
    seed: int = 0


class AnswerFile:
    """Answers on disk, one JSON line each, so that an interrupted run keeps what it has."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> list[Sample]:
        """All whole lines; the torn last line of a killed run is dropped."""
        return [Sample(record["tokens"], record["start"]) for record in read_lines(self.path)]

    def append(self, samples: Sequence[Sample]) -> None:
        """Add and flush."""
        add_lines(self.path, ({"tokens": sample.tokens, "start": sample.start} for sample in samples))


@torch.inference_mode()
def answer(
    lm: LanguageModel, prompts: Sequence[list[int]], asking: Asking, ends: Sequence[int]
) -> Iterator[list[Sample]]:
    """The target's answers to `prompts`, batch by batch; prompts of one length share a batch without padding."""

    def penalty(prompt: int) -> LogitsProcessorList:
        # Over the answer alone: summaries quote their source.
        return LogitsProcessorList(
            [RepetitionPenaltyLogitsProcessor(asking.repetition_penalty, prompt_ignore_length=prompt)]
        )

    by_length = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    model = lm.model
    batches: list[list[int]] = []
    for i in by_length:
        full = not batches or len(batches[-1]) == asking.batch
        if full or len(prompts[batches[-1][-1]]) != len(prompts[i]):
            batches.append([])
        batches[-1].append(i)
    # Lengths in random order: whoever stops early has seen all of them.
    order = torch.randperm(len(batches), generator=torch.Generator().manual_seed(asking.seed)).tolist()
    for number, at in enumerate(order):
        batch = [prompts[i] for i in batches[at]]
        ids = torch.tensor(batch, device=lm.device)
        torch.manual_seed(asking.seed + at)
        with _as_asked(model):
            out = model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                generation_config=_settings(asking, ends, sampled=number % 2 == 1),
                logits_processor=penalty(ids.shape[1]),
            )
        yield [_sample(row, ids.shape[1], ends) for row in out.tolist()]


def _settings(asking: Asking, ends: Sequence[int], *, sampled: bool) -> GenerationConfig:
    # Sampled as the engine samples: from all tokens, where transformers would keep 50.
    chance = {"do_sample": True, "temperature": asking.temperature, "top_k": 0} if sampled else {"do_sample": False}
    return GenerationConfig(
        max_new_tokens=asking.new_tokens,
        eos_token_id=list(ends) or None,
        pad_token_id=ends[0] if ends else 0,
        **chance,
    )


@contextmanager
def _as_asked(model: PreTrainedModel) -> Iterator[None]:
    """The model on a stock attention, without advice, and without the settings that it came with.

    transformers fills what a caller leaves open from those (top_k, min_length, a penalty of its own, ...), even where
    it is given a configuration; the engine knows none of them.
    """
    own = model.generation_config
    model.generation_config = GenerationConfig()
    model.set_attn_implementation("sdpa")
    try:
        with quiet():
            yield
    finally:
        model.generation_config = own
        model.set_attn_implementation(NAME)


def _sample(tokens: list[int], prompt: int, ends: Sequence[int]) -> Sample:
    for end in range(prompt, len(tokens)):
        if tokens[end] in ends:
            tokens = tokens[: end + 1]
            break
    # Row prompt - 2 predicts the answer's first token.
    return Sample(tokens, prompt - 2)
