"""Forwards of few tokens as CUDA graphs, captured once at load: one graph launch replaces a thousand kernel launches.

Node counts and batch sizes come in buckets; the surplus rows of a bucket compute what nobody reads. A graph reads from
device memory where the cache lies and how long it is, so it serves every cache, and nothing is captured later. Every
graph keeps the states and queries of all layers, so what a drafter or a working set asks for changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from specextend_cli.engine.attention.function import Backend, LayerQueries
from specextend_cli.engine.attention.triton_tree import WORD, pack, triton_tree
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.cuda import ops
from specextend_cli.engine.cuda.body import MOST_SLOTS, WORDS, Body, GraphInputs, GraphOutput, Recorded, addresses_of
from specextend_cli.engine.cuda.capture import Capture, capturing
from specextend_cli.engine.cuda.fused import FusedModel
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.step import Output, Runner, Step
from specextend_cli.engine.tree import DraftTree, Nodes

TREE_BUCKETS: tuple[int, ...] = (64, 32, 16, 12, 8, 4, 2, 1)
"""Nodes of a forward's rows, in the order of their capture."""
BATCH_BUCKETS = (32, 16, 8, 4, 2)
"""Sequences; one is a tree with one node."""


class Graph(NamedTuple):
    """One captured forward: its inputs, its output, and how to run it."""

    inputs: GraphInputs
    out: GraphOutput
    replay: Callable[[], None]


class Graphs:
    """The graphs of one model, of trees by nodes and of batches by sequences."""

    def __init__(
        self,
        body: Body,
        scratch: KVCache,
        capture: Capture,
        *,
        trees: Sequence[int] = TREE_BUCKETS,
        batches: Sequence[int] = (),
        states: Tensor | None = None,
    ) -> None:
        """Capture all of them. Any error of `capture`. `scratch` has rows for the largest one, which it overwrites."""
        self.body = body
        device = scratch.device
        at = scratch.states.addresses()
        if at is None:
            raise RuntimeError("its states cannot be found by an address")
        # No scratch cache of several sequences: all of them write into one.
        shapes = [*((b, b) for b in batches), *((nodes, 1) for nodes in trees)]
        inputs = [
            GraphInputs(rows, b, device, states if b == 1 else None, more=len(at), buffers=len(scratch.buffers))
            for rows, b in shapes
        ]
        for held in inputs:
            own = held.rows // held.sequences
            behind = [*[0] * held.sequences, *[own] * held.sequences, own, *addresses_of(scratch)]
            held.set([*[0] * held.rows, *range(held.rows), *[-1] * (held.rows * WORDS), *behind, *at])
        bodies = [partial(body, held) for held in inputs]
        with capturing():
            graphs = [Graph(held, *capture(one, device)) for held, one in zip(inputs, bodies, strict=True)]
            # After all of them, which must not overwrite what these read: outputs.
            self.last = torch.zeros(1, dtype=torch.long, device=device)
            kept = [graph for graph in graphs if graph.out.recorded]
            commits = [partial(_commit_states, graph.out.recorded, graph.inputs, self.last) for graph in kept]
            self.committing = {
                graph.inputs.rows: capture(commit, device)[1] for graph, commit in zip(kept, commits, strict=True)
            }
        self.batches = {graph.inputs.rows: graph for graph in graphs[: len(batches)]}
        self.trees = {graph.inputs.rows: graph for graph in graphs[len(batches) :]}

    def tree(self, rows: int) -> Graph | None:
        """The smallest graph with so many rows."""
        return next((self.trees[nodes] for nodes in sorted(self.trees) if nodes >= rows), None)

    def for_tree(self, step: Step, rows: int) -> Graph | None:
        """The same for a forward that attends by the kernel, and is no prompt's last chunk: that has more rows."""
        suits = step.backend is triton_tree and not step.record_last and self.body.is_current()
        return self.tree(rows) if suits else None

    def batch(self, sequences: int) -> Graph | None:
        """The smallest graph with so many sequences."""
        return next((self.batches[b] for b in sorted(self.batches) if b >= sequences), None)


def _commit_states(recorded: Sequence[Recorded], inputs: GraphInputs, last: Tensor) -> None:
    """Store the states after the row `last` [1] of a tree, of all layers."""
    for index, layer in enumerate(recorded):
        at = index, inputs.more, inputs.words, last
        ops.convolution_inputs(layer.new, layer.size, *at)
        if layer.recurrence is not None:
            ops.recur(layer.recurrence, torch.float32, *at)


def _replay(graphs: Graphs, step: Step) -> Graph | None:
    """Run the graph for tokens that are on the device; None where the model itself has to run."""
    cache, mask, n = step.cache, step.tree_mask, len(step)
    slots = 1 if mask is None else mask.shape[1]
    graph = graphs.for_tree(step, n if slots == 1 else max(n, 2))  # that of one row has no mask
    if graph is None or slots > MOST_SLOTS or (mask is None and n > 1):
        return None
    start, end = _room(cache, graph.inputs.rows)
    held = graph.inputs
    held.set((start, end, slots, *addresses_of(cache)))
    held.tokens[:n], held.positions[:n] = step.tokens, step.positions
    if held.words is not None:
        pack(mask if mask is not None else torch.ones(1, 1, dtype=torch.bool, device=cache.device), held.words)
    if held.states is not None and step.states is not None:
        held.states[:n] = step.states
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


def tree_buckets(lm: LanguageModel, nodes: int | None) -> tuple[int, ...]:
    """Those of a model's graphs; with states, whose graphs keep more than others', up to trees of so many nodes."""
    if not lm.state_bytes or nodes is None:
        return TREE_BUCKETS
    fits = min((bucket for bucket in TREE_BUCKETS if bucket >= nodes), default=max(TREE_BUCKETS))
    return tuple(bucket for bucket in TREE_BUCKETS if bucket <= fits)


class GraphedModel(Runner):
    """A language model's `Runner`: trees of one sequence, and batches of one token each."""

    def __init__(
        self, lm: LanguageModel, body: Body, capture: Capture, *, batches: Sequence[int], nodes: int | None = None
    ) -> None:
        """For `nodes` see `tree_buckets`."""
        self._stock = lm.stock
        self._addresses: dict[int, tuple[int, ...]] = {}  # of batches' graphs, by sequences
        self._bits = 1 << torch.arange(WORD, device=lm.device)
        self._forwards = 0  # that ran so far
        scratch, trees = lm.new_cache(max(TREE_BUCKETS)), tree_buckets(lm, nodes)
        if scratch.states:
            some = torch.arange(2, device=lm.device)
            lm.forward(some, some, scratch)
            scratch.commit()
        self.graphs = Graphs(body, scratch, capture, trees=trees, batches=batches)

    def slots(self, sequences: int) -> int:
        """See `Runner`."""
        return next((b for b in sorted(self.graphs.batches) if b >= sequences), sequences)

    def batch_size(self, most: int) -> int:
        """See `Runner`."""
        return max((b for b in (1, *self.graphs.batches) if b <= most), default=most)

    def run(self, step: Step) -> Output:
        """See `Runner`. Prompts are read by the fused layers, launch by launch; what has no graph, by the model."""
        cache, n, graph = step.cache, len(step), None
        if cache.is_batch:
            return self._run_batch(step, cache)
        is_prompt = step.tree is None and step.tree_mask is None and (n > 1 or step.record_last)
        body = self.graphs.body
        if is_prompt and isinstance(body, FusedModel) and step.backend is triton_tree and body.is_current():
            return body.read(step, cache)
        if step.tree is not None:
            graph = self._replay_tree(step, step.tree, cache)
        elif not cache.states:
            graph = _replay(self.graphs, step)
        if graph is None:
            return self._stock.run(step)
        logits = graph.out.logits[:n][-step.logits_to_keep :]
        queries = _queries(graph, sorted(step.record), n)
        return Output(logits, _features(graph, step.feature_layers, n), queries=queries)

    def _replay_tree(self, step: Step, tree: DraftTree, cache: KVCache) -> Graph | None:
        """Run the graph for a tree that is on the host; None where the model has to run.

        One upload, from which the tree's nodes are read as well, and one launch.
        """
        n, graph = len(tree), self.graphs.for_tree(step, len(tree))
        at = cache.states.addresses() if graph else None
        if graph is None or at is None:
            return None
        rows = graph.inputs.rows
        start, end = _room(cache, rows)
        more = [0] * (rows - n)
        positions = [step.root + depth for depth in tree.depths]
        words = [0] * (WORDS * n)  # as integers with a sign; no graph has more rows than a word has bits
        words[::WORDS] = [bits - (bits >> WORD - 1 << WORD) for bits in tree.ancestors]
        behind = (start, end, n, *addresses_of(cache), *at)
        held = graph.inputs
        held.set([*tree.tokens, *more, *positions, *more, *words, *more, *more, *behind])
        graph.replay()
        self._forwards += 1
        if at:
            cache.states.wait(n, partial(self._commit_row, rows, self._forwards))
        if held.words is not None:
            mask = (held.words[:n, :1] & self._bits[:n]) != 0
            tree.lies_at(Nodes(held.tokens[:n].clone(), held.positions[:n] - step.root, mask))
        return graph

    def follows_trees(self, nodes: int, attention: Backend) -> bool:
        """See `Runner`."""
        return attention is triton_tree and self.graphs.tree(nodes) is not None and self.graphs.body.is_current()

    def _commit_row(self, rows: int, forward: int, row: int) -> None:
        """Put the states after a row of a tree where they are to go. RuntimeError: others were computed since."""
        if forward != self._forwards:
            raise RuntimeError("the states of a tree have to be committed before the next forward")
        if rows > 1:  # of a single one they are there
            self.graphs.last.fill_(row)
            self.graphs.committing[rows]()

    def _run_batch(self, step: Step, cache: KVCache) -> Output:
        b, graph = cache.used, self.graphs.batch(cache.used)
        fits = graph is not None and graph.inputs.rows <= cache.slots and self.graphs.body.is_current()
        if graph is None or not fits or cache.states.addresses() is None:
            return self._stock.run(step)
        held = graph.inputs
        if held.rows > b:  # slots that no sequence has: their rows are written before they are used
            held.starts.zero_()
        if self._addresses.get(held.rows) != (at := (*addresses_of(cache), *(cache.states.addresses() or ()))):
            held.set(at)
            self._addresses[held.rows] = at
        held.tokens[:b] = step.tokens
        held.starts[:b] = cache.lengths
        held.positions.copy_(held.starts)
        torch.add(held.starts, 1, out=held.lengths[:-1])
        graph.replay()
        self._forwards += 1
        return Output(graph.out.logits[:b])


def _features(graph: Graph, layers: Sequence[int], n: int) -> Tensor | None:
    """A copy [n, widths] of states of the first n rows, side by side; None without any."""
    return torch.cat([graph.out.states[layer][:n] for layer in layers], -1) if layers else None


class GraphedHead(Runner):
    """A draft head's `Runner`."""

    def __init__(self, head: EagleHead, body: Body, capture: Capture) -> None:
        self._head = head
        states = torch.empty(0, head.config.hidden, dtype=head.fc.weight.dtype, device=head.fc.weight.device)
        self.graphs = Graphs(body, head.new_cache(max(TREE_BUCKETS)), capture, states=states)

    def run(self, step: Step) -> Output:
        """See `Runner`."""
        if step.features is not None:
            step.states, step.features = self._head.states_of(step), None
        n, graph = len(step), _replay(self.graphs, step)
        if graph is None:
            return self._head.run_modules(step)
        return Output(graph.out.logits[:n][-step.logits_to_keep :], state=graph.out.states[0][:n].clone())
