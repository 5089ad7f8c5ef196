"""A stock transformers model behind the one call that the engine makes of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel

from specextend_cli.engine.attention import NAME, ForwardContext, backend_for, register
from specextend_cli.engine.attention.function import UnsupportedError
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.forward import ForwardBackend, ForwardInput, ModelOutput
from specextend_cli.engine.self_check import difference, stock_logits
from specextend_cli.engine.threads import on_threads, probing_threads
from specextend_cli.engine.tree import DraftTree
from specextend_cli.errors import ModelError


class Output(NamedTuple):
    """`logits` [kept, vocabulary]; `features` [n, sum of the asked layers' widths] or None."""

    logits: Tensor
    features: Tensor | None


class LanguageModel:
    """A causal language model with our attention and our cache. It has no modelling code of its own.

    Where a model's heads are split over `parts` processes, every process has one (see `tensor_parallel.py`).
    """

    def __init__(self, model: PreTrainedModel, *, backend: str = "auto", parts: int = 1) -> None:
        check_supported(model)
        register()
        self.model = model.eval()
        self.config = model.config
        self.device = model.device
        self.dtype = model.dtype
        self.backend = backend_for(self.device, backend)
        self.parts = parts
        self.forward_backend: ForwardBackend[ModelOutput] | None = None
        self.prefill_threads: int | None = None
        """Threads for prefill on a CPU, where decoding has fewer; None: as many as torch has."""
        self.exact_rows: int | None = None
        """Up to so many rows of a forward (tree nodes or sequences) rounding does not depend on their number."""
        with on_threads(probing_threads(model)):
            with _refusing(model, "its own attention does not run"):
                stock = stock_logits(model) if parts == 1 else None
            model.set_attn_implementation(NAME)
            self._probe()
            wrong = None if stock is None else difference(model, stock, self._read)
        if wrong is not None:
            raise _unsupported(model, wrong)

    @property
    def vocabulary(self) -> int:
        """Rows of the output head."""
        return int(self.config.vocab_size)

    @property
    def layers(self) -> int:
        """Decoder layers."""
        return int(self.config.num_hidden_layers)

    def _probe(self) -> None:
        """One small forward. ModelError unless every layer calls our attention function."""
        every = ForwardContext(self.backend, record=frozenset(range(self.layers)))
        two = torch.arange(2, device=self.device)
        with _refusing(self.model, "it does not run"):
            self.forward(two, two, self.new_cache(2), context=every)
        if set(every.queries) != set(every.record):
            raise _unsupported(self.model, "not all of its layers call the registered attention function")

    def _read(self, prompt: Tensor, tree: DraftTree) -> Tensor:
        """Logits of a prompt read in two chunks, and of a tree after it."""
        cache, logits = self.new_cache(len(prompt) + len(tree)), []
        for positions in torch.arange(len(prompt), device=self.device).tensor_split(2):
            logits.append(self.forward(prompt[positions], positions, cache).logits)
            cache.commit()
        in_tree = ForwardContext(self.backend, tree_mask=tree.mask)
        logits.append(self.forward(tree.tokens, len(prompt) + tree.depths, cache, context=in_tree).logits)
        return torch.cat(logits)

    def new_cache(self, capacity: int) -> KVCache:
        """An empty cache with room for `capacity` tokens before it has to grow."""
        return KVCache(self.config, capacity=capacity, dtype=self.dtype, device=self.device, parts=self.parts)

    @torch.inference_mode()
    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        cache: KVCache,
        *,
        context: ForwardContext | None = None,
        logits_to_keep: int = 0,
        features: Sequence[int] = (),
    ) -> Output:
        """Run tokens [n] at positions [n]; their keys are appended to the cache, uncommitted.

        `logits_to_keep` 0 keeps every token's logits, otherwise those of the last ones. `features` names hidden states
        as transformers numbers them: i is the input of layer i.
        """
        cache.reserve(tokens.shape[0])
        context = context or ForwardContext(self.backend)
        out = self.run(ForwardInput(tokens[None], positions[None], cache, context, logits_to_keep, bool(features)))
        states = torch.cat([out.hidden_states[i][0, : len(tokens)] for i in features], -1) if features else None
        return Output(out.logits[0], states)

    def run(self, inputs: ForwardInput) -> ModelOutput:
        """One forward, by the forward backend if it takes the inputs, else by the model."""
        out = self.forward_backend.run(inputs) if self.forward_backend else None
        return self.run_model(inputs) if out is None else out

    def run_model(self, inputs: ForwardInput) -> ModelOutput:
        """One forward by transformers' own code."""
        out = self.model(
            input_ids=inputs.tokens,
            position_ids=inputs.positions,
            past_key_values=inputs.cache,
            use_cache=True,
            logits_to_keep=inputs.logits_to_keep,
            output_hidden_states=inputs.hidden_states,
            context=inputs.context,
        )
        return ModelOutput(out.logits, out.hidden_states or ())


def check_supported(model: PreTrainedModel) -> None:
    """ModelError unless the model is a decoder with full attention in every layer, reachable through the hooks."""
    config = model.config
    rope = getattr(config, "rope_parameters", None) or {}

    def refuse(why: str) -> None:
        raise _unsupported(model, why)

    if config.get_text_config() is not config:
        refuse("it wraps a text model in one that also reads images or sound; only text models are read here")
    if config.is_encoder_decoder:
        refuse("it is an encoder-decoder; speculative decoding here needs a decoder-only model")
    if rope.get("rope_type") in ("dynamic", "longrope"):
        refuse("its position encoding changes with the input's length, so reading it in chunks would change the output")
    layer_types = set(getattr(config, "layer_types", None) or ["full_attention"])
    if layer_types != {"full_attention"} or getattr(config, "sliding_window", None):
        refuse("it attends through a sliding window or a linear layer; only full attention is exact here")
    if getattr(config, "attn_logit_softcapping", None):
        refuse("it caps its attention logits, which the flash kernels here cannot")
    if getattr(config, "kv_lora_rank", None):
        refuse("its attention keeps a compressed cache (MLA)")
    if not getattr(model, "_supports_attention_backend", False):
        refuse("its transformers implementation does not take a registered attention function")


@contextmanager
def _refusing(model: PreTrainedModel, what: str) -> Iterator[None]:
    """ModelError for what a model that does not fit the hooks may raise; too little memory is another matter."""
    try:
        yield
    except UnsupportedError as error:
        raise _unsupported(model, str(error)) from error
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, ValueError, TypeError, AttributeError, IndexError) as error:
        raise _unsupported(model, f"{what}: {str(error)[:200]}") from error


def _unsupported(model: PreTrainedModel, why: str) -> ModelError:
    what = f"{type(model).__name__} is not supported"
    return ModelError(what, why=why, fix="specextend presets list shows the pairs that are")
