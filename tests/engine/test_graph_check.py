"""At load, graphs are compared with the models themselves, and Triton's attention with the model's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, get_args

import pytest
import torch

from specextend_cli.engine import attention as table
from specextend_cli.engine import lm as lm_module
from specextend_cli.engine.attention import BACKENDS, preferred
from specextend_cli.engine.attention.hybrid import hybrid
from specextend_cli.engine.config import Attention
from specextend_cli.engine.cuda import graph_check
from specextend_cli.engine.cuda.graph_check import use_checked_graphs
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.errors import ModelError, UsageError
from specextend_cli.runtime.devices import check_attention
from specextend_cli.runtime.graphs import run_by_graphs
from tests.engine.test_graph_rehearsal import kernels_of_torch  # noqa: F401 - a fixture
from tests.engine.tiny_heads import tiny_head
from tests.engine.tiny_models import tiny
from tests.helpers.rehearsed_capture import Rehearsal

pytestmark = pytest.mark.usefixtures("kernels_of_torch")
CPU = torch.device("cpu")


def only_for(wrong: Callable[[Any], bool], spoil: Callable[[Any], None]) -> Callable[..., Any]:
    """A capture whose replays `spoil` the output where it is a `wrong` one."""
    rehearsal = Rehearsal()

    def capture(body: Callable[[], Any], device: torch.device) -> tuple[Any, Callable[[], None]]:
        first, replay = rehearsal(body, device)

        def spoilt() -> None:
            replay()
            if wrong(first[0]):
                spoil(first[0])

        return first, spoilt

    return capture


@pytest.mark.parametrize("what", ["logits", "states", "keys", "queries"])
def test_a_model_that_computes_something_else_runs_itself(what: str) -> None:
    lm = LanguageModel(tiny(), backend="triton")
    rehearsal = Rehearsal()

    def capture(body: Callable[[], Any], device: torch.device) -> tuple[Any, Callable[[], None]]:
        (out, context), replay = rehearsal(body, device)
        start = body.__closure__[[*body.__code__.co_freevars].index("held")].cell_contents.start  # type: ignore[index]
        layers = body.__closure__[[*body.__code__.co_freevars].index("layers")].cell_contents  # type: ignore[index]
        spoil = {
            "logits": lambda: out.logits.add_(1.0),
            "states": lambda: out.features.mul_(1.1),
            "keys": lambda: layers[1][0, :, int(start)].mul_(1.1),
            "queries": lambda: context.queries[0][0].mul_(1.1),
        }[what]
        return (out, context), lambda: (replay(), spoil())[0]

    refused = use_checked_graphs(lm, [], capture=capture)
    assert lm.forward_backend is None
    assert list(refused) == ["the model"]
    assert f"its {what} differ from those without" in refused["the model"]


def test_a_head_that_computes_something_else_runs_itself() -> None:
    lm, head = LanguageModel(tiny(), backend="triton"), tiny_head()
    capture = only_for(lambda out: hasattr(out, "states"), lambda out: out.logits.add_(1.0))
    refused = use_checked_graphs(lm, [head], capture=capture)
    assert list(refused) == ["the draft head"]
    assert head.forward_backend is None
    assert lm.forward_backend is not None


@pytest.mark.parametrize("error", [RuntimeError, LookupError])
def test_a_capture_that_fails_is_said(error: type[Exception]) -> None:
    """Of any class: Triton's own are no RuntimeErrors."""

    def capture(body: Callable[[], Any], device: torch.device) -> Any:
        raise error("not permitted")

    lm, head = LanguageModel(tiny(), backend="triton"), tiny_head()
    refused = use_checked_graphs(lm, [head], capture=capture)
    assert refused.keys() == {"the model", "the draft head"}
    assert all("not permitted" in why for why in refused.values())
    assert lm.forward_backend is head.forward_backend is None


def test_what_a_model_counts_itself_is_found() -> None:
    """Each forward adds another number: a graph would add the first one for ever."""
    model = tiny()
    lm = LanguageModel(model, backend="triton")
    stock, calls = model.model.norm.forward, iter(range(1, 1000))
    model.model.norm.forward = lambda states: stock(states) * next(calls)

    def capture(body: Callable[[], Any], device: torch.device) -> tuple[Any, Callable[[], None]]:
        first = body()
        return first, lambda: None

    assert "differ" in use_checked_graphs(lm, capture=capture)["the model"]


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """A model that says it is on a GPU, of which `captured` is true once it runs by graphs."""
    lm = SimpleNamespace(device=torch.device("cuda"), parts=1, attention="triton", refused={}, captured=False)

    def use(lm: Any, heads: Any) -> dict[str, str]:
        lm.captured = True
        return {}

    monkeypatch.setattr(graph_check, "use_checked_graphs", use)
    monkeypatch.delenv("SPECEXTEND_GRAPHS", raising=False)
    return lm


def test_graphs_are_the_default_on_a_gpu(on_gpu: Any) -> None:
    assert not list(run_by_graphs(on_gpu))
    assert on_gpu.captured


@pytest.mark.parametrize(
    "changed", [{"device": CPU}, {"parts": 2}, {"attention": "torch"}, {"attention": "flash_attn"}], ids=str
)
def test_where_there_are_none(on_gpu: Any, changed: dict[str, Any]) -> None:
    vars(on_gpu).update(changed)
    assert not list(run_by_graphs(on_gpu))
    assert not on_gpu.captured


@pytest.mark.parametrize("off", ["0", "false", "No"])
def test_the_variable_turns_them_off(on_gpu: Any, off: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECEXTEND_GRAPHS", off)
    assert not list(run_by_graphs(on_gpu))
    assert not on_gpu.captured


def test_what_speaks_against_them_is_one_line(on_gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_check, "use_checked_graphs", lambda lm, heads: {"the model": "no memory\nat all"})
    assert [stage.name for stage in run_by_graphs(on_gpu)] == ["the model runs without CUDA graphs: no memory"]
    on_gpu.refused, on_gpu.attention = {"triton": "\nFailed to find C compiler.\nPlease"}, "torch"
    (stage,) = run_by_graphs(on_gpu)
    assert stage.name == "attention by torch instead of triton: Failed to find C compiler."


def test_the_names_are_those_of_the_table() -> None:
    assert get_args(Attention) == ("auto", *BACKENDS)


def test_what_is_preferred(monkeypatch: pytest.MonkeyPatch) -> None:
    here = {"triton", "torch"}
    monkeypatch.setattr(table, "find_spec", lambda name: name in here or None)
    assert preferred(torch.device("cuda")) == ("triton", "torch")
    here |= {"flash_attn"}
    assert preferred(torch.device("cuda", 1)) == ("triton", "flash_attn", "torch")
    here.remove("triton")
    assert preferred(torch.device("cuda")) == ("flash_attn", "torch")
    assert preferred(CPU) == ("split",)
    assert preferred(torch.device("mps")) == ("torch",)
    assert preferred(CPU, "reference") == ("reference",)


class CompilationError(Exception):
    """As Triton's: of no class that others know."""


def failing(q: Any, k: Any, v: Any, scale: float, tree_mask: Any, *args: Any) -> Any:
    raise CompilationError("no such instruction\nin line 3")


def wrong_in_trees(q: Any, k: Any, v: Any, scale: float, tree_mask: Any, *args: Any) -> Any:
    return hybrid(q, k, v if tree_mask is None else v.flip(2), scale, tree_mask, *args)


@pytest.mark.parametrize(
    ("broken", "why"), [(failing, "CompilationError: no such"), (wrong_in_trees, "its logits of a draft tree differ")]
)
def test_attention_that_fails_is_replaced(broken: Any, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lm_module, "preferred", lambda device, name: ("triton", "torch"))
    monkeypatch.setitem(BACKENDS, "triton", lambda: broken)
    lm = LanguageModel(tiny())
    assert (lm.attention, lm.backend) == ("torch", hybrid)
    assert list(lm.refused) == ["triton"]
    assert lm.refused["triton"].startswith(why)


def test_attention_that_was_asked_for_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BACKENDS, "triton", lambda: wrong_in_trees)
    with pytest.raises(ModelError):
        LanguageModel(tiny(), backend="triton")


@pytest.mark.parametrize(("name", "why"), [("triton", "it runs on cuda"), ("flash_attn", "it runs on cuda")])
def test_attention_of_another_device_is_refused(name: str, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_attention(name, CPU)
    assert why in caught.value.why
    with pytest.raises(UsageError):
        check_attention("split", torch.device("cuda"))


def test_attention_without_its_package_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specextend_cli.runtime.devices.find_spec", lambda name: None)
    with pytest.raises(UsageError) as caught:
        check_attention("flash_attn", torch.device("cuda"))
    assert "flash-attn is not installed" in caught.value.why
    for name, device in (("auto", "cuda"), ("torch", "cuda"), ("split", "cpu"), ("reference", "cpu")):
        check_attention(name, torch.device(device))
