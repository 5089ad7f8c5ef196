"""transformers' `generate` over the same weights: plain, assisted, or with prompt lookup; sdpa attention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessorList
from transformers.generation.streamers import BaseStreamer
from transformers.utils import logging as transformers_logging

from specextend_cli.bench.external.sampling import OurChoice, is_plain_greedy
from specextend_cli.bench.measure import Decoding
from specextend_cli.bench.records import Run
from specextend_cli.engine.attention import NAME
from specextend_cli.engine.four_bit import full_weights
from specextend_cli.errors import ModelError

if TYPE_CHECKING:
    from specextend_cli.bench.models import Models
    from specextend_cli.engine.lm import LanguageModel

_LOOKUP = 10  # tokens that prompt lookup copies at most, as transformers' documentation has it


class Transformers:
    """`assistance`: "" for none, "model" for the preset's draft model, "prompt-lookup". UsageError without a draft."""

    def __init__(self, models: Models, assistance: str = "") -> None:
        self.lm = models.lm
        self.assistant: LanguageModel | None = models.draft_lm if assistance == "model" else None
        self.lookup = assistance == "prompt-lookup"

    def run(self, prompt: Sequence[int], decoding: Decoding) -> Run:
        """See `External`. ModelError if transformers refuses."""
        ids = torch.tensor([list(prompt)], device=self.lm.device)
        ends = sorted(decoding.eos) or [-1]  # None would mean those of the model
        settings = GenerationConfig(
            max_new_tokens=decoding.tokens,
            do_sample=False,
            repetition_penalty=1.0,
            no_repeat_ngram_size=0,
            eos_token_id=ends,
            pad_token_id=max(ends[0], 0),
            prompt_lookup_num_tokens=_LOOKUP if self.lookup else None,
        )
        processors = LogitsProcessorList()
        if not is_plain_greedy(decoding.sampling):
            processors.append(OurChoice(decoding.sampling, prompt))
        clock = _Clock()
        arguments: dict[str, Any] = {} if self.assistant is None else {"assistant_model": self.assistant.model}
        with torch.inference_mode(), _quiet(), self._unmodified():
            try:
                clock.start()
                self.lm.model.generate(
                    ids,
                    attention_mask=torch.ones_like(ids),
                    generation_config=settings,
                    logits_processor=processors,
                    streamer=clock,
                    **arguments,
                )
            except (ValueError, RuntimeError, TypeError, AttributeError) as error:
                # Modes of `generate` that cannot take this model fail in any of these ways, depending on the version.
                why = str(error).splitlines()[0] if str(error) else type(error).__name__
                raise ModelError("transformers cannot generate here", why=why) from error
        return clock.run(decoding.tokens)

    @contextmanager
    def _unmodified(self) -> Iterator[None]:
        """The models with transformers' own attention and full weights; restored afterwards."""
        models = [self.lm.model, *([self.assistant.model] if self.assistant else [])]
        with ExitStack() as stack:
            for model in models:
                model.set_attn_implementation("sdpa")
                stack.callback(model.set_attn_implementation, NAME)
                stack.enter_context(full_weights(model))
            yield


class _Clock(BaseStreamer):  # type: ignore[misc, no-any-unimported, unused-ignore]
    """Records when tokens arrive. The first call has the prompt."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.pieces: list[list[int]] = []

    def start(self) -> None:
        """Start the clock."""
        self.times = [perf_counter()]

    def put(self, value: Tensor) -> None:
        """Tokens [n], or the prompt [1, n]."""
        self.pieces.append(value.flatten().tolist())
        self.times.append(perf_counter())

    def end(self) -> None:
        """Nothing to close."""

    def run(self, limit: int) -> Run:
        """The run. The first piece of assisted generation is a verified draft, which counts as prefill."""
        if len(self.pieces) < 2:
            raise ModelError("transformers generated nothing")
        first, *steps = self.pieces[1:]
        tokens = tuple(token for piece in (first, *steps) for token in piece)[:limit]
        began, _, until_first, *_ = self.times
        return Run(
            tokens=tokens,
            prefill_seconds=until_first - began,
            decode_seconds=self.times[-1] - until_first,
            accepted=tuple(len(piece) for piece in steps),
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence transformers' warnings."""
    logging: Any = transformers_logging
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
