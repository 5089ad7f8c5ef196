"""Forwards of few tokens as CUDA graphs, captured once at load: one graph launch replaces a thousand kernel launches.

Node counts and batch sizes come in buckets; the surplus rows of a bucket compute what nobody reads. A graph reads from
device memory where the cache lies and how long it is, so it serves every cache, and nothing is captured later. Every
graph keeps the states and queries of all layers, so what a drafter or a working set asks for changes nothing.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from specextend_cli.engine.attention.batched import batched
from specextend_cli.engine.attention.function import Backend, ForwardContext, LayerQueries
from specextend_cli.engine.attention.triton_tree import WORD, pack, triton_tree
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.cuda import ops
from specextend_cli.engine.cuda.fused import FusedModel
from specextend_cli.engine.cuda.step import MOST_SLOTS, WORDS, Recorded, Step, StepInputs, StepOutput, place_of
from specextend_cli.engine.forward import ForwardBackend, ForwardInput, HeadOutput, ModelOutput
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.tree import DraftTree, Nodes

TREE_BUCKETS: tuple[int, ...] = (64, 32, 16, 12, 8, 4, 2, 1)
"""Nodes of a forward's rows, in the order of their capture."""
BATCH_BUCKETS = (32, 16, 8, 4, 2)
"""Sequences; one is a tree with one node."""


Capture: TypeAlias = Callable[[Callable[[], Any], torch.device], tuple[Any, Callable[[], None]]]
"""Takes a function; gives what it returns, and a replay that computes it again in place. Raises where it cannot."""


def cuda_graph(body: Callable[[], Any], device: torch.device) -> tuple[Any, Callable[[], None]]:
    """The `Capture` of CUDA. The first replay computes what it returned.

    All graphs share one memory pool: they run one after the other, so what one computes on the way may lie where
    another does, and two threads must not run them at once. Captured in descending order of size, the smaller ones need
    memory of their own for results only.
    """
    with torch.cuda.device(device):
        here, side = torch.cuda.current_stream(), _side_stream(device)
        side.wait_stream(here)
        try:
            with torch.cuda.stream(side):  # compiles kernels and allocates workspaces, which a capture must not do
                body()
            here.wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=_pool(device), stream=side, capture_error_mode="thread_local"):
                out = body()
        finally:  # a capture that fails may leave its stream as the current one
            torch.cuda.set_stream(here)
        return out, graph.replay


@cache
def _side_stream(device: torch.device) -> torch.cuda.Stream:
    """One stream for all captures: every stream keeps a workspace of its own for good."""
    return torch.cuda.Stream(device)


@cache
def _pool(device: torch.device) -> Any:
    return torch.cuda.graph_pool_handle()


CAPTURING = threading.Lock()
"""Threads that capture wait for each other: they share a stream, memory, and whether garbage is collected."""


@contextmanager
def without_collections() -> Iterator[None]:
    """Collecting a graph while another is captured would break the capture."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class Graph(NamedTuple):
    """One captured forward: its inputs, its output, and how to run it."""

    inputs: StepInputs
    out: StepOutput
    replay: Callable[[], None]


class Graphs:
    """The graphs of one model, of trees by nodes and of batches by sequences."""

    def __init__(
        self,
        step: Step,
        scratch: KVCache,
        capture: Capture,
        *,
        trees: Sequence[int] = TREE_BUCKETS,
        batches: Sequence[int] = (),
        states: Tensor | None = None,
    ) -> None:
        """Capture all of them. Any error of `capture`. `scratch` has rows for the largest one, which it overwrites."""
        self.step = step
        device = scratch.device
        at = scratch.states.place()
        if at is None:
            raise RuntimeError("its recurrences are not in single precision")
        # No scratch cache of several sequences: all of them write into one.
        shapes = [*((b, b) for b in batches), *((nodes, 1) for nodes in trees)]
        inputs = [
            StepInputs(rows, b, device, states if b == 1 else None, more=len(at), buffers=len(scratch.buffers))
            for rows, b in shapes
        ]
        for held in inputs:
            own = held.rows // held.sequences
            behind = [*[0] * held.sequences, *[own] * held.sequences, own, *place_of(scratch)]
            held.set([*[0] * held.rows, *range(held.rows), *[-1] * (held.rows * WORDS), *behind, *at])
        bodies = [partial(step, held) for held in inputs]
        with without_collections():
            graphs = [Graph(held, *capture(body, device)) for held, body in zip(inputs, bodies, strict=True)]
            # After all of them, which must not overwrite what these read: outputs.
            self.last = torch.zeros(1, dtype=torch.long, device=device)
            kept = {graph.inputs.rows: graph for graph in graphs if graph.out.recorded}
            keeping = {rows: partial(_keep, of.out.recorded, of.inputs, self.last) for rows, of in kept.items()}
            self.keeping = {rows: capture(body, device)[1] for rows, body in keeping.items()}
        self.batches = {graph.inputs.rows: graph for graph in graphs[: len(batches)]}
        self.trees = {graph.inputs.rows: graph for graph in graphs[len(batches) :]}

    def tree(self, rows: int) -> Graph | None:
        """The smallest graph with so many rows."""
        return next((self.trees[nodes] for nodes in sorted(self.trees) if nodes >= rows), None)

    def batch(self, sequences: int) -> Graph | None:
        """The smallest graph with so many sequences."""
        return next((self.batches[b] for b in sorted(self.batches) if b >= sequences), None)


def _keep(recorded: Sequence[Recorded], inputs: StepInputs, last: Tensor) -> None:
    """Store the states after the row `last` [1] of a tree, of all layers."""
    for index, layer in enumerate(recorded):
        at = index, inputs.more, inputs.words, last
        ops.convolution_inputs(layer.new, layer.size, *at)
        if layer.recurrence is not None:
            ops.recur(layer.recurrence, torch.float32, *at)


def _suits(cache: object, context: ForwardContext) -> bool:
    """Whether it attends by the kernel. A prompt's last chunk is not replayed: it has too many rows."""
    return isinstance(cache, KVCache) and context.backend is triton_tree and not context.record_last


def _replay_tree(graphs: Graphs, inputs: ForwardInput, tokens: Tensor, positions: Tensor) -> Graph | None:
    """Run the graph for tokens [n] that are on the device; None where the model itself has to run."""
    cache, mask, n = inputs.cache, inputs.context.tree_mask, len(tokens)
    if not _suits(cache, inputs.context) or (mask is None and n > 1) or not graphs.step.is_current():
        return None
    assert isinstance(cache, KVCache)
    slots = 1 if mask is None else mask.shape[1]
    graph = graphs.tree(n if slots == 1 else max(n, 2))  # that of one row has no mask
    if graph is None or slots > MOST_SLOTS:
        return None
    start, end = _room(cache, graph.inputs.rows)
    held = graph.inputs
    held.set((start, end, slots, *place_of(cache)))
    held.tokens[:n], held.positions[:n] = tokens, positions
    if held.words is not None:
        pack(mask if mask is not None else torch.ones(1, 1, dtype=torch.bool, device=tokens.device), held.words)
    if held.states is not None and inputs.states is not None:
        held.states[:n] = inputs.states
    graph.replay()
    return graph


def _room(cache: KVCache, rows: int) -> tuple[int, int]:
    """The reserved rows of a forward, with memory for the `rows` that its graph writes."""
    cache.make_room(cache.start + rows)
    return cache.start, cache.end


def _queries(graph: Graph, layers: Sequence[int], n: int) -> dict[int, LayerQueries]:
    """Copies of what layers asked for at the first n rows: the next replay overwrites them."""
    every = {layer: graph.out.queries[layer] for layer in layers}
    return {layer: asked._replace(queries=asked.queries[0, :, :n].clone()) for layer, asked in every.items()}


class GraphedModel(ForwardBackend[ModelOutput]):
    """A language model's `ForwardBackend`: trees of one sequence, and batches of one token each."""

    def __init__(
        self, lm: LanguageModel, step: Step, capture: Capture, *, batches: Sequence[int], nodes: int | None = None
    ) -> None:
        """`nodes`: of the largest tree of a model with states, whose graphs keep more than others'."""
        self._places: dict[int, tuple[int, ...]] = {}  # of batches' graphs, by sequences
        self._bits = 1 << torch.arange(WORD, device=lm.device)
        self._forwards = 0  # that ran so far
        scratch, trees = lm.new_cache(max(TREE_BUCKETS)), TREE_BUCKETS
        if scratch.states:
            fits = min((bucket for bucket in trees if bucket >= (nodes or max(trees))), default=max(trees))
            trees = tuple(bucket for bucket in trees if bucket <= fits)
            some = torch.arange(2, device=lm.device)
            lm.forward(some, some, scratch)
            scratch.commit()
        self.graphs = Graphs(step, scratch, capture, trees=trees, batches=batches)

    def slots(self, sequences: int) -> int:
        """See `ForwardBackend`."""
        return next((b for b in sorted(self.graphs.batches) if b >= sequences), sequences)

    def batch_size(self, most: int) -> int:
        """See `ForwardBackend`."""
        return max((b for b in (1, *self.graphs.batches) if b <= most), default=most)

    def run(self, inputs: ForwardInput) -> ModelOutput | None:
        """See `ForwardBackend`."""
        (b, n), cache, step = inputs.tokens.shape, inputs.cache, self.graphs.step
        if isinstance(cache, KVCache) and cache.is_batch:
            return self._run_batch(inputs, cache)
        is_prompt = inputs.context.tree_mask is None and (n > 1 or inputs.context.record_last)
        if b == 1 and is_prompt and isinstance(step, FusedModel):
            fits = isinstance(cache, KVCache) and inputs.context.backend is triton_tree and step.is_current()
            return step.read(inputs, cache) if fits and isinstance(cache, KVCache) else None
        if isinstance(cache, KVCache) and cache.states:  # `run_tree` has declined
            return None
        graph = _replay_tree(self.graphs, inputs, inputs.tokens[0], inputs.positions[0])
        if graph is None:
            return None
        inputs.context.queries.update(_queries(graph, sorted(inputs.context.record), n))
        logits = graph.out.logits[None, :n]
        return ModelOutput(logits[:, -inputs.logits_to_keep :], _features(graph, inputs.feature_layers, n))

    def run_tree(
        self, tree: DraftTree, position: int, cache: KVCache, context: ForwardContext, feature_layers: Sequence[int]
    ) -> ModelOutput | None:
        """See `ForwardBackend`. One upload, from which the tree's nodes are read as well, and one launch."""
        n, graph = len(tree), self.graphs.tree(len(tree))
        if graph is None or not _suits(cache, context) or not self.graphs.step.is_current():
            return None
        rows = graph.inputs.rows
        at = cache.states.place()
        if at is None:
            return None
        start, end = _room(cache, rows)
        more = [0] * (rows - n)
        positions = [position + depth for depth in tree.depths]
        words = [0] * (WORDS * n)  # as integers with a sign; no graph has more rows than a word has bits
        words[::WORDS] = [bits - (bits >> WORD - 1 << WORD) for bits in tree.ancestors]
        behind = (start, end, n, *place_of(cache), *at)
        held = graph.inputs
        held.set([*tree.tokens, *more, *positions, *more, *words, *more, *more, *behind])
        graph.replay()
        self._forwards += 1
        if at:
            cache.states.wait(n, partial(self._keep_states, rows, self._forwards))
        if held.words is not None:
            mask = (held.words[:n, :1] & self._bits[:n]) != 0
            tree.lies_at(Nodes(held.tokens[:n].clone(), held.positions[:n] - position, mask))
        context.queries.update(_queries(graph, sorted(context.record), n))
        return ModelOutput(graph.out.logits[None, :n], _features(graph, feature_layers, n))

    def follows_trees(self, nodes: int, attention: Backend) -> bool:
        """See `ForwardBackend`."""
        return attention is triton_tree and self.graphs.tree(nodes) is not None and self.graphs.step.is_current()

    def _keep_states(self, rows: int, forward: int, row: int) -> None:
        """Put the states after a row of a tree where they are to go. RuntimeError: others were computed since."""
        if forward != self._forwards:
            raise RuntimeError("the states of a tree have to be kept before the next forward")
        if rows > 1:  # of a single one they are there
            self.graphs.last.fill_(row)
            self.graphs.keeping[rows]()

    def takes_batch(self, cache: KVCache) -> bool:
        """See `ForwardBackend`."""
        graph = self.graphs.batch(cache.used)
        return (
            graph is not None
            and graph.inputs.rows <= cache.slots
            and cache.states.place() is not None
            and self.graphs.step.is_current()
        )

    def _run_batch(self, inputs: ForwardInput, cache: KVCache) -> ModelOutput | None:
        b, graph = cache.used, self.graphs.batch(cache.used)
        if graph is None or inputs.context.backend is not batched or not self.takes_batch(cache):
            return None
        held = graph.inputs
        if held.rows > b:  # slots that no sequence has: their rows are written before they are used
            held.starts.zero_()
        if self._places.get(held.rows) != (place := (*place_of(cache), *(cache.states.place() or ()))):
            held.set(place)
            self._places[held.rows] = place
        held.tokens[:b] = inputs.tokens[:, 0]
        held.starts[:b] = cache.lengths
        held.positions.copy_(held.starts)
        torch.add(held.starts, 1, out=held.lengths[:-1])
        graph.replay()
        self._forwards += 1
        return ModelOutput(graph.out.logits[:b, None], None)


def _features(graph: Graph, layers: Sequence[int], n: int) -> Tensor | None:
    """A copy [1, n, widths] of states of the first n rows, side by side; None without any."""
    return torch.cat([graph.out.states[layer][:n] for layer in layers], -1)[None] if layers else None


class GraphedHead(ForwardBackend[HeadOutput]):
    """A draft head's `ForwardBackend`."""

    def __init__(self, head: EagleHead, step: Step, capture: Capture) -> None:
        states = torch.empty(0, head.config.hidden, dtype=head.fc.weight.dtype, device=head.fc.weight.device)
        self.graphs = Graphs(step, head.new_cache(max(TREE_BUCKETS)), capture, states=states)

    def run(self, inputs: ForwardInput) -> HeadOutput | None:
        """See `ForwardBackend`."""
        n, graph = len(inputs.tokens), _replay_tree(self.graphs, inputs, inputs.tokens, inputs.positions)
        if graph is None:
            return None
        return HeadOutput(graph.out.logits[:n][-inputs.logits_to_keep :], graph.out.states[0][:n].clone())
