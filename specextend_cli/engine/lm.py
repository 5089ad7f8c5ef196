"""A stock transformers model behind the one call the engine makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel

from specextend_cli.engine.attention import NAME, ForwardContext, backend_for, register
from specextend_cli.engine.attention.function import UnsupportedError
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.cpu.decoding_threads import on_threads, probing_threads
from specextend_cli.engine.cpu.thread_governor import ThreadGovernor
from specextend_cli.engine.self_check import difference, stock_logits
from specextend_cli.engine.tree import DraftTree
from specextend_cli.errors import ModelError


class Output(NamedTuple):
    """`logits` [kept, vocabulary]; `features` [n, sum of the asked layers' widths] or None."""

    logits: Tensor
    features: Tensor | None


class ModelOutput(NamedTuple):
    """What a model's `forward` gives, as far as it is looked at; there may be more rows of states than tokens.

    `logits` [b, kept, vocabulary]; `hidden_states` [b, rows, width] before each layer and behind the last norm.
    """

    logits: Tensor
    hidden_states: Sequence[Tensor]


class LanguageModel:
    """A causal language model with our attention and our cache, batch 1. No modelling code of its own.

    Of a model whose heads were split over `parts` processes, every process has one (see `parallel`).
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
        self.reading_threads: int | None = None
        """Threads with which prompts are read on a processor, where decoding has fewer."""
        self.exact_rows: int | None = None
        """Rows of a forward, a tree's nodes or a batch's sequences, up to which each is rounded as it is alone."""
        self.governor = ThreadGovernor()
        """Takes fewer threads while other programs want the cores; this one leaves them alone."""
        with on_threads(probing_threads(model)):
            stock = self._stock_logits() if parts == 1 else None
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
        """One small forward: every layer must come by our attention function. ModelError otherwise."""
        every = ForwardContext(self.backend, record=frozenset(range(self.layers)))
        two = torch.arange(2, device=self.device)
        try:
            self.forward(two, two, self.new_cache(2), this_pass=every)
        except UnsupportedError as error:
            raise _unsupported(self.model, str(error)) from error
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, ValueError, TypeError, AttributeError, IndexError) as error:
            raise _unsupported(self.model, f"it does not run: {str(error)[:200]}") from error
        if set(every.queries) != set(every.record):
            raise _unsupported(self.model, "not all of its layers call the registered attention function")

    def _stock_logits(self) -> Tensor:
        try:
            return stock_logits(self.model)
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, ValueError, TypeError, AttributeError, IndexError) as error:
            raise _unsupported(self.model, f"its own attention does not run: {str(error)[:200]}") from error

    def _read(self, prompt: Tensor, tree: DraftTree) -> Tensor:
        """Logits of a prompt in two chunks, and of a tree behind it."""
        cache, logits = self.new_cache(len(prompt) + len(tree)), []
        for positions in torch.arange(len(prompt), device=self.device).tensor_split(2):
            logits.append(self.forward(prompt[positions], positions, cache).logits)
            cache.commit()
        in_tree = ForwardContext(self.backend, tree_mask=tree.mask)
        logits.append(self.forward(tree.tokens, len(prompt) + tree.depths, cache, this_pass=in_tree).logits)
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
        this_pass: ForwardContext | None = None,
        logits_to_keep: int = 0,
        features: Sequence[int] = (),
    ) -> Output:
        """Run tokens [n] at positions [n]; their keys go behind the cache's reserved rows, uncommitted.

        `logits_to_keep` 0 keeps the logits of every token, otherwise of the last ones. `features` names hidden states
        as transformers numbers them: i is the input of layer i.
        """
        cache.reserve(tokens.shape[0])
        out = self.model(
            input_ids=tokens[None],
            position_ids=positions[None],
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=logits_to_keep,
            output_hidden_states=bool(features),
            this_pass=this_pass or ForwardContext(self.backend),
        )
        states = torch.cat([out.hidden_states[i][0, : len(tokens)] for i in features], -1) if features else None
        return Output(out.logits[0], states)


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


def _unsupported(model: PreTrainedModel, why: str) -> ModelError:
    what = f"{type(model).__name__} is not supported"
    return ModelError(what, why=why, fix="specextend presets list shows the pairs that are")
