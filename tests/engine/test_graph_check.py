"""At load, graphs are compared with the models themselves, and Triton's attention with the model's own."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import product
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from specextend_cli.engine import attention_backends as table
from specextend_cli.engine import lm as lm_module
from specextend_cli.engine.attention import flash_package
from specextend_cli.engine.attention.hybrid import hybrid
from specextend_cli.engine.attention.triton_tree import MOST_CAUSAL
from specextend_cli.engine.attention_backends import BACKENDS, AttentionBackend, preferred
from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.cuda import draft_graphs, graph_check, graphs, ops
from specextend_cli.engine.cuda.body import GraphInputs, GraphOutput
from specextend_cli.engine.cuda.capture import CaptureFailedError
from specextend_cli.engine.cuda.graph_check import use_checked_graphs
from specextend_cli.engine.cuda.graphs import GraphRunner
from specextend_cli.engine.cuda.stock import StockBody
from specextend_cli.engine.drafters import EagleDrafter, NoDrafter
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.target import Target
from specextend_cli.errors import ModelError
from specextend_cli.runtime.runners import run_by_graphs, tree_for
from tests.engine.tiny_models import by_generate, prompt, tiny
from tests.helpers.decoding import DRAFTERS, run, small
from tests.helpers.graph_identity import drop_graphs
from tests.helpers.grid import but_for
from tests.helpers.pretend_device import PretendDevice
from tests.helpers.repeated_capture import Repeated
from tests.helpers.torch_kernels import replace_kernels, rows_at

CPU = torch.device("cpu")
SHAPE = TreeShape(nodes=12, depth=3, width=3, threshold=0.0)
OF_MODEL = OF_HEAD = 2  # graphs


@pytest.fixture(autouse=True)
def repeated(monkeypatch: pytest.MonkeyPatch) -> Repeated:
    replace_kernels(monkeypatch)
    monkeypatch.setattr(graphs, "TREE_BUCKETS", (12, 1))  # all of them are captured in test_graphs
    monkeypatch.setattr(draft_graphs, "PENDING_BUCKETS", (16, 1))
    return Repeated()


@pytest.fixture
def target() -> Target:
    return Target(LanguageModel(tiny(), backend="triton"))


def eagle(target: Target) -> EagleDrafter:
    made = DRAFTERS["eagle3"](target, small("retrieval"))
    assert isinstance(made, EagleDrafter)
    return made


BY_LEVELS = "drafts are grown level by level"
KEPT, NONE = "{} keeps transformers' layers", "{} runs without CUDA graphs"


def both(name: str) -> list[str]:
    """What is said of a model that could not be captured at all."""
    return [KEPT.format(name), NONE.format(name)]


Spoil = Callable[[GraphInputs, GraphOutput], object]


def spoiling(spoil: Spoil) -> Callable[[Any, Any], object]:
    """What a replay of a forward ends with: it spoils what was computed."""
    return lambda body, first: spoil(body.args[0], first) if isinstance(first, GraphOutput) else None


def spoil_keys(inputs: GraphInputs, out: GraphOutput) -> None:
    start = int(inputs.starts[0])
    heads, _ = rows_at(inputs.addresses[0], 1, 0, 1, start + 1, torch.empty(0, 16))
    heads[:, start].mul_(1.1)


WRONG: dict[str, Spoil] = {
    "logits": lambda inputs, out: out.logits.mul_(1.5),
    "states": lambda inputs, out: out.states[-1].mul_(1.1),
    "keys": spoil_keys,
    "queries": lambda inputs, out: out.queries[0].queries.mul_(1.1) if out.queries else None,
    "logits in a batch": lambda inputs, out: out.logits.mul_(1.5) if inputs.sequences > 1 else None,
}


OF_BOTH = [*product(["the model"], WRONG), *product(["the draft head"], ("logits", "states", "keys"))]
QUICK = (("the model", "logits"), ("the model", "keys"), ("the draft head", "states"))


@pytest.mark.parametrize("wrong", but_for(QUICK, OF_BOTH), ids="-".join)
def test_what_computes_something_else_runs_itself(target: Target, repeated: Repeated, wrong: tuple[str, str]) -> None:
    name, what = wrong
    is_head = name == "the draft head"

    def spoil(inputs: GraphInputs, out: GraphOutput) -> None:
        if (inputs.states is not None) == is_head:
            WRONG[what](inputs, out)

    made, repeated.end = eagle(target), spoiling(spoil)
    refused = use_checked_graphs(target, made, SHAPE, batch=4, capture=repeated)
    assert list(refused) == both(name)
    # The second level of a head attends to the root's keys, so that wrong ones are seen in its logits first.
    found = "" if is_head and what == "keys" else f"its {what} "
    assert all(f"{found}differ from transformers'" in why for why in refused.values())
    assert (target.lm.runner is target.lm.stock) != is_head
    assert (made.head.runner is made.head.stock) == is_head
    assert run(target, made, prompt(), small("retrieval"), new=8, shape=SHAPE)[0] == by_generate(8)


def test_threads_capture_one_after_the_other(repeated: Repeated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_check, "turn", Mock(return_value=threading.RLock()))  # the device's
    meeting, met = threading.Barrier(2), list[int]()

    def meet(body: object) -> None:
        with suppress(threading.BrokenBarrierError):
            met.append(meeting.wait(timeout=0.5))

    repeated.begin = meet
    targets = [Target(LanguageModel(tiny(), backend="triton")) for _ in range(2)]
    with ThreadPoolExecutor() as threads:
        assert list(threads.map(partial(use_checked_graphs, capture=repeated), targets)) == [{}, {}]
    assert met == []
    assert gc.isenabled()


@pytest.mark.parametrize("drafter", but_for(("lm", "eagle3"), ["self", "lm", "eagle1", "eagle3"]))
@pytest.mark.parametrize("part", ["_begin", "_expand"])
def test_drafts_that_are_wrong_are_grown_level_by_level(
    target: Target, repeated: Repeated, drafter: str, part: str
) -> None:
    def spoil(body: Any, first: object) -> None:
        method = body.func if isinstance(body, partial) else body
        if getattr(method, "__name__", "") == part:
            method.__self__._level.shares.mul_(0.9)
            method.__self__._level.tree[2].sub_(1 << 20)  # bits of scores

    made, repeated.end = DRAFTERS[drafter](target, small("retrieval")), spoil
    refused = use_checked_graphs(target, made, SHAPE, capture=repeated)
    assert list(refused) == [BY_LEVELS]
    assert "its scores differ from transformers'" in refused[BY_LEVELS]
    backend: Any = made.head.runner if isinstance(made, EagleDrafter) else made.lm.runner  # type: ignore[attr-defined]
    assert backend is not None
    assert backend.drafts is None
    assert run(target, made, prompt(), small("retrieval"), new=8, shape=SHAPE)[0] == by_generate(8)


def test_drafts_of_too_many_nodes_are_grown_level_by_level(target: Target, repeated: Repeated) -> None:
    made, shape = eagle(target), TreeShape(nodes=60, depth=20, width=8, threshold=0.0)
    why = "ValueError: 20 levels of 8 nodes are more than 128"
    assert use_checked_graphs(target, made, shape, capture=repeated) == {BY_LEVELS: why}
    assert isinstance(made.head.runner, GraphRunner)
    assert made.head.runner.drafts is None


def test_what_cannot_be_fused_is_said_and_runs_by_its_own_layers(
    target: Target, repeated: Repeated, monkeypatch: pytest.MonkeyPatch
) -> None:
    gated = ops.gated
    monkeypatch.setattr(ops, "gated", lambda gate_up: gated(gate_up) * 1.1)
    made = eagle(target)
    made.head.register_parameter("unknown", torch.nn.Parameter(torch.ones(3)))
    refused = use_checked_graphs(target, made, SHAPE, batch=2, capture=repeated)
    of_model, of_head = (KEPT.format(name) for name in ("the model", "the draft head"))
    assert list(refused) == [of_model, of_head]
    assert "its logits of a prompt differ from transformers'" in refused[of_model]
    assert refused[of_head] == "EagleHead has unknown, which our own forwards do not know"
    for runner in (target.lm.runner, made.head.runner):
        assert isinstance(runner, GraphRunner)
        assert isinstance(runner.body, StockBody)
    assert run(target, made, prompt(), small("retrieval"), new=8, shape=SHAPE)[0] == by_generate(8)
    drop_graphs(target.lm, made)
    assert (target.lm.runner, made.head.runner) == (target.lm.stock, made.head.stock)


class CompilationError(Exception):
    """As Triton's: of no class that others know."""


FULL, REFUSED = torch.OutOfMemoryError("CUDA out of memory"), CompilationError("no such instruction")
BROKEN = CaptureFailedError("RuntimeError: not permitted")
NO_OTHER = {"no further CUDA graph is captured": "RuntimeError: not permitted"}
NAMES = ("the model", "the draft head")
OF_DRAFTS = OF_MODEL + OF_HEAD + 1


@pytest.mark.parametrize(
    ("error", "first", "said"),
    [
        *((BROKEN, first, NO_OTHER) for first in (1, OF_MODEL + 1, OF_DRAFTS)),
        (FULL, 1, {NONE.format(name): "memory: CUDA out of memory" for name in NAMES}),
        (FULL, OF_DRAFTS, {BY_LEVELS: "OutOfMemoryError: CUDA out of memory"}),
        (REFUSED, 1, {line: "CompilationError: no such instruction" for name in NAMES for line in both(name)}),
    ],
)
def test_captures_that_fail_are_said(
    target: Target, repeated: Repeated, error: Exception, first: int, said: dict[str, str]
) -> None:
    """What was captured before is used. After one that was broken off no other is tried."""

    def begin(body: object) -> None:
        if repeated.captures >= first:
            raise error

    made, repeated.begin = eagle(target), begin
    assert use_checked_graphs(target, made, SHAPE, capture=repeated) == said
    assert error is not BROKEN or repeated.captures == first
    used = [model.runner is not model.stock for model in (target.lm, made.head)]
    assert used == [first > 1, first > OF_MODEL + 1]
    assert run(target, made, prompt(), small("retrieval"), new=8, shape=SHAPE)[0] == by_generate(8)


def test_a_second_check_is_not_by_graphs(target: Target, repeated: Repeated) -> None:
    """Graphs that went wrong since the first would agree with others that are wrong alike."""
    assert use_checked_graphs(target, capture=repeated) == {}
    repeated.end = spoiling(WRONG["logits"])
    assert list(use_checked_graphs(target, capture=repeated)) == both("the model")


def test_joined_weights_move_with_their_modules(target: Target, repeated: Repeated) -> None:
    """Whoever moves or saves a model finds its own weights alone, and each of them once."""
    model: Any = target.lm.model
    layer, names = model.get_decoder().layers[0].self_attn, set(model.state_dict())
    for _ in range(2):
        assert use_checked_graphs(target, capture=repeated) == {}
        storages = {part.weight.untyped_storage().data_ptr() for part in (layer.q_proj, layer.k_proj, layer.v_proj)}
        assert len(storages) == 1  # also after a second check
        assert set(model.state_dict()) == names
    weight = layer.q_proj.weight.clone()
    model.double().float()
    assert layer.q_proj.weight.untyped_storage().nbytes() == weight.nbytes
    assert layer.q_proj.weight.equal(weight)
    assert use_checked_graphs(target, capture=repeated) == {}
    assert run(target, DRAFTERS["none"](target, small("full")), prompt(), small("full"), new=8)[0] == by_generate(8)


class Linear4bit(torch.nn.Linear):
    """As bitsandbytes': its weight is of bytes."""

    def __init__(self, dense: torch.nn.Linear) -> None:
        super().__init__(dense.in_features, dense.out_features, bias=False)
        self.dense, self.weight = [dense], torch.nn.Parameter(torch.zeros(9, 1, dtype=torch.uint8), requires_grad=False)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.dense[0](rows)  # type: ignore[no-any-return]


def test_four_bits_are_captured_as_they_are_and_that_is_said(target: Target, repeated: Repeated) -> None:
    for layer in target.lm.model.get_decoder().layers:
        layer.mlp.up_proj = Linear4bit(layer.mlp.up_proj)
    why = "its weights are quantized"
    assert use_checked_graphs(target, capture=repeated) == {KEPT.format("the model"): why}
    assert run(target, DRAFTERS["none"](target, small("full")), prompt(), small("full"), new=8)[0] == by_generate(8)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """What graphs are asked for."""
    made = Mock(return_value={})
    monkeypatch.setattr(graph_check, "use_checked_graphs", made)
    monkeypatch.delenv("SPECEXTEND_GRAPHS", raising=False)
    return made


def on_gpu(**changes: Any) -> Any:
    """A target whose model says it is on a GPU, but for the changes."""
    model = {"device": torch.device("cuda"), "attention": "triton", "refused": {}, "state_bytes": 0}
    model["runner"] = SimpleNamespace(exact_rows=None)
    return Mock(lm=SimpleNamespace(**{**model, "layers": 2, "layers_with_keys": (0, 1), **changes}))


def stages(target: Any) -> list[str]:
    return [stage.name for stage in run_by_graphs(target, NoDrafter(), SHAPE)]


def test_what_takes_long_is_said_before_it_is_done(asked: Mock) -> None:
    target, drafter = on_gpu(), NoDrafter()
    coming = run_by_graphs(target, drafter, SHAPE, batch=16)
    assert next(coming).name == "preparing the GPU"
    asked.assert_not_called()
    assert list(coming) == []
    asked.assert_called_once_with(target, drafter, SHAPE, batch=16)


@pytest.mark.parametrize(
    ("changed", "variable"),
    [({"device": CPU}, ""), ({"attention": "torch"}, ""), ({}, "0"), ({}, "false"), ({}, "No")],
)
def test_no_graphs_on_other_devices_and_back_ends_and_if_turned_off(
    asked: Mock, changed: dict[str, Any], variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECEXTEND_GRAPHS", variable)
    assert stages(on_gpu(**changed)) == []
    asked.assert_not_called()
    assert tree_for(on_gpu(**changed).lm, SHAPE) == SHAPE


@pytest.mark.parametrize(
    ("given", "larger", "changed"),
    [
        (TreeShape(nodes=12, depth=5, width=3), TreeShape(nodes=60, depth=5, width=8), {}),
        (TreeShape(nodes=64, depth=10, width=10), TreeShape(nodes=64, depth=10, width=10), {}),
        (TreeShape(nodes=16, depth=20, width=2), TreeShape(nodes=60, depth=20, width=6), {}),  # fits a graph
        (TreeShape(nodes=100, depth=10, width=10), TreeShape(nodes=64, depth=10, width=10), {}),  # and a verification
        (SHAPE, SHAPE, {"state_bytes": 9}),
        (SHAPE, SHAPE, {"layers_with_keys": (0,)}),
        (TreeShape(nodes=50), TreeShape(nodes=16), {"device": CPU, "runner": SimpleNamespace(exact_rows=16)}),
    ],
)
def test_trees_are_larger_where_their_nodes_cost_little(
    asked: Mock, given: TreeShape, larger: TreeShape, changed: dict[str, Any]
) -> None:
    assert tree_for(on_gpu(**changed).lm, given) == larger


def test_what_speaks_against_them_is_one_line(asked: Mock) -> None:
    asked.return_value = {NONE.format("the model"): "no memory\nat all", BY_LEVELS: ""}
    said = ["preparing the GPU", f"{NONE.format('the model')}: no memory", f"{BY_LEVELS}: "]
    assert stages(on_gpu()) == said
    refused = {"triton": "\nFailed to find C compiler.\nPlease"}
    said = ["attention by torch instead of triton: Failed to find C compiler."]
    assert stages(on_gpu(refused=refused, attention="torch")) == said


def test_preferred_back_ends_by_device_and_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """flash-attn is slower than torch's own from Hopper on."""
    here = {"triton", "torch"}
    monkeypatch.setattr(table, "find_spec", lambda name: name in here or None)
    monkeypatch.setattr(flash_package, "is_installed", lambda: "flash_attn" in here)
    assert preferred(torch.device("cuda")) == ("triton", "torch")
    here |= {"flash_attn"}
    assert preferred(torch.device("cuda", 1)) == ("triton", "flash_attn", "torch")
    here.remove("triton")
    assert preferred(torch.device("cuda")) == ("flash_attn", "torch")
    monkeypatch.setattr(flash_package, "capability", lambda device: 9)
    assert preferred(torch.device("cuda")) == ("torch",)
    assert preferred(torch.device("cuda"), "flash_attn") == ("flash_attn",)
    assert preferred(CPU) == ("split",)
    assert preferred(CPU, "reference") == ("reference",)


def failing_for_prompts(q: Any, *given: Any) -> Any:
    """As on GPUs for which a package was not compiled: short texts may be read by another kernel."""
    if q.shape[2] > MOST_CAUSAL:
        raise RuntimeError("no kernel image is available for execution on the device")
    return hybrid(q, *given)


def wrong_in_trees(q: Any, k: Any, v: Any, scale: float, tree_mask: Any, *args: Any) -> Any:
    return hybrid(q, k, v if tree_mask is None else v.flip(2), scale, tree_mask, *args)


def wrong_in_prompts(q: Any, k: Any, v: Any, scale: float, tree_mask: Any, *args: Any) -> Any:
    return hybrid(q, k, v.flip(2) if tree_mask is None and q.shape[2] > 1 else v, scale, tree_mask, *args)


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (Mock(side_effect=CompilationError("no such instruction\nin line 3")), "CompilationError: no such"),
        (failing_for_prompts, "RuntimeError: no kernel image"),
        (wrong_in_trees, "its logits of a draft tree differ"),
        (wrong_in_prompts, "its logits of a prompt differ"),
    ],
)
def test_attention_that_fails_is_replaced(
    pretend: PretendDevice, broken: Any, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lm_module, "preferred", lambda device, name: ("triton", "torch"))
    monkeypatch.setitem(BACKENDS, "triton", AttentionBackend(lambda: broken))
    lm = LanguageModel(tiny().to("cuda"))
    assert (lm.attention, lm.backend) == ("torch", hybrid)
    assert list(lm.refused) == ["triton"]
    assert lm.refused["triton"].startswith(why)
    monkeypatch.setattr(lm_module, "preferred", lambda device, name: ("triton",))
    with pytest.raises((ModelError, CompilationError, RuntimeError)):
        LanguageModel(tiny().to("cuda"))
