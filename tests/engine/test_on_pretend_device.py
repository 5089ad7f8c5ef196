"""The whole engine on a device that is not the host: no tensor is left behind, and the tokens are the processor's.

The pretend device fails where CUDA would, and counts what the host waits for.
"""

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
from specextend_cli.engine.config import Retrieval, Sampling, TreeShape
from specextend_cli.engine.decode import decode
from specextend_cli.engine.draft_gate import DraftGate
from specextend_cli.engine.events import Retrieved
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
from tests.engine.tiny_models import by_generate, prompt, tiny
from tests.helpers.decoding import DRAFTERS, WORKING_SETS, run, small
from tests.helpers.grid import but_for, pairs
from tests.helpers.pretend_device import PretendDevice, flash_attn_func
from tests.helpers.torch_kernels import replace_attention

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


A, B = torch.arange(6.0).reshape(2, 3), torch.tensor([True, False, True])


@pytest.mark.parametrize("inference", [False, True])
def test_two_devices_are_not_mixed(pretend: PretendDevice, inference: bool) -> None:
    with torch.inference_mode(inference):
        there = A.to("cuda")
        for wrong in (
            lambda: there + A,
            lambda: torch.cat((there, A)),
            lambda: there.index_select(1, torch.tensor([0])),
            lambda: torch.nn.functional.linear(there, A),
        ):
            with pytest.raises(RuntimeError, match="same device"):
                wrong()
        assert (there * torch.tensor(2.0)).cpu().tolist() == (2 * A).tolist()  # a number of the host


@pytest.mark.parametrize("inference", [False, True])
def test_reads_and_uploads_are_counted(pretend: PretendDevice, inference: bool) -> None:
    with torch.inference_mode(inference):
        there, mask = A.to("cuda"), B.to("cuda")
        for expected, call in (
            ((1, 0, 0), lambda: there.cpu()),
            ((1, 0, 0), lambda: there[0, 0].item()),
            ((1, 0, 0), lambda: bool(there.sum() > 0)),
            ((1, 0, 0), lambda: there.nonzero()),
            ((1, 0, 0), lambda: there[:, mask]),
            ((0, 1, 1), lambda: torch.tensor([1, 2], device="cuda")),
            ((0, 1, 1), lambda: there.copy_(A)),
            ((0, 1, 1), lambda: there[:, [2, 0]]),
            ((0, 1, 0), lambda: A.to("cuda", non_blocking=True)),
            ((0, 0, 0), lambda: torch.where(mask, there, 0.0)),
        ):
            pretend.forget()
            call()
            assert (pretend.reads.total(), pretend.uploads.total(), pretend.waits.total()) == expected


SOME = ("none", "random", "self", "lm-window", "eagle3.1", "blend-eagle")
"""Every kind of drafter, of which the last has four."""


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


@pairs(SOME, drafter=DRAFTERS, working_set=WORKING_SETS, backend=NAMES)
def test_every_drafter_policy_and_back_end(
    pretend: PretendDevice, drafter: str, working_set: tuple[str, str], backend: str
) -> None:
    lm, (policy, positions) = there(backend=backend), working_set
    assert lm.device == torch.device("cuda:0")
    assert written(lm, drafter, small(policy, positions=positions)) == by_generate(NEW, len(PROMPT))


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


@pytest.mark.parametrize("drafter", but_for(("blend-eagle",), SOME))
@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=0.8, top_k=30, top_p=0.95, seed=11, repetition_penalty=1.1),
        Sampling(repetition_penalty=1.3, no_repeat_ngram=2),
    ],
    ids=["sampled", "penalized"],
)
def test_sampling_and_penalties(pretend: PretendDevice, drafter: str, sampling: Sampling) -> None:
    expected = written(LanguageModel(tiny()), "none", small("full"), sampling)
    assert written(there(), drafter, small("retrieval"), sampling) == expected


def test_working_sets_are_the_processor_s(pretend: PretendDevice) -> None:
    told = []
    for lm in (LanguageModel(tiny()), there()):
        target, retrieval = Target(lm), small("retrieval")
        drafter = DRAFTERS["eagle3"](target, retrieval)
        gate = DraftGate(SHAPE, enabled=False)
        events = list(decode(target, drafter, PROMPT, stop=Stop(NEW), retrieval=retrieval, gate=gate))
        sets = [(e.positions.tolist(), round(e.hit, 4), e.length) for e in events if isinstance(e, Retrieved)]
        told.append(sets)
    assert told[0] == told[1] != []
