"""What graphs keep in memory is what the check before loading counts for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from torch import Tensor

from specextend_cli.engine.config import Retrieval, TreeShape
from specextend_cli.engine.cuda.draft_graphs import DraftGraphs
from specextend_cli.engine.cuda.graph_check import use_checked_graphs
from specextend_cli.engine.cuda.graphs import BATCH_BUCKETS, TREE_BUCKETS, GraphedHead, GraphedModel
from specextend_cli.engine.cuda.step import StepInputs
from specextend_cli.engine.drafters import EagleDrafter, LMDrafter, model_drafters
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.target import Target
from specextend_cli.models import footprint
from specextend_cli.models.footprint import Footprint
from specextend_cli.models.shape import Shape
from tests.engine.tiny_models import tiny
from tests.helpers.decoding import DRAFTERS, small
from tests.helpers.graph_identity import SHAPE
from tests.helpers.grid import but_for
from tests.helpers.repeated_capture import Repeated, only_stock_layers
from tests.helpers.torch_kernels import replace_kernels


class Keeping(Repeated):
    """A capture that remembers what stays in memory: results, not what is computed on the way."""

    def results(self) -> list[Tensor]:
        return [tensor for results in self._results for tensor in results]


def inputs_of(backend: GraphedModel | GraphedHead) -> Iterator[StepInputs | object]:
    yield from (graph.inputs for graph in (*backend.graphs.trees.values(), *backend.graphs.batches.values()))
    if isinstance(drafts := backend.drafts, DraftGraphs):
        yield from (drafts._level, drafts._level.inputs)
        for pending, _ in drafts._first.values():
            yield from (pending.inputs, pending)


def tensors_of(held: object) -> list[Tensor]:
    values = held._asdict() if hasattr(held, "_asdict") else vars(held)
    return [tensor for tensor in values.values() if isinstance(tensor, Tensor)]


def size_of(tensors: list[Tensor]) -> int:
    storages = {storage._cdata: storage for tensor in tensors for storage in [tensor.untyped_storage()]}
    return sum(storage.nbytes() for storage in storages.values())


@pytest.mark.parametrize("layers", ["fused", "stock"])
@pytest.mark.parametrize("drafter", but_for(("lm", "eagle3"), ["none", "self", "lm", "eagle1", "eagle3"]))
def test_what_graphs_keep_is_counted(drafter: str, layers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left out, numbers and what whole drafts begin with, is a seventh even of such small models."""
    replace_kernels(monkeypatch)
    if layers == "stock":
        only_stock_layers(monkeypatch)
    target, capture = Target(LanguageModel(tiny(), backend="triton")), Keeping()
    made = DRAFTERS[drafter](target, small("retrieval"))
    use_checked_graphs(target, made, SHAPE, batch=32, capture=capture)
    backends, draft, inputs = {id(target.lm): target.lm.forward_backend}, None, list[Tensor]()
    for one in model_drafters(made):
        if isinstance(one, EagleDrafter):
            backends[id(one.head)], draft = one.head.forward_backend, one.head.config
        if isinstance(one, LMDrafter) and not one.is_self:
            backends[id(one.lm)], draft = one.lm.forward_backend, Shape.from_config(one.lm.config.to_dict())
    for backend in backends.values():
        assert isinstance(backend, GraphedModel | GraphedHead)
        inputs += [tensor for held in inputs_of(backend) for tensor in tensors_of(held)]
    shape = Shape.from_config(target.lm.config.to_dict())
    counted = Footprint(shape, draft, Retrieval(), TreeShape(), item=4, draft_item=4).graph_outputs
    kept = size_of([*capture.results(), *inputs])
    assert counted <= kept <= 1.15 * counted, (counted, kept)


@pytest.mark.parametrize("nodes", [12, 60])
@pytest.mark.parametrize("name", but_for(("qwen3.5",), ("qwen3.5", "qwen3-next", "olmo-hybrid", "lfm2")))
def test_what_graphs_keep_of_recurrent_layers(name: str, nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of trees up to the preset's; what states can be computed of is counted roughly."""
    replace_kernels(monkeypatch)
    target, capture, tree = Target(LanguageModel(tiny(name), backend="triton")), Keeping(), TreeShape(nodes=nodes)
    use_checked_graphs(target, None, tree, batch=32, capture=capture)
    backend = target.lm.forward_backend
    assert isinstance(backend, GraphedModel)
    assert max(backend.graphs.trees) == min(rows for rows in TREE_BUCKETS if rows >= nodes)
    assert set(backend.graphs.keeping) == set(backend.graphs.trees) - {1}
    shape = Shape.from_config(target.lm.config.to_dict())
    counted = Footprint(shape, None, Retrieval(), tree, item=4).graph_outputs
    kept = size_of([*capture.results(), *(tensor for held in inputs_of(backend) for tensor in tensors_of(held))])
    assert 0.6 * counted <= kept <= 1.3 * counted, (counted, kept)


def test_rows_are_those_of_all_graphs() -> None:
    assert sorted(TREE_BUCKETS) == list(footprint._TREES)
    assert sum(BATCH_BUCKETS) == footprint._BATCH_ROWS
    assert max(*TREE_BUCKETS, *BATCH_BUCKETS) == footprint._MOST_ROWS


def test_what_is_shared_is_counted_once() -> None:
    shape = Shape.from_config(tiny().config.to_dict())
    made = Footprint(shape, None, Retrieval(), TreeShape())
    assert made.graphs - made.graph_outputs == made.prefill(footprint._MOST_ROWS) + footprint._CUBLAS
    few, many = (
        Footprint(shape.model_copy(update={"state": state}), None, Retrieval(), TreeShape(nodes=12))
        for state in (1, 10**9)
    )
    assert few.graphs == few.graph_outputs + few.prefill(footprint._MOST_ROWS) + footprint._CUBLAS - 8 * 4
    assert many.graphs == 0  # less than the nodes' states, for which there is memory
