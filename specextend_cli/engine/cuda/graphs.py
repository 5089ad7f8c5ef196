"""Forwards of few tokens as CUDA graphs: the host says "again" once, where it would call a thousand kernels.

A graph repeats the very same launches over the very same memory. So what differs from one forward to the next lies in
device memory: tokens, positions, the tree's mask, and the row from which the cache is written, which the Triton kernel
reads there (`attention/triton_tree.py`). Node counts come in buckets; what is over in a bucket are nodes that nobody
sees, behind the others. One graph serves every length that the memory of its cache has room for.

The model and the head stay what they are: their `forward` is replaced by one that looks at what it is given, as for
`compiled.py`. What comes out of a graph lies in its own memory, and stays until the same graph runs again.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, update_wrapper
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

from specextend_cli.engine.attention.function import ForwardContext
from specextend_cli.engine.attention.triton_tree import MOST_HEAD_DIM, attend, pack, triton_tree
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.head import EagleHead, HeadOutput
from specextend_cli.engine.lm import LanguageModel, ModelOutput

BUCKETS = (1, 2, 4, 8, 12, 16, 32, 64)
Capture: TypeAlias = Callable[[Callable[[], Any], torch.device], tuple[Any, Callable[[], None]]]
"""What a function of no arguments returns, and how to have that computed again, in place. RuntimeError: it cannot."""


def cuda_graph(body: Callable[[], Any], device: torch.device) -> tuple[Any, Callable[[], None]]:
    """The `Capture` of CUDA. What it returns is computed by the first replay."""
    with torch.cuda.device(device), _without_collections():
        here, aside = torch.cuda.current_stream(), _aside(device)
        aside.wait_stream(here)
        with torch.cuda.stream(aside):  # kernels are compiled and workspaces made, which a capture must not
            for _ in range(2):
                body()
        here.wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=aside):
            out = body()
        return out, graph.replay


@cache
def _aside(device: torch.device) -> torch.cuda.Stream:
    """One for all captures: every stream keeps a workspace of its own for good."""
    return torch.cuda.Stream(device)


@contextmanager
def _without_collections() -> Iterator[None]:
    """A graph that is collected while another is captured would break it."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def use_graphs(lm: LanguageModel, heads: Iterable[EagleHead] = (), *, capture: Capture = cuda_graph) -> None:
    """Let `lm`, and heads that draft for it, replay graphs wherever `triton_tree` attends for few tokens."""
    lm.model.forward = _Model(lm, capture)
    for head in heads:
        head.forward = _Head(head, capture)  # type: ignore[method-assign]


def drop_graphs(lm: LanguageModel, heads: Iterable[EagleHead] = ()) -> None:
    """The models as they were."""
    for module in (lm.model, *heads):
        module.__dict__.pop("forward", None)


class _Inputs:
    """What a graph reads, in memory that stays where it is: `nodes` nodes that see `tree` keys at the cache's end."""

    def __init__(self, nodes: int, tree: int, states: Tensor | None, device: torch.device) -> None:
        self.tokens = torch.zeros(nodes, dtype=torch.long, device=device)
        self.positions = torch.zeros_like(self.tokens)
        self.states = None if states is None else states.new_zeros(nodes, states.shape[1])
        self.start = torch.zeros((), dtype=torch.long, device=device)
        self.offsets = torch.arange(nodes, device=device)
        self._alone = torch.zeros(nodes, tree, dtype=torch.bool, device=device)
        self._alone[:, tree - nodes :] = torch.eye(nodes, dtype=torch.bool, device=device)
        self.mask = self._alone.clone()

    def set(self, tokens: Tensor, positions: Tensor, states: Tensor | None, mask: Tensor | None, start: int) -> None:
        """Tokens [n] whose keys go to the cache's rows from `start` on; `mask` [n, t], None where n is 1."""
        n = len(tokens)
        self.tokens[:n], self.positions[:n] = tokens, positions
        if self.states is not None and states is not None:
            self.states[:n] = states
        if mask is not None:
            if n < len(self.tokens):
                self.mask.copy_(self._alone)
            self.mask[:n, : mask.shape[1]] = mask
        self.start.fill_(start)


class _AtLength:
    """A `Backend`: the tree kernel over all of a cache's memory, of which the device knows how much counts."""

    def __init__(self, inputs: _Inputs) -> None:
        nodes, self.tree = inputs.mask.shape
        self.words = None if nodes == self.tree == 1 else pack(inputs.mask)
        self.length = inputs.start + nodes

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, scale: float, tree_mask: Tensor | None) -> Tensor:
        """See `Backend`; the mask is known already."""
        return attend(q, k, v, scale, words=self.words, tree=self.tree, length=self.length)


class _RowsLayer(CacheLayerMixin):
    """One layer's window on the memory of a cache, [2, heads, capacity, d]."""

    def __init__(self, memory: Tensor, rows: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.memory, self.rows = memory, rows
        self.is_initialized = True

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing to do: the memory is there."""

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Write where the device says; keys and values [1, heads, capacity, d], whatever lies in them."""
        for memory, new in zip(self.memory, (key_states, value_states), strict=True):
            memory.index_copy_(1, self.rows, new[0].to(memory.dtype))
        keys, values = self.memory[:, None]
        return keys, values

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """All of the memory."""
        return self.memory.shape[2], 0

    def get_seq_length(self) -> int:
        """Nobody who is captured may ask the host."""
        return 0

    def get_max_length(self) -> int:
        """All of the memory."""
        return self.memory.shape[2]


_Place: TypeAlias = tuple[int, torch.Size]


class _Graph(NamedTuple):
    """One captured forward: what it reads, what it leaves and the queries among it, and how to run it."""

    inputs: _Inputs
    out: Any
    this_pass: ForwardContext
    replay: Callable[[], None]


class _Graphs:
    """The graphs of one module: by cache, by size, by the layers whose queries are wanted, and by what else counts."""

    def __init__(self, body: Callable[[_Inputs, Cache, ForwardContext], Any], capture: Capture) -> None:
        self._body, self._capture = body, capture
        self._by_cache: WeakKeyDictionary[KVCache, tuple[_Place, dict[Any, _Graph | None]]] = WeakKeyDictionary()

    def run(
        self,
        tokens: Tensor,
        positions: Tensor,
        cache: object,
        this_pass: object,
        states: Tensor | None = None,
        *,
        besides: object = None,
    ) -> Any:
        """The body's output, of a bucket's rows; None where the module itself is to be run."""
        if not isinstance(cache, KVCache) or not isinstance(this_pass, ForwardContext) or not _suits(cache, this_pass):
            return None
        n, mask = len(tokens), this_pass.tree_mask
        nodes = next((bucket for bucket in BUCKETS if bucket >= n), 0)
        if not nodes or (mask is None and n > 1) or cache.start + nodes > cache.capacity:
            return None
        tree = nodes if mask is None else mask.shape[1] + nodes - n
        given = (tokens, positions, states, mask, cache.start)
        graphs, key = self._of(cache), (nodes, tree, this_pass.record, besides)
        if key not in graphs:
            inputs = _Inputs(nodes, tree, states, tokens.device)
            inputs.set(*given)
            graphs[key] = self._captured(inputs, cache, this_pass.record)
        if (graph := graphs[key]) is None:
            return None
        graph.inputs.set(*given)
        graph.replay()
        this_pass.queries.update({layer: (q[:, :n], scale) for layer, (q, scale) in graph.this_pass.queries.items()})
        return graph.out

    def _of(self, cache: KVCache) -> dict[Any, _Graph | None]:
        """The graphs over the memory that the cache has now; those over what it had are let go."""
        place = (cache.buffer.data_ptr(), cache.buffer.shape)
        known = self._by_cache.get(cache)
        if known is None or known[0] != place:
            known = self._by_cache[cache] = (place, {})
        return known[1]

    def _captured(self, inputs: _Inputs, cache: KVCache, record: frozenset[int]) -> _Graph | None:
        """None where something in the module cannot be captured, because it asks the host."""
        layers = cache.buffer.unbind(1)

        def body() -> tuple[Any, ForwardContext]:
            rows = inputs.start + inputs.offsets
            this_pass = ForwardContext(_AtLength(inputs), record=record)
            every = Cache(layers=[_RowsLayer(memory, rows) for memory in layers])
            return self._body(inputs, every, this_pass), this_pass

        try:
            (out, this_pass), replay = self._capture(body, inputs.tokens.device)
        except RuntimeError:
            return None
        return _Graph(inputs, out, this_pass, replay)


def _suits(cache: KVCache, this_pass: ForwardContext) -> bool:
    """Whether the kernel takes such keys. Of a prompt's last piece, logits and queries outlive what comes next."""
    floats = (torch.float32, torch.float16, torch.bfloat16)
    fits = cache.buffer.dtype in floats and cache.buffer.shape[4] <= MOST_HEAD_DIM
    return this_pass.backend is triton_tree and not this_pass.record_last and fits


class _Model:
    """A language model's `forward`."""

    def __init__(self, lm: LanguageModel, capture: Capture) -> None:
        self._decoder: Any = lm.model.get_decoder()
        self._stock = lm.model.forward
        update_wrapper(self, self._stock)
        self._graphs = _Graphs(self._body, capture)

    def __call__(self, *args: Any, **given: Any) -> Any:
        """Tokens [1, n] at positions [1, n]."""
        tokens, positions = given.get("input_ids"), given.get("position_ids")
        if not args and tokens is not None and positions is not None and len(tokens) == 1:
            rope = getattr(self._decoder, "rotary_emb", None)  # which bench/rope.py exchanges
            cache, this_pass = given.get("past_key_values"), given.get("this_pass")
            out = self._graphs.run(tokens[0], positions[0], cache, this_pass, besides=rope)
            if out is not None:
                n, last = tokens.shape[1], given.get("logits_to_keep", 0)
                return ModelOutput(out.logits[:, :n][:, -last:], out.hidden_states)
        return self._stock(*args, **given)

    def _body(self, inputs: _Inputs, cache: Cache, this_pass: ForwardContext) -> ModelOutput:
        out = self._stock(
            input_ids=inputs.tokens[None],
            position_ids=inputs.positions[None],
            past_key_values=cache,
            use_cache=True,
            output_hidden_states=True,  # they are there anyhow
            this_pass=this_pass,
        )
        return ModelOutput(out.logits, tuple(out.hidden_states))


class _Head:
    """A draft head's `forward`."""

    def __init__(self, head: EagleHead, capture: Capture) -> None:
        self._stock = head.forward
        self._graphs = _Graphs(self._body, capture)

    def __call__(
        self,
        tokens: Tensor,
        states: Tensor,
        positions: Tensor,
        cache: Cache,
        this_pass: ForwardContext,
        *,
        logits_to_keep: int = 0,
    ) -> HeadOutput:
        """`EagleHead.forward`."""
        out: HeadOutput | None = self._graphs.run(tokens, positions, cache, this_pass, states)
        if out is None:
            stock: HeadOutput = self._stock(tokens, states, positions, cache, this_pass, logits_to_keep=logits_to_keep)
            return stock
        n = len(tokens)
        return HeadOutput(out.logits[:n][-logits_to_keep:], out.states[:n])

    def _body(self, inputs: _Inputs, cache: Cache, this_pass: ForwardContext) -> HeadOutput:
        assert inputs.states is not None
        return self._stock(inputs.tokens, inputs.states, inputs.positions, cache, this_pass)
