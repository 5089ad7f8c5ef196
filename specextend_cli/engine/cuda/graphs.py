"""Forwards of few tokens as CUDA graphs, captured once at load: one graph launch replaces a thousand kernel launches.

Node counts and batch sizes come in buckets; the surplus rows of a bucket compute what nobody reads. A graph reads from
device memory where the cache lies and how long it is, so it serves every cache, and nothing is captured later. Every
graph keeps the states and queries of all layers, so what a drafter or a working set asks for changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from specextend_cli.engine.attention.function import Backend
from specextend_cli.engine.attention.triton_tree import WORD, pack, triton_tree
from specextend_cli.engine.cuda import ops
from specextend_cli.engine.cuda.body import MOST_SLOTS, WORDS, Body, GraphInputs, GraphOutput, addresses_of
from specextend_cli.engine.cuda.capture import Capture, capturing
from specextend_cli.engine.cuda.fused import FusedBody
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


def tree_buckets(nodes: int | None = None) -> tuple[int, ...]:
    """Those of trees of up to so many nodes, or all."""
    nodes = max(TREE_BUCKETS) if nodes is None else nodes
    fits = min((bucket for bucket in TREE_BUCKETS if bucket >= nodes), default=max(TREE_BUCKETS))
    return tuple(bucket for bucket in TREE_BUCKETS if bucket <= fits)


class GraphRunner(Runner):
    """Runs a model or a head: trees of one sequence, batches of one token each, and prompts by the fused layers."""

    def __init__(
        self,
        model: LanguageModel | EagleHead,
        body: Body,
        capture: Capture,
        *,
        trees: Sequence[int],
        batches: Sequence[int],
    ) -> None:
        """Capture graphs of trees by nodes, and of batches by sequences. Any error of `capture`."""
        super().__init__(model)
        self.body = body
        self._addresses: dict[int, tuple[int, ...]] = {}  # of batches' graphs, by sequences
        self._forwards = 0  # that ran so far
        scratch = model.new_cache(max(TREE_BUCKETS))  # every capture overwrites it
        device = scratch.device
        if scratch.states and isinstance(model, LanguageModel):
            some = torch.arange(2, device=device)
            model.forward(some, some, scratch)
            scratch.commit()
        at = scratch.states.addresses()
        if at is None:
            raise RuntimeError("its states cannot be found by an address")
        self._bits = 1 << torch.arange(WORD, device=device)
        # No scratch cache of several sequences: all of them write into one.
        shapes = [*((b, b) for b in batches), *((nodes, 1) for nodes in trees)]
        inputs = [
            GraphInputs(rows, b, device, body.states, more=len(at), buffers=len(scratch.buffers)) for rows, b in shapes
        ]
        for held in inputs:
            own = held.rows // held.sequences
            behind = [*[0] * held.sequences, *[own] * held.sequences, own, *addresses_of(scratch)]
            held.set([*[0] * held.rows, *range(held.rows), *[-1] * (held.rows * WORDS), *behind, *at])
        with capturing():
            graphs = [Graph(held, *capture(partial(body, held), device)) for held in inputs]
            # After all of them, which must not overwrite what these read: outputs.
            self._last = torch.zeros(1, dtype=torch.long, device=device)
            self._committing = {
                graph.inputs.rows: capture(partial(_commit_states, graph, self._last), device)[1]
                for graph in graphs
                if graph.out.recorded
            }
        self._batches = {graph.inputs.rows: graph for graph in graphs[: len(batches)]}
        self._trees = {graph.inputs.rows: graph for graph in graphs[len(batches) :]}

    def slots(self, sequences: int) -> int:
        """See `Runner`."""
        graph = _smallest(self._batches, sequences)
        return sequences if graph is None else graph.inputs.rows

    def batch_size(self, most: int) -> int:
        """See `Runner`."""
        return max((b for b in (1, *self._batches) if b <= most), default=most)

    def follows_trees(self, nodes: int, attention: Backend) -> bool:
        """See `Runner`."""
        return attention is triton_tree and _smallest(self._trees, nodes) is not None and self.body.is_current()

    def run(self, step: Step) -> Output:
        """See `Runner`. Prompts are read by the fused layers, launch by launch; what has no graph, by the model."""
        cache, n, model = step.cache, len(step), self._model
        is_ours = step.backend is triton_tree and self.body.is_current()
        is_tree = step.tree is not None or step.tree_mask is not None
        is_prompt = not cache.is_batch and not is_tree and (n > 1 or step.record_last)
        if is_ours and is_prompt and isinstance(self.body, FusedBody) and isinstance(model, LanguageModel):
            return self.body.read(step)
        graph = self._graph_for(step) if is_ours and not is_prompt else None
        at = cache.states.addresses() if graph else None
        if graph is None or at is None:
            return super().run(step)
        if cache.is_batch:
            self._set_batch(graph.inputs, step, at)
        elif step.tree is not None:
            self._set_tree(graph.inputs, step, step.tree, at)
        else:
            self._set_rows(graph.inputs, step)
        graph.replay()
        self._forwards += 1
        if step.tree is not None:
            self._after_tree(graph.inputs, step, step.tree)
        out, head = graph.out, isinstance(model, EagleHead)
        # Copies: the next replay overwrites them.
        features = [out.states[layer][:n] for layer in step.feature_layers]
        queries = {layer: out.queries[layer] for layer in sorted(step.record)}
        return Output(
            out.logits[:n][-step.logits_to_keep :],
            torch.cat(features, -1) if features else None,
            out.states[0][:n].clone() if head else None,
            {layer: asked._replace(queries=asked.queries[:, :n].clone()) for layer, asked in queries.items()},
        )

    def _graph_for(self, step: Step) -> Graph | None:
        """The smallest one; None where the model itself has to run."""
        cache, n, mask = step.cache, len(step), step.tree_mask
        if cache.is_batch:
            graph = _smallest(self._batches, cache.used)
            return graph if graph is not None and graph.inputs.rows <= cache.slots else None
        slots = 1 if mask is None else mask.shape[1]
        if slots > MOST_SLOTS or (step.tree is None and cache.states):
            return None
        return _smallest(self._trees, n if slots == 1 else max(n, 2))  # that of one row has no mask

    def _set_rows(self, held: GraphInputs, step: Step) -> None:
        """Tokens that are on the device."""
        cache, mask, n = step.cache, step.tree_mask, len(step)
        cache.make_room(cache.start + held.rows)
        held.set((cache.start, cache.end, 1 if mask is None else mask.shape[1], *addresses_of(cache)))
        held.tokens[:n], held.positions[:n] = step.tokens, step.positions
        if held.words is not None:
            pack(mask if mask is not None else torch.ones(1, 1, dtype=torch.bool, device=cache.device), held.words)
        if held.states is not None and isinstance(self._model, EagleHead):
            held.states[:n] = self._model.states_of(step)

    def _set_tree(self, held: GraphInputs, step: Step, tree: DraftTree, at: tuple[int, ...]) -> None:
        """A tree that is on the host: one upload, from which its nodes are read as well."""
        cache, n, more = step.cache, len(tree), [0] * (held.rows - len(tree))
        cache.make_room(cache.start + held.rows)
        positions = [step.root + depth for depth in tree.depths]
        words = [0] * (WORDS * n)  # as integers with a sign; no graph has more rows than a word has bits
        words[::WORDS] = [bits - (bits >> WORD - 1 << WORD) for bits in tree.ancestors]
        behind = (cache.start, cache.end, n, *addresses_of(cache), *at)
        held.set([*tree.tokens, *more, *positions, *more, *words, *more, *more, *behind])

    def _after_tree(self, held: GraphInputs, step: Step, tree: DraftTree) -> None:
        cache, n = step.cache, len(tree)
        if cache.states:
            cache.states.wait(n, partial(self._commit_row, held.rows, self._forwards))
        if held.words is not None:
            mask = (held.words[:n, :1] & self._bits[:n]) != 0
            tree.lies_at(Nodes(held.tokens[:n].clone(), held.positions[:n] - step.root, mask))

    def _commit_row(self, rows: int, forward: int, row: int) -> None:
        """Put the states after a row of a tree where they are to go. RuntimeError: others were computed since."""
        if forward != self._forwards:
            raise RuntimeError("the states of a tree have to be committed before the next forward")
        if rows > 1:  # of a single one they are there
            self._last.fill_(row)
            self._committing[rows]()

    def _set_batch(self, held: GraphInputs, step: Step, at: tuple[int, ...]) -> None:
        """The next token of every sequence of a batch."""
        cache, b = step.cache, len(step)
        if held.rows > b:  # slots that no sequence has: their rows are written before they are used
            held.starts.zero_()
        if self._addresses.get(held.rows) != (lies := (*addresses_of(cache), *at)):
            held.set(lies)
            self._addresses[held.rows] = lies
        held.tokens[:b] = step.tokens
        held.starts[:b] = cache.lengths
        held.positions.copy_(held.starts)
        torch.add(held.starts, 1, out=held.lengths[:-1])


def _smallest(graphs: Mapping[int, Graph], rows: int) -> Graph | None:
    """The smallest of graphs with so many rows."""
    return graphs[min(fits)] if (fits := [size for size in graphs if size >= rows]) else None


def _commit_states(graph: Graph, last: Tensor) -> None:
    """Store the states after the row `last` [1] of a tree, of all layers."""
    for index, layer in enumerate(graph.out.recorded):
        at = index, graph.inputs.more, graph.inputs.words, last
        ops.convolution_inputs(layer.new, layer.size, *at)
        if layer.recurrence is not None:
            ops.recur(layer.recurrence, torch.float32, *at)
