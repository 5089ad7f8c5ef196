"""The whole engine on a device that is not the host: no tensor is left behind, and the tokens are the processor's."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from specextend_cli.engine.attention import flash_package
from specextend_cli.engine.attention.hybrid import hybrid
from specextend_cli.engine.attention.triton_tree import MOST_CAUSAL
from specextend_cli.engine.attention_backends import BACKENDS
from specextend_cli.engine.batch import BatchRequest, decode_batch
from specextend_cli.engine.config import Retrieval, Sampling, TreeShape
from specextend_cli.engine.cuda import fused
from specextend_cli.engine.cuda.graph_check import use_checked_graphs
from specextend_cli.engine.decode import decode
from specextend_cli.engine.draft_gate import DraftGate
from specextend_cli.engine.drafters import Drafter
from specextend_cli.engine.events import Retrieved, Step
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
from tests.engine.tiny_models import ARCHITECTURES, by_generate, generate, prompt, tiny
from tests.helpers.decoding import DRAFTERS, POLICIES, run, small
from tests.helpers.grid import but_for, pairs
from tests.helpers.pretend_device import Pretend, PretendDevice, flash_attn_func
from tests.helpers.repeated_capture import Repeated, only_stock_layers
from tests.helpers.torch_kernels import replace_attention, replace_kernels

NEW, PROMPT = 12, prompt(90)  # every operation is dispatched in Python
SHAPE = TreeShape(nodes=8, depth=3, width=2, threshold=0.0)
NAMES = ("torch", "reference", "split", "flash_attn", "triton")


@pytest.fixture(autouse=True)
def packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """flash-attn and Triton's kernels, of which no machine without a GPU has any."""
    package = ModuleType("flash_attn")
    package.__spec__, package.flash_attn_func = ModuleSpec("flash_attn", None), flash_attn_func
    monkeypatch.setitem(sys.modules, "flash_attn", package)
    monkeypatch.setattr(flash_package, "is_installed", lambda: True)
    replace_attention(monkeypatch)


def there(name: str = "llama", **settings: str) -> LanguageModel:
    return LanguageModel(tiny(name).to("cuda"), **settings)


def written(
    lm: LanguageModel, name: str, retrieval: Retrieval, sampling: Sampling | None = None, *, gate: bool = False
) -> list[int]:
    target = Target(lm)
    made = DRAFTERS[name](target, retrieval)
    return run(target, made, PROMPT, retrieval, sampling, gate=gate, new=NEW, shape=SHAPE)[0]


SOME = ("none", "random", "self", "lm-window", "eagle3.1", "blend-eagle")
"""Drafters of the quick tests: every kind, of which the last has four."""


@pairs(SOME, drafter=DRAFTERS, policy=POLICIES, positions=("absolute", "compact"))
def test_every_drafter_and_policy(pretend: PretendDevice, drafter: str, policy: str, positions: str) -> None:
    assert there().device == torch.device("cuda:0")
    assert written(there(), drafter, small(policy, positions=positions)) == by_generate(NEW, len(PROMPT))


def test_a_kernel_that_fails_for_prompts_is_replaced_at_load(
    pretend: PretendDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on GPUs for which a package was not compiled: short texts may be read by another one."""

    def failing(q: Tensor, *given: Any) -> Tensor:
        if q.shape[2] > MOST_CAUSAL:
            raise RuntimeError("no kernel image is available for execution on the device")
        return hybrid(q, *given)

    monkeypatch.setitem(BACKENDS, "triton", replace(BACKENDS["triton"], make=lambda: failing))
    lm = there()
    assert (lm.attention, list(lm.refused)) == ("flash_attn", ["triton"])
    assert "no kernel image" in lm.refused["triton"]


@pairs(backend=NAMES, drafter=("eagle3", "none", "ngram", "lm", "blend"), policy=("retrieval", "full", "streaming"))
def test_every_back_end(pretend: PretendDevice, backend: str, drafter: str, policy: str) -> None:
    assert written(there(backend=backend), drafter, small(policy)) == by_generate(NEW, len(PROMPT))


def by_graphs(monkeypatch: pytest.MonkeyPatch, target: Target, drafter: Drafter | None, layers: str) -> Repeated:
    """Let its models replay what was captured of the `layers`."""
    replace_kernels(monkeypatch)
    monkeypatch.setattr(fused, "Tensor", Pretend)  # whose weights are plain here
    if layers == "stock":
        only_stock_layers(monkeypatch)
    capture = Repeated()
    refused = use_checked_graphs(target, drafter, SHAPE, batch=3, capture=capture)
    assert ("the model keeps transformers' layers" in refused) == (layers == "stock")
    assert not any(name.startswith("the model runs without") for name in refused)
    capture.replays = 0
    capture.rows.clear()
    return capture


@pytest.mark.full  # without the pretend device: tests/engine/test_graphs.py
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_every_drafter_by_graphs(pretend: PretendDevice, monkeypatch: pytest.MonkeyPatch, drafter: str) -> None:
    target, retrieval = Target(there(backend="triton")), small("retrieval")
    made = DRAFTERS[drafter](target, retrieval)
    capture = by_graphs(monkeypatch, target, made, "fused")
    captures = capture.captures
    assert run(target, made, PROMPT, retrieval, new=NEW, shape=SHAPE)[0] == by_generate(NEW, len(PROMPT))
    assert capture.replays > 0
    assert capture.captures == captures


@pytest.mark.parametrize("name", but_for(("phi3",), ARCHITECTURES))
def test_every_architecture(pretend: PretendDevice, name: str) -> None:
    assert written(there(name), "blend", small("retrieval")) == by_generate(NEW, len(PROMPT), name)


@pytest.mark.parametrize("backend", but_for(("torch", "flash_attn"), NAMES))
@pytest.mark.parametrize("dtype", [torch.bfloat16, pytest.param(torch.float16, marks=pytest.mark.full)])
def test_half_precision_chooses_near_the_maximum(pretend: PretendDevice, backend: str, dtype: torch.dtype) -> None:
    out = written(LanguageModel(tiny().to("cuda", dtype), backend=backend), "blend", small("retrieval"))
    exact = LanguageModel(tiny())
    sequence = torch.tensor(PROMPT + out)
    logits = exact.forward(sequence, torch.arange(len(sequence)), exact.new_cache(len(sequence))).logits
    rows = logits[len(PROMPT) - 1 : -1]
    gap = rows.max(-1).values - rows.gather(1, torch.tensor(out)[:, None])[:, 0]
    assert gap.max() < 0.05 * (rows.max() - rows.min())


@pytest.mark.parametrize("drafter", but_for(("blend-eagle",), DRAFTERS))
@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=0.8, top_k=30, top_p=0.95, seed=11, repetition_penalty=1.1),
        Sampling(repetition_penalty=1.3, no_repeat_ngram=2, penalty_scope="all"),
    ],
    ids=["sampled", "penalized"],
)
def test_sampling_and_penalties(pretend: PretendDevice, drafter: str, sampling: Sampling) -> None:
    expected = written(LanguageModel(tiny()), "none", small("full"), sampling)
    assert written(there(), drafter, small("retrieval"), sampling) == expected


@pytest.mark.parametrize("drafter", but_for(("eagle3-window",), DRAFTERS))
def test_with_the_gate(pretend: PretendDevice, drafter: str) -> None:
    assert written(there(), drafter, small("retrieval"), gate=True) == by_generate(NEW, len(PROMPT))


def test_working_sets_are_the_processor_s(pretend: PretendDevice) -> None:
    told = []
    for lm in (LanguageModel(tiny()), there()):
        target, retrieval = Target(lm), small("retrieval")
        drafter = DRAFTERS["eagle3"](target, retrieval)
        gate = DraftGate(SHAPE, enabled=False)
        events = list(decode(target, drafter, PROMPT, stop=Stop(NEW), retrieval=retrieval, gate=gate))
        sets = [(e.spans, e.changed, round(e.hit, 4), e.length) for e in events if isinstance(e, Retrieved)]
        told.append(sets)
    assert told[0] == told[1] != []


@pytest.mark.parametrize("layers", but_for(("fused",), ["none", "fused", "stock"]))
def test_a_batch(pretend: PretendDevice, monkeypatch: pytest.MonkeyPatch, layers: str) -> None:
    """By the model itself, or by graphs of its layers."""
    prompts, lengths = [prompt(60, seed=n)[:n] for n in (40, 9, 33, 1)], (12, 30, 1, 7)
    kinds = (Sampling(), Sampling(), Sampling(), Sampling(temperature=0.9, seed=3, repetition_penalty=1.2))

    def emitted(lm: LanguageModel) -> list[list[int]]:
        requests = [
            BatchRequest(tokens, Stop(n), kind) for tokens, n, kind in zip(prompts, lengths, kinds, strict=True)
        ]
        tokens: list[list[int]] = [[] for _ in prompts]
        for number, event in decode_batch(lm, requests, slots=3, prefill_chunk=16):
            tokens[number] += event.tokens if isinstance(event, Step) else ()
        return tokens

    on_host = emitted(LanguageModel(tiny()))
    lm = there(backend="triton")
    capture = None if layers == "none" else by_graphs(monkeypatch, Target(lm), None, layers)
    assert emitted(lm) == on_host
    assert capture is None or set(capture.rows) - {1} == {2, 4}
    assert on_host[:3] == [generate(tiny(), p, n) for p, n in zip(prompts[:3], lengths[:3], strict=True)]
