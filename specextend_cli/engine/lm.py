"""A stock transformers model behind the one call that the engine makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from specextend_cli.engine.attention import NAME
from specextend_cli.engine.attention.function import LayerQueries
from specextend_cli.engine.attention.reference import batched
from specextend_cli.engine.attention_backends import backend_for, preferred
from specextend_cli.engine.cache import ATTENDS, KVCache, key_sources, row_shapes
from specextend_cli.engine.scans import follow_tokens
from specextend_cli.engine.self_check import difference, path_by_path, stock_logits
from specextend_cli.engine.step import Output, Runner, Step
from specextend_cli.engine.temporary import exchanged, few_threads
from specextend_cli.engine.transfer import check_alive
from specextend_cli.engine.tree import DraftTree
from specextend_cli.errors import ModelError


class LanguageModel:
    """A causal language model with our attention and our cache. It has no modelling code of its own.

    `attention` is the name of its back end; with "auto", the first of those `preferred` by which the model computes
    what it does by its own attention. `refused` has the others, and why. A further `check` raises a ModelError.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        backend: str = "auto",
        check: Callable[[LanguageModel], None] = lambda lm: None,
    ) -> None:
        with refusing(model, "its configuration is of another kind"):
            check_supported(model)
        self.model = model.eval()
        self.config = model.config
        self.device = model.device
        self.dtype = model.dtype
        self.stock = self.runner = Runner(self)
        self.attending: tuple[LayerQueries, ...] = ()
        """How each layer that attends does: the queries are a probe's."""
        self.windows: tuple[int | None, ...] = ()
        """Positions that a query sees in each layer, its own included; None: all."""
        self.layers_with_keys: list[int] = []
        """Layers with keys of their own in the cache; others attend by those, or have none."""
        self.state_bytes = 0
        """Memory of a sequence's states in recurrent layers, whatever its length."""
        own = model.config._attn_implementation
        try:
            with few_threads(model):
                model.set_attn_implementation(NAME)
                self.refused: dict[str, str] = {}
                for name in (names := preferred(self.device, backend)):
                    if self._attends_by(name, check, is_last=name == names[-1]):
                        break
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
        full = [index for index in self.layers_with_keys if self.windows[index] is None]
        return min(full or self.layers_with_keys, key=lambda index: abs(index - layer))

    def _attends_by(self, name: str, check: Callable[[LanguageModel], None], *, is_last: bool) -> bool:
        """Use that back end, if few layers compute by it what they do by their own; the last one's errors raise."""
        try:
            self.attention, self.backend = name, backend_for(self.device, name)
            self._probe()
            with self.few_layers():
                with refusing(self.model, "its own attention does not run"):
                    stock = stock_logits(self.model)
                wrong = difference(self.model, stock, self._read)
            if wrong is not None:
                raise UnsupportedModelError(self.model, wrong)
            check(self)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # Triton's errors have no common class
            if is_last:
                raise
            check_alive(self.device)
            self.refused[name] = getattr(error, "why", None) or f"{type(error).__name__}: {error}"
            return False
        return True

    def _probe(self) -> None:
        """One small forward. ModelError unless every layer calls our attention function."""
        two = torch.arange(2, device=self.device)
        with refusing(self.model, "it does not run"):
            cache = self.new_cache(2)
            for buffer in cache.buffers:
                buffer.fill_(torch.inf)  # and stays so where a layer attends by the keys of another
            # Features, because transformers sets the hooks that record them at the first call: for all layers.
            queries = self.forward(two, two, cache, record=cache.buffer_of, feature_layers=(0,)).queries
            cache.commit()
        if set(queries) != set(cache.buffer_of):
            raise UnsupportedModelError(self.model, "not all of its layers call the registered attention function")
        self.state_bytes = cache.states.nbytes
        self.attending = tuple(queries[index] for index in cache.buffer_of)
        self.windows = tuple(queries[index].window if index in queries else None for index in range(self.layers))
        wide, kinds = getattr(self.config, "sliding_window", None), getattr(self.config, "layer_types", None)
        slide = [kind == "sliding_attention" for kind in kinds or ["sliding_attention"] * self.layers]
        if self.windows != tuple(wide or None if slides else None for slides in slide[: self.layers]):
            raise UnsupportedModelError(self.model, "its layers have other sliding windows than its configuration says")
        sources = key_sources(self.config)
        written = [index for index in cache.buffer_of if not cache.of_layer(index)[0, 0, 0, 0].isinf().all()]
        self.layers_with_keys = [index for index in written if sources[index] == index]

    @contextmanager
    def few_layers(self) -> Iterator[Sequence[int]]:
        """The first and last two layers of a model alone, and the first of every other kind; their numbers in it.

        All, where some are recurrent or attend to the keys of others.
        """
        decoder, config = self.model.get_decoder(), self.config
        if self.state_bytes or len(self.layers_with_keys) < self.layers or not hasattr(decoder, "layers"):
            yield range(self.layers)
            return
        kinds = list(zip(self.windows, getattr(config, "layer_types", None) or self.windows, strict=False))
        chosen = sorted({*range(self.layers)[:2], *range(self.layers)[-2:], *map(kinds.index, kinds)})
        changes: list[tuple[Any, str, Any]] = [
            (decoder, "layers", nn.ModuleList(decoder.layers[index] for index in chosen)),
            (config, "num_hidden_layers", len(chosen)),
            (self, "layers_with_keys", list(range(len(chosen)))),
            *((self, name, tuple(getattr(self, name)[i] for i in chosen)) for name in ("windows", "attending")),
        ]
        if getattr(config, "layer_types", None):
            changes.append((config, "layer_types", [config.layer_types[index] for index in chosen]))
        for number, index in enumerate(chosen):
            holders = [part for part in decoder.layers[index].modules() if hasattr(part, "layer_idx")]
            changes += [(part, "layer_idx", number) for part in holders]
        with exchanged(changes):
            yield chosen

    def _read(self, prompt: Tensor, tree: DraftTree) -> Tensor:
        """Logits of a prompt read in two chunks, and of a tree after it."""
        cache, logits = self.new_cache(len(prompt) + len(tree)), []
        for positions in torch.arange(len(prompt), device=self.device).tensor_split(2):
            logits.append(self.forward(prompt[positions], positions, cache).logits)
            cache.commit()

        def verified(tree: DraftTree) -> Tensor:
            logits = self.run(Step.of_tree(tree, len(prompt), cache)).logits
            cache.rollback()
            return logits

        return torch.cat((*logits, path_by_path(tree, verified) if self.state_bytes else verified(tree)))

    def new_cache(self, capacity: int, *, slots: int | None = None) -> KVCache:
        """An empty cache with room for `capacity` tokens before it has to grow; with `slots`, that of a batch."""
        return KVCache(self.config, slots=slots, capacity=capacity, dtype=self.dtype, device=self.device)

    def forward(
        self, tokens: Tensor, positions: Tensor, cache: KVCache, tree_mask: Tensor | None = None, **asked: Any
    ) -> Output:
        """`run` of tokens [n] at positions [n]; see `Step` for what can be `asked`."""
        return self.run(Step(tokens, positions, cache, tree_mask=tree_mask, **asked))

    @torch.inference_mode()
    def run(self, step: Step) -> Output:
        """One forward. Keys are appended to the cache, uncommitted; of a batch, behind each sequence's own."""
        step.backend = step.backend or self.backend
        step.reserve()
        return self.runner.run(step)

    def run_modules(self, step: Step) -> Output:
        """`run` by transformers' own code, rows being reserved."""
        logits, states = self.run_layers(step)
        features = torch.cat(states, -1).flatten(0, 1) if states else None
        return Output(logits.flatten(0, 1), features, queries=step.queries)

    def run_layers(self, step: Step) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Logits, and the hidden states that were asked for, each [sequences, n, hidden].

        Recurrent layers follow a chain; RuntimeError for a tree that branches.
        """
        cache = step.cache
        step.upload()
        following: AbstractContextManager[None] = nullcontext()
        if not isinstance(cache, KVCache):  # that of a captured forward
            pass
        elif cache.is_batch:
            step.backend, step.tree_mask = batched, cache.mask()
        elif cache.states:
            if step.tree is not None and not step.tree.is_chain:
                raise RuntimeError("recurrent layers follow a chain of tokens, not a tree")
            following = cache.states.forward(len(step), is_chain=step.tree_mask is not None)
        with following:
            out = self.model(
                input_ids=step.tokens.view(step.sequences, -1),
                position_ids=step.positions.view(step.sequences, -1),
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=step.logits_to_keep,
                output_hidden_states=bool(step.feature_layers),
                context=step,
            )
        return out.logits, tuple(out.hidden_states[layer] for layer in step.feature_layers)


def check_supported(model: PreTrainedModel) -> None:
    """ModelError unless the model is a decoder with attention that is reachable through the hooks."""
    config = model.config

    def refuse(why: str) -> None:
        raise UnsupportedModelError(model, why)

    differing = set(getattr(config, "per_layer_attributes", None) or ())
    if "kv_lora_rank" in differing or getattr(config, "kv_lora_rank", None):
        refuse("its attention keeps a compressed cache (MLA)")
    if others := differing - {"num_key_value_heads", "head_dim"}:
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
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, ValueError, TypeError, AttributeError, LookupError) as error:
        check_alive(model.device)
        raise UnsupportedModelError(model, f"{what}: {str(error)[:200]}") from error


class UnsupportedModelError(ModelError):
    """The engine's forward does not run `model`, which is as it was; transformers' may (`plain.py`)."""

    def __init__(self, model: PreTrainedModel, why: str) -> None:
        super().__init__(
            f"{type(model).__name__} is not supported", why=why, fix="specextend models list shows the pairs that are"
        )
        self.model = model
