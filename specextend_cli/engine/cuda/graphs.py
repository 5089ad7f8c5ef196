"""Forwards of few tokens as CUDA graphs: one graph launch replaces a thousand kernel launches.

A graph repeats the same launches over the same memory, so everything that changes between forwards lies in device
memory: tokens, positions, the tree's mask, and the cache row to write first, which the Triton kernel reads there
(`attention/triton_tree.py`). Node counts come in buckets; the surplus nodes of a bucket are appended where no other
node sees them. One graph serves every length that its cache has memory for. A graph's output lies in its own memory
and is valid until the same graph runs again.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from transformers.cache_utils import Cache

from specextend_cli.engine.attention.function import ForwardContext
from specextend_cli.engine.attention.softmax import PLAIN, SoftmaxOptions
from specextend_cli.engine.attention.triton_tree import MOST_HEAD_DIM, attend, pack, triton_tree
from specextend_cli.engine.cache import BufferLayer, KVCache
from specextend_cli.engine.forward import ForwardBackend, ForwardInput, HeadOutput, ModelOutput
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel

BUCKETS = (1, 2, 4, 8, 12, 16, 32, 64)
Capture: TypeAlias = Callable[[Callable[[], Any], torch.device], tuple[Any, Callable[[], None]]]
"""Takes a function; gives what it returns, and a replay that computes it again in place. RuntimeError if it cannot."""
Out = TypeVar("Out", ModelOutput, HeadOutput)


def cuda_graph(body: Callable[[], Any], device: torch.device) -> tuple[Any, Callable[[], None]]:
    """The `Capture` of CUDA. The first replay computes what it returned."""
    with torch.cuda.device(device), _without_collections():
        here, aside = torch.cuda.current_stream(), _aside(device)
        aside.wait_stream(here)
        with torch.cuda.stream(aside):  # compiles kernels and allocates workspaces, which a capture must not do
            for _ in range(2):
                body()
        here.wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=aside, capture_error_mode="thread_local"):
            out = body()
        return out, graph.replay


@cache
def _aside(device: torch.device) -> torch.cuda.Stream:
    """One stream for all captures: every stream keeps a workspace of its own for good."""
    return torch.cuda.Stream(device)


@contextmanager
def _without_collections() -> Iterator[None]:
    """Collecting a graph while another is captured would break the capture."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def use_graphs(lm: LanguageModel, heads: Iterable[EagleHead] = (), *, capture: Capture = cuda_graph) -> None:
    """Let `lm`, and heads that draft for it, replay graphs where `triton_tree` attends for few tokens.

    Where a window begins, only the host knows: a model with sliding windows runs without graphs.
    """
    if not any(lm.windows):
        lm.forward_backend = GraphedModel(lm, capture)
    for head in heads:
        head.forward_backend = GraphedHead(head.run_model, capture)


def drop_graphs(lm: LanguageModel, heads: Iterable[EagleHead] = ()) -> None:
    """Let the models run themselves again."""
    lm.forward_backend = None
    for head in heads:
        head.forward_backend = None


class _Inputs:
    """A graph's inputs, in memory that stays in place: `nodes` nodes over `tree` keys at the cache's end."""

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
    """An attention `Backend`: the tree kernel over a cache's whole memory; its length is on the device."""

    def __init__(self, inputs: _Inputs) -> None:
        nodes, self.tree = inputs.mask.shape
        self.words = None if nodes == self.tree == 1 else pack(inputs.mask)
        self.length = inputs.start + nodes

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, scale: float, tree_mask: Tensor | None, softmax: SoftmaxOptions = PLAIN
    ) -> Tensor:
        return attend(q, k, v, scale, words=self.words, tree=self.tree, length=self.length, softmax=softmax)


class _RowsLayer(BufferLayer):
    """One layer's view of a cache's memory, [2, heads, capacity, d]."""

    def __init__(self, memory: Tensor, rows: Tensor) -> None:
        super().__init__()
        self.memory, self.rows = memory, rows

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Write `rows`; keys and values [1, heads, capacity, d] of the whole memory."""
        for memory, new in zip(self.memory, (key_states, value_states), strict=True):
            memory.index_copy_(1, self.rows, new[0].to(memory.dtype))
        keys, values = self.memory[:, None]
        return keys, values

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """The whole memory."""
        return self.memory.shape[2], 0

    def get_seq_length(self) -> int:
        """Not known to the host during a capture."""
        return 0

    def get_max_length(self) -> int:
        """The whole memory."""
        return self.memory.shape[2]


_Place: TypeAlias = tuple[int, torch.Size]


@dataclass(frozen=True)
class _Graph(Generic[Out]):
    """One captured forward: its inputs, its output, the context with its queries, and how to run it."""

    inputs: _Inputs
    out: Out
    context: ForwardContext
    replay: Callable[[], None]


class _Graphs(Generic[Out]):
    """The graphs of one model: by cache, by size, by the layers whose queries or states are kept, and by `besides`."""

    def __init__(self, run_model: Callable[[ForwardInput], Out], capture: Capture) -> None:
        self._run_model: Callable[[ForwardInput], Out] = run_model
        self._capture = capture
        self.failure: str | None = None
        """Why something could not be captured."""
        self._by_cache: WeakKeyDictionary[KVCache, tuple[_Place, dict[Any, _Graph[Out] | None]]] = WeakKeyDictionary()

    def replay(self, inputs: ForwardInput, *, besides: object = None) -> Out | None:
        """The output, of a bucket's rows, for inputs with tokens [n]; None where the model itself has to run."""
        tokens, cache, context = inputs.tokens, inputs.cache, inputs.context
        if not isinstance(cache, KVCache) or not _suits(cache, context):
            return None
        n, mask = len(tokens), context.tree_mask
        nodes = next((bucket for bucket in BUCKETS if bucket >= n), 0)
        if not nodes or (mask is None and n > 1) or cache.start + nodes > cache.capacity:
            return None
        tree = nodes if mask is None else mask.shape[1] + nodes - n
        given = (tokens, inputs.positions, inputs.states, mask, cache.start)
        graphs, key = self._of(cache), (nodes, tree, context.record, inputs.feature_layers, besides)
        if key not in graphs:
            held = _Inputs(nodes, tree, inputs.states, tokens.device)
            held.set(*given)
            graphs[key] = self._captured(held, cache, context.record, inputs.feature_layers)
        if (graph := graphs[key]) is None:
            return None
        graph.inputs.set(*given)
        graph.replay()
        every = graph.context.queries.items()
        context.queries.update({layer: asked._replace(queries=asked.queries[:, :n]) for layer, asked in every})
        return graph.out

    def _of(self, cache: KVCache) -> dict[Any, _Graph[Out] | None]:
        """The graphs over the cache's present memory; those over its former memory are dropped."""
        place = (cache.buffer.data_ptr(), cache.buffer.shape)
        known = self._by_cache.get(cache)
        if known is None or known[0] != place:
            known = self._by_cache[cache] = (place, {})
        return known[1]

    def _captured(
        self, held: _Inputs, cache: KVCache, record: frozenset[int], feature_layers: tuple[int, ...]
    ) -> _Graph[Out] | None:
        """None where the model cannot be captured because something in it asks the host."""
        layers = cache.buffer.unbind(1)
        tokens, positions = held.tokens, held.positions
        if held.states is None:  # a language model's are [b, n]
            tokens, positions = tokens[None], positions[None]

        def body() -> tuple[Out, ForwardContext]:
            rows = held.start + held.offsets
            context = ForwardContext(_AtLength(held), record=record)
            every = Cache(layers=[_RowsLayer(memory, rows) for memory in layers])
            wanted = ForwardInput(tokens, positions, every, context, feature_layers=feature_layers, states=held.states)
            return self._run_model(wanted), context

        try:
            (out, context), replay = self._capture(body, held.tokens.device)
        except RuntimeError as error:
            self.failure = str(error)
            return None
        return _Graph(held, out, context, replay)


def _suits(cache: KVCache, context: ForwardContext) -> bool:
    """Whether the kernel takes such keys. A prompt's last chunk is not replayed: its output is used for longer."""
    floats = (torch.float32, torch.float16, torch.bfloat16)
    fits = cache.buffer.dtype in floats and cache.buffer.shape[4] <= MOST_HEAD_DIM
    return context.backend is triton_tree and not context.record_last and fits


class GraphedModel(ForwardBackend[ModelOutput]):
    """A language model's `ForwardBackend`, for one sequence."""

    def __init__(self, lm: LanguageModel, capture: Capture) -> None:
        self._decoder: Any = lm.model.get_decoder()
        self.graphs: _Graphs[ModelOutput] = _Graphs(lm.run_model, capture)

    def run(self, inputs: ForwardInput) -> ModelOutput | None:
        """See `ForwardBackend`."""
        (b, n), rope = inputs.tokens.shape, getattr(self._decoder, "rotary_emb", None)  # bench/rope.py exchanges it
        if b > 1:
            return None
        flat = inputs._replace(tokens=inputs.tokens[0], positions=inputs.positions[0])
        out = self.graphs.replay(flat, besides=rope)
        if out is None:
            return None
        return ModelOutput(out.logits[:, :n][:, -inputs.logits_to_keep :], out.features)


class GraphedHead(ForwardBackend[HeadOutput]):
    """A draft head's `ForwardBackend`."""

    def __init__(self, run_model: Callable[[ForwardInput], HeadOutput], capture: Capture) -> None:
        self.graphs: _Graphs[HeadOutput] = _Graphs(run_model, capture)

    def run(self, inputs: ForwardInput) -> HeadOutput | None:
        """See `ForwardBackend`."""
        n, out = len(inputs.tokens), self.graphs.replay(inputs)
        return None if out is None else HeadOutput(out.logits[:n][-inputs.logits_to_keep :], out.states[:n])
