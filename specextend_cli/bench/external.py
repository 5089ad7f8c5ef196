"""Other programs over the same weights: transformers' `generate`, and llama.cpp through llama-cpp-python.

They decode with our sampler, called inside their loops, and so with exactly our settings. It depends only on the tokens
so far; its choice is passed on as the likeliest token, so that sampled output, too, can be compared token for token.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessorList
from transformers.generation.streamers import BaseStreamer

from specextend_cli.bench.measure import Decoding
from specextend_cli.bench.models import Models
from specextend_cli.bench.results import Run
from specextend_cli.engine.attention import NAME
from specextend_cli.engine.config import Sampling
from specextend_cli.engine.packed import full_weights
from specextend_cli.engine.sampling import Sampler
from specextend_cli.errors import ModelError
from specextend_cli.models.load import quiet_transformers
from specextend_cli.models.source_kinds import HubSource, LocalSource
from specextend_cli.models.sources import obtain_gguf

_LOOKUP = 10  # tokens that prompt lookup copies at most, as transformers' documentation has it
_SLACK = 64  # positions of llama.cpp


def is_plain_greedy(sampling: Sampling) -> bool:
    """True if the largest logit is chosen, so that the program's own greedy decoding gives the same."""
    return sampling.greedy and not sampling.looks_back


class OurChoice:
    """A logits processor of transformers that makes our choice the likeliest token, and no token impossible.

    Prompt lookup passes equal made-up scores to learn which tokens are impossible; those are returned as they are.
    """

    def __init__(self, sampling: Sampling, prompt: Sequence[int]) -> None:
        self.sampling = sampling
        self.prompt = len(prompt)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """input_ids [1, t], scores [1, vocabulary] -> scores [1, vocabulary]."""
        low, high = scores.aminmax()
        if low == high:
            return scores
        sampler = Sampler(self.sampling, scores.device)
        sampler.commit(input_ids[:, self.prompt :])
        first = torch.zeros_like(scores)
        first[0, int(sampler.choose(scores))] = 1.0
        return first


class Transformers:
    """transformers' `generate` with sdpa attention, plain or with prompt lookup."""

    def __init__(self, models: Models, *, lookup: bool = False) -> None:
        self.lm = models.lm
        self.lookup = lookup

    def __call__(self, prompt: Sequence[int], decoding: Decoding) -> Run:
        """Continue the prompt. ModelError if transformers refuses."""
        ids = torch.tensor([prompt], device=self.lm.device)
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
        ours = [] if is_plain_greedy(decoding.sampling) else [OurChoice(decoding.sampling, prompt)]
        with torch.inference_mode(), quiet_transformers(), self._unmodified():
            clock = _Clock()
            try:
                self.lm.model.generate(
                    ids,
                    attention_mask=torch.ones_like(ids),
                    generation_config=settings,
                    logits_processor=LogitsProcessorList(ours),
                    streamer=clock,
                )
            except (ValueError, RuntimeError, TypeError, AttributeError) as error:
                # Modes of `generate` that cannot take this model fail in any of these ways, depending on the version.
                why = str(error).splitlines()[0] if str(error) else type(error).__name__
                raise ModelError("transformers cannot generate here", why=why) from error
        return clock.run(decoding.tokens)

    @contextmanager
    def _unmodified(self) -> Iterator[None]:
        """The model with transformers' own attention and full weights; restored afterwards."""
        self.lm.model.set_attn_implementation("sdpa")
        try:
            with full_weights(self.lm.model):
                yield
        finally:
            self.lm.model.set_attn_implementation(NAME)


class _Clock(BaseStreamer):  # type: ignore[misc, no-any-unimported, unused-ignore]
    """Records when tokens arrive, from its construction on. The first call has the prompt."""

    def __init__(self) -> None:
        self.times = [perf_counter()]
        self.pieces: list[list[int]] = []

    def put(self, value: Tensor) -> None:
        """Tokens [n], or the prompt [1, n]."""
        self.pieces.append(value.flatten().tolist())
        self.times.append(perf_counter())

    def end(self) -> None:
        """Nothing to close."""

    def run(self, limit: int) -> Run:
        """The run. The first piece of prompt lookup is a verified draft, which counts as prefill."""
        if len(self.pieces) < 2:
            raise ModelError("transformers generated nothing")
        first, *steps = self.pieces[1:]
        tokens = tuple(token for piece in (first, *steps) for token in piece)[:limit]
        began, _, until_first, *_ = self.times
        return Run(tokens, until_first - began, self.times[-1] - until_first, accepted=tuple(map(len, steps)))


class LlamaCpp:
    """llama.cpp on the preset's GGUF file.

    ModelError if llama-cpp-python is not installed, or the preset's weights are no GGUF. Its tokens
    may differ: llama.cpp multiplies four-bit blocks with activations in eight bits.
    """

    def __init__(self, models: Models) -> None:
        if importlib.util.find_spec("llama_cpp") is None:
            raise ModelError("llama-cpp-python is not installed", why="pip install llama-cpp-python")
        source = models.preset.target.source
        if isinstance(source, (HubSource, LocalSource)):
            raise ModelError(f"preset {models.preset.name} has no GGUF file", why="its weights come from elsewhere")
        self.models = models
        self.path = obtain_gguf(source, name=models.preset.name)
        self._length, self._llama = 0, None

    def __call__(self, prompt: Sequence[int], decoding: Decoding) -> Run:
        """Continue the prompt. Loading does not count."""
        llama = self._model(len(prompt) + decoding.tokens)
        llama.reset()  # else it would reuse the last prompt's cache
        tokens = list[int]()
        began = first = perf_counter()
        ours = _processor(prompt, decoding)
        generated = llama.generate(list(prompt), temp=0.0, repeat_penalty=1.0, reset=True, logits_processor=ours)
        for token in generated:
            if not tokens:
                first = perf_counter()
            tokens.append(int(token))
            if token in decoding.eos or len(tokens) == decoding.tokens:
                break
        generated.close()
        return Run(tuple(tokens), first - began, perf_counter() - first, accepted=(1,) * (len(tokens) - 1))

    def _model(self, length: int) -> Any:
        """The model, loaded for texts of `length` tokens, with RoPE stretched like the target's."""
        if self._length != length:
            import llama_cpp

            window = self.models.preset.window.context
            options: dict[str, Any] = {
                "n_ctx": length + _SLACK,
                "n_threads": torch.get_num_threads(),
                "n_threads_batch": torch.get_num_threads(),
                "n_gpu_layers": -1 if self.models.device.type == "cuda" else 0,
                "verbose": False,
            }
            if length > window:
                options |= {
                    "rope_scaling_type": llama_cpp.LLAMA_ROPE_SCALING_TYPE_YARN,
                    "rope_freq_scale": window / length,
                    "yarn_orig_ctx": window,
                }
            self._length, self._llama = 0, None  # the old one is freed first
            try:
                self._llama = llama_cpp.Llama(str(self.path), **options)
            except (ValueError, RuntimeError, OSError) as error:
                raise ModelError("llama.cpp cannot load the model", why=str(error)) from error
            self._length = length
        return self._llama


def _processor(prompt: Sequence[int], decoding: Decoding) -> Any:
    """Our sampler as a logits processor of llama-cpp-python; None if its own greedy decoding is the same."""
    if is_plain_greedy(decoding.sampling):
        return None
    import llama_cpp

    ours = OurChoice(decoding.sampling, prompt)

    def processor(input_ids: Any, scores: Any) -> Any:
        logits = torch.from_numpy(np.asarray(scores, dtype=np.float32))
        return ours(torch.tensor(input_ids)[None], logits[None])[0].numpy()

    return llama_cpp.LogitsProcessorList([processor])
