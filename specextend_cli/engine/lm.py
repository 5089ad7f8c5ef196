"""A stock transformers model behind the one call that the engine makes of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel

from specextend_cli.engine.attention import NAME, ForwardContext, register
from specextend_cli.engine.attention.function import UnsupportedError
from specextend_cli.engine.attention.softmax import SoftmaxOptions
from specextend_cli.engine.attention_backends import backend_for, preferred
from specextend_cli.engine.cache import ATTENDS, CACHED_SIZES, KVCache, key_sources, row_shapes
from specextend_cli.engine.forward import ForwardBackend, ForwardInput, ModelOutput
from specextend_cli.engine.scans import follow_tokens, silence_advice
from specextend_cli.engine.self_check import difference, path_by_path, stock_logits
from specextend_cli.engine.threads import on_threads, probing_threads
from specextend_cli.engine.tree import DraftTree
from specextend_cli.errors import ModelError


class Multipliers(NamedTuple):
    """What a model multiplies its embeddings and the output of each block by, and divides its logits by (Granite)."""

    embedding: float = 1.0
    residual: float = 1.0
    logits: float = 1.0

    @classmethod
    def of(cls, config: object) -> Multipliers:
        """Those of a configuration of transformers; 1 where it has none."""
        names = ("embedding_multiplier", "residual_multiplier", "logits_scaling")
        return cls(*(float(getattr(config, name, None) or 1.0) for name in names))


class LanguageModel:
    """A causal language model with our attention and our cache. It has no modelling code of its own.

    `attention` is the name of its back end; with "auto", the first of those `preferred` by which the model computes
    what it does by its own attention. `refused` has the others, and why.
    """

    def __init__(self, model: PreTrainedModel, *, backend: str = "auto") -> None:
        silence_advice()
        with refusing(model, "its configuration is of another kind"):
            check_supported(model)
        register()
        self.model = model.eval()
        self.config = model.config
        self.device = model.device
        self.dtype = model.dtype
        self.multipliers = Multipliers.of(self.config)
        self.forward_backend: ForwardBackend[ModelOutput] | None = None
        self.scales: tuple[float, ...] = ()
        """By which each layer multiplies its attention's scores."""
        self.windows: tuple[int | None, ...] = ()
        """Positions that a query sees in each layer, its own included; None: all."""
        self.keeping: list[int] = []
        """Layers with keys of their own in the cache; others attend by those, or have none."""
        self.softmaxes: tuple[SoftmaxOptions, ...] = ()
        """What else each layer attends by."""
        self.state_bytes = 0
        """Memory of a sequence's states in recurrent layers, whatever its length."""
        self.exact_rows: int | None = None
        """Up to so many rows of a forward (tree nodes or sequences) rounding does not depend on their number."""
        own = model.config._attn_implementation
        try:
            with on_threads(probing_threads(model)):
                with refusing(model, "its own attention does not run"):
                    stock = stock_logits(model)
                model.set_attn_implementation(NAME)
                self.refused: dict[str, str] = {}
                *others, last = preferred(self.device, backend)
                if not any(self._can_attend_by(name, stock) for name in others):
                    self._attend_by(last, stock)
        except UnsupportedModelError:
            model.set_attn_implementation(own)
            raise

    @property
    def vocabulary(self) -> int:
        """Rows of the output head."""
        return int(self.config.vocab_size)

    @property
    def layers(self) -> int:
        """Decoder layers."""
        return int(self.config.num_hidden_layers)

    def far_seeing(self, layer: int) -> int:
        """The layer nearest to this one that attends to everything; below 0 layers count from the last.

        It has keys of its own in the cache. Where all layers have windows, the nearest that has keys.
        """
        layer %= self.layers
        full = [index for index in self.keeping if self.windows[index] is None]
        return min(full or self.keeping, key=lambda index: abs(index - layer))

    def _can_attend_by(self, name: str, stock: Tensor) -> bool:
        """`_attend_by`, if it can be done."""
        try:
            self._attend_by(name, stock)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # Triton's errors have no common class
            self.refused[name] = getattr(error, "why", None) or f"{type(error).__name__}: {error}"
            return False
        return True

    def _attend_by(self, name: str, stock: Tensor) -> None:
        """Use that back end, compared with the model's own logits (see `stock_logits`). ModelError: wrong."""
        self.attention, self.backend = name, backend_for(self.device, name)
        self._probe()
        wrong = difference(self.model, stock, self._read)
        if wrong is not None:
            raise UnsupportedModelError(self.model, wrong)

    def _probe(self) -> None:
        """One small forward. ModelError unless every layer calls our attention function."""
        two = torch.arange(2, device=self.device)
        with refusing(self.model, "it does not run"):
            cache = self.new_cache(2)
            every = ForwardContext(self.backend, record=frozenset(cache.places))
            for buffer in cache.buffers:
                buffer.fill_(torch.inf)  # and stays so where a layer attends by the keys of another
            self.forward(two, two, cache, context=every)
            cache.commit()
        if set(every.queries) != set(every.record):
            raise UnsupportedModelError(self.model, "not all of its layers call the registered attention function")
        self.state_bytes = cache.states.nbytes
        found = {index: every.queries[index] for index in cache.places}
        self.windows = tuple(found[index].window if index in found else None for index in range(self.layers))
        self.scales = tuple(layer.scale for layer in found.values())
        wide, kinds = getattr(self.config, "sliding_window", None), getattr(self.config, "layer_types", None)
        slide = [kind == "sliding_attention" for kind in kinds or ["sliding_attention"] * self.layers]
        if self.windows != tuple(wide or None if slides else None for slides in slide[: self.layers]):
            raise UnsupportedModelError(self.model, "its layers have other sliding windows than its configuration says")
        sources = key_sources(self.config)
        written = [index for index in cache.places if not cache.of_layer(index)[0, 0, 0, 0].isinf().all()]
        self.keeping = [index for index in written if sources[index] == index]
        self.softmaxes = tuple(layer.softmax for layer in found.values())

    def _read(self, prompt: Tensor, tree: DraftTree) -> Tensor:
        """Logits of a prompt read in two chunks, and of a tree after it."""
        cache, logits = self.new_cache(len(prompt) + len(tree)), []
        for positions in torch.arange(len(prompt), device=self.device).tensor_split(2):
            logits.append(self.forward(prompt[positions], positions, cache).logits)
            cache.commit()

        def verified(tree: DraftTree) -> Tensor:
            out = self.forward_tree(tree, len(prompt), cache, context=ForwardContext(self.backend)).logits
            cache.rollback()
            return out

        return torch.cat((*logits, path_by_path(tree, verified) if self.state_bytes else verified(tree)))

    def new_cache(self, capacity: int, *, slots: int | None = None) -> KVCache:
        """An empty cache with room for `capacity` tokens before it has to grow; with `slots`, that of a batch."""
        return KVCache(self.config, slots=slots, capacity=capacity, dtype=self.dtype, device=self.device)

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
    ) -> ModelOutput:
        """Run tokens [n] at positions [n]; their keys are appended to the cache, uncommitted.

        `logits_to_keep` 0 keeps every token's logits, otherwise those of the last ones. `features` names hidden states
        as transformers numbers them: i is the input of layer i.
        """
        context = context or ForwardContext(self.backend)
        cache.reserve(len(tokens), is_chain=context.tree_mask is not None)
        if cache.positions is not None and any(self.windows):
            context = replace(context, positions=cache.positions)
        out = self.run(ForwardInput(tokens[None], positions[None], cache, context, logits_to_keep, tuple(features)))
        return out.first(len(tokens))

    @torch.inference_mode()
    def forward_tree(
        self, tree: DraftTree, position: int, cache: KVCache, *, context: ForwardContext, features: Sequence[int] = ()
    ) -> ModelOutput:
        """`forward` of a tree whose root is at `position`; `context` has no mask. It leaves queries in `context`.

        Recurrent layers follow a tree that branches by CUDA graphs alone; RuntimeError without.
        """
        if self.forward_backend:
            cache.reserve(len(tree), computes_states=False)
            if out := self.forward_backend.run_tree(tree, position, cache, context, features):
                return out.first(len(tree))
            cache.end = cache.start  # those rows are reserved again
        if self.state_bytes and not tree.is_chain:
            raise RuntimeError("recurrent layers follow a chain of tokens, not a tree")
        nodes = tree.on(self.device)
        if len(tree) > 1:
            context = replace(context, tree_mask=nodes.mask)
        return self.forward(nodes.tokens, position + nodes.depths, cache, context=context, features=features)

    def run(self, inputs: ForwardInput) -> ModelOutput:
        """One forward, by the forward backend if it takes the inputs, else by the model."""
        out = self.forward_backend.run(inputs) if self.forward_backend else None
        if out is not None:
            return out
        logits, states = self.run_layers(inputs)
        return ModelOutput(logits, torch.cat(states, -1) if states else None)

    def run_layers(self, inputs: ForwardInput) -> tuple[Tensor, tuple[Tensor, ...]]:
        """By transformers' own code: logits, and the hidden states that were asked for, each [b, n, hidden]."""
        with inputs.cache.states.forward() if isinstance(inputs.cache, KVCache) else nullcontext():
            out = self.model(
                input_ids=inputs.tokens,
                position_ids=inputs.positions,
                past_key_values=inputs.cache,
                use_cache=True,
                logits_to_keep=inputs.logits_to_keep,
                output_hidden_states=bool(inputs.feature_layers),
                context=inputs.context,
            )
        return out.logits, tuple(out.hidden_states[layer] for layer in inputs.feature_layers)


def check_supported(model: PreTrainedModel) -> None:
    """ModelError unless the model is a decoder with attention that is reachable through the hooks."""
    config = model.config

    def refuse(why: str) -> None:
        raise UnsupportedModelError(model, why)

    differing = set(getattr(config, "per_layer_attributes", None) or ())
    if "kv_lora_rank" in differing or getattr(config, "kv_lora_rank", None):
        refuse("its attention keeps a compressed cache (MLA)")
    if others := differing - set(CACHED_SIZES):
        refuse(f"its layers differ in {', '.join(sorted(others))}, which is not known here")
    rope = getattr(config, "rope_parameters", None) or {}
    ropes = [rope, *(each for each in rope.values() if isinstance(each, dict))]  # one for all layers, or by their kind
    if config.get_text_config() is not config:
        refuse("it wraps a text model in one that also reads images or sound; only text models are read here")
    if any(each.get("rope_type") in ("dynamic", "longrope") for each in ropes):
        refuse("its position encoding changes with the input's length, so reading it in chunks would change the output")
    if kinds := set(getattr(config, "layer_types", None) or ()) - ATTENDS.keys():
        refuse(f"it has layers of the kind {min(kinds)}, which is not known here")
    attending = row_shapes(config)
    if not attending:
        refuse("none of its layers attends to the tokens before, so nothing says which of them a draft needs")
    if len(attending) < config.num_hidden_layers and (unknown := follow_tokens(model)):
        refuse(unknown)
    # The flag is a promise that several models do not make though they keep it, as their source shows.
    if not (getattr(model, "_supports_attention_backend", False) or model._can_set_attn_implementation()):
        refuse("its transformers implementation does not take a registered attention function")


@contextmanager
def refusing(model: PreTrainedModel, what: str) -> Iterator[None]:
    """ModelError for what a model that does not fit the hooks may raise; too little memory is another matter."""
    try:
        yield
    except UnsupportedError as error:
        raise UnsupportedModelError(model, str(error)) from error
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, ValueError, TypeError, AttributeError, LookupError) as error:
        raise UnsupportedModelError(model, f"{what}: {str(error)[:200]}") from error


class UnsupportedModelError(ModelError):
    """The engine's forward does not run `model`, which is as it was; transformers' may (`transformers_target.py`)."""

    def __init__(self, model: PreTrainedModel, why: str) -> None:
        super().__init__(
            f"{type(model).__name__} is not supported", why=why, fix="specextend models list shows the pairs that are"
        )
        self.model = model
