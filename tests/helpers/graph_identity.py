"""What decoding by CUDA graphs must write, whoever captures them."""

from __future__ import annotations

import pytest

from specextend_cli.engine import check
from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.cuda import draft_graphs, graph_check, graphs
from specextend_cli.engine.cuda.graph_check import use_checked_graphs
from specextend_cli.engine.cuda.graphs import Capture
from specextend_cli.engine.drafters import Drafter, model_drafters
from specextend_cli.engine.drafters.model import ModelDrafter
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.target import Target
from tests.engine.tiny_models import generate, prompt, tiny
from tests.helpers.decoding import DRAFTERS, run, small

SHAPE = TreeShape(nodes=12, depth=4, width=3, threshold=0.0)


def drop_graphs(lm: LanguageModel, drafter: Drafter | None = None) -> None:
    """Let the models run themselves again."""
    lm.runner = lm.stock
    for one in model_drafters(drafter) if drafter else ():
        if isinstance(one, ModelDrafter):
            one.model.runner = one.model.stock


def use_few_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """And short texts to check them by: the interpreter takes milliseconds for each row and head of a layer."""
    monkeypatch.setattr(check, "_SHORT", (9, 4))
    monkeypatch.setattr(check, "_LONG", 40)
    monkeypatch.setattr(graph_check, "_PROMPT", 13)
    monkeypatch.setattr(graphs, "TREE_BUCKETS", (12, 4, 1))
    monkeypatch.setattr(draft_graphs, "PENDING_BUCKETS", (4, 1))


def check_identity(
    device: str, drafter: str, capture: Capture, *, new: int, length: int, name: str = "llama", **changes: str
) -> None:
    """Everything by graphs, fused if it can be, writes what `generate` does, and drafts what is drafted without."""
    target = Target(LanguageModel(tiny(name).to(device), backend="triton"))
    retrieval = small("retrieval", **changes)
    _, without = run(target, DRAFTERS[drafter](target, retrieval), prompt(length), retrieval, new=new, shape=SHAPE)
    made = DRAFTERS[drafter](target, retrieval)
    refused = use_checked_graphs(target, made, SHAPE, batch=2, capture=capture)
    assert set(refused.values()) <= {"some of its layers are recurrent"}, refused
    assert target.lm.runner is not target.lm.stock
    written, meter = run(target, made, prompt(length), retrieval, new=new, shape=SHAPE)
    assert written == generate(tiny(name).to(device), prompt(length), new)
    assert meter.accepted_lengths == without.accepted_lengths
    drop_graphs(target.lm, made)
