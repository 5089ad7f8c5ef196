"""The whole engine on a device that is not the host: no tensor is left behind, and the tokens are the processor's.

The pretend device fails where CUDA would, and counts how often a step makes host and device wait for each other:
docs/performance.md says it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pytest
import torch

from specextend_cli.engine.attention import flash_package
from specextend_cli.engine.batch import BatchRequest, decode_batch
from specextend_cli.engine.config import Retrieval, Sampling, TreeShape
from specextend_cli.engine.cuda import fused
from specextend_cli.engine.cuda.graph_check import use_checked_graphs
from specextend_cli.engine.decode import decode
from specextend_cli.engine.draft_gate import DraftGate
from specextend_cli.engine.drafters import AssistantDrafter, Drafter, NoDrafter, model_drafters
from specextend_cli.engine.events import Accepted, Retrieved
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.meter import Meter
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
from specextend_cli.engine.transfer import Download
from tests.engine.test_identity import SAMPLINGS
from tests.engine.test_recurrent import SOME as RECURRENT
from tests.engine.tiny_models import VOCABULARY, by_generate, prompt, tiny
from tests.helpers.decoding import DRAFTERS, POLICIES, WORKING_SETS, Make, run, small
from tests.helpers.grid import but_for, pairs
from tests.helpers.pretend_device import Pretend, PretendDevice, flash_attn_func
from tests.helpers.repeated_capture import Repeated, only_stock_layers
from tests.helpers.tiny_assistants import assistant_drafter
from tests.helpers.torch_kernels import replace_attention, replace_kernels

NEW, PROMPT = 12, prompt(90)  # every operation is dispatched in Python
SHAPE = TreeShape(nodes=8, depth=3, width=2, threshold=0.0)
MADE: dict[str, Make] = {
    **DRAFTERS,
    "assistant": lambda target, retrieval: assistant_drafter(target, retrieval.policy, clusters=VOCABULARY),
}


@pytest.fixture(autouse=True)
def packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """flash-attn and Triton's kernels, of which no machine without a GPU has any."""
    package = ModuleType("flash_attn")
    package.__spec__, package.flash_attn_func = ModuleSpec("flash_attn", None), flash_attn_func
    monkeypatch.setitem(sys.modules, "flash_attn", package)
    monkeypatch.setattr(flash_package, "is_installed", lambda: True)
    replace_attention(monkeypatch)


@pytest.fixture
def graphs(pretend: PretendDevice, monkeypatch: pytest.MonkeyPatch) -> Repeated:
    """Kernels in torch, and a capture; fused layers take the device's tensors for plain ones."""
    replace_kernels(monkeypatch)
    monkeypatch.setattr(fused, "Tensor", Pretend)
    return Repeated()


@dataclass(frozen=True)
class Counted:
    """A step: whether a working set was chosen after it, reads, uploads, and uploads that the host waited for."""

    chosen: bool
    reads: Counter[str]
    uploads: Counter[str]
    waits: Counter[str]


@dataclass
class Decoded:
    """Tokens, and every step but the first ones, as nobody looks at the events but the meter."""

    drafter: Drafter
    tokens: list[int] = field(default_factory=list)
    meter: Meter = field(default_factory=Meter)
    steps: list[Counted] = field(default_factory=list)

    @property
    def most(self) -> int:
        """A step reads the target's choice, and the tree of each model that drafts."""
        return 1 + len(model_drafters(self.drafter)) + isinstance(self.drafter, AssistantDrafter)

    @property
    def by_graphs(self) -> int:
        """Uploads of a step at most: the tree, what each model reads, and the path that was accepted, if rows move."""
        return self.most + (self.drafter.name not in ("none", "ngram"))

    def check(self, uploads: int) -> None:
        """No step reads more than its drafter has to, nor has more uploads, nor waits for one."""
        assert self.steps
        for one in self.steps:
            assert one.reads.total() <= self.most, one
            assert one.uploads.total() <= uploads, one
            assert not one.waits


def decoded(
    device: PretendDevice,
    drafter: str,
    retrieval: Retrieval,
    sampling: Sampling | None = None,
    *,
    gate: bool = False,
    name: str = "llama",
    backend: str = "auto",
    graphs: Repeated | None = None,
) -> Decoded:
    target = Target(LanguageModel(tiny(name).to("cuda"), backend=backend if graphs is None else "triton"))
    assert target.lm.device == torch.device("cuda:0")
    made, count, chosen = Decoded(MADE[drafter](target, retrieval)), 0, False
    if graphs is not None:
        refused = use_checked_graphs(target, made.drafter, SHAPE, capture=graphs)
        assert not any(what.startswith("the model runs without") for what in refused)
        at_load, graphs.replays = graphs.captures, 0
    draft_gate = DraftGate(SHAPE, enabled=gate)
    for event in decode(
        target, made.drafter, PROMPT, stop=Stop(NEW), sampling=sampling, retrieval=retrieval, gate=draft_gate
    ):
        made.meter.add(event)
        chosen |= isinstance(event, Retrieved)
        if isinstance(event, Accepted):
            made.tokens += event.tokens
            count += 1
            if count > 3:
                found = (Counter(counter) for counter in (device.reads, device.uploads, device.waits))
                made.steps.append(Counted(chosen, *found))
            device.forget()
            chosen = False
    if graphs is not None:
        assert graphs.captures == at_load
        assert graphs.replays > 0
    return made


A, B = torch.arange(6.0).reshape(2, 3), torch.tensor([True, False, True])


@pytest.mark.parametrize("inference", [False, True])
def test_what_a_device_refuses_and_waits_for(pretend: PretendDevice, inference: bool) -> None:
    """Two devices are not mixed; reads, uploads, and those that the host waits for are counted."""
    with torch.inference_mode(inference):
        there, mask = A.to("cuda"), B.to("cuda")
        for wrong in (
            lambda: there + A,
            lambda: torch.cat((there, A)),
            lambda: there.index_select(1, torch.tensor([0])),
            lambda: torch.nn.functional.linear(there, A),
        ):
            with pytest.raises(RuntimeError, match="same device"):
                wrong()
        assert (there * torch.tensor(2.0)).cpu().tolist() == (2 * A).tolist()  # a number of the host
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
NAMES = ("torch", "flash_attn", "triton", "reference", "split")


@pairs(SOME, drafter=DRAFTERS, working_set=WORKING_SETS, backend=NAMES)
def test_every_drafter_policy_and_back_end(
    pretend: PretendDevice, drafter: str, working_set: tuple[str, str], backend: str
) -> None:
    policy, positions = working_set
    found = decoded(pretend, drafter, small(policy, positions=positions), backend=backend)
    assert found.tokens == by_generate(NEW, len(PROMPT))
    if backend in NAMES[:3]:
        found.check(uploads=2)


@cache
def by_processor(sampling: str, name: str = "llama") -> list[int]:
    target = Target(LanguageModel(tiny(name)))
    return run(target, NoDrafter(), PROMPT, small("full"), SAMPLINGS[sampling], new=NEW)[0]


@pairs(
    ("lm-window", "eagle1", "blend-eagle"),
    drafter=DRAFTERS,
    sampling=SAMPLINGS,
    policy=POLICIES,
    gate=(False, True),
    layers=("fused", "stock", "no graphs"),
)
def test_sampling_the_gate_and_graphs(
    pretend: PretendDevice,
    graphs: Repeated,
    drafter: str,
    sampling: str,
    policy: str,
    gate: bool,
    layers: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By graphs a draft is read once, and the choice; as many of each tree are accepted. The gate reads nothing."""
    if layers == "stock":
        only_stock_layers(monkeypatch)
    capture, retrieval = None if layers == "no graphs" else graphs, small(policy)
    found = decoded(pretend, drafter, retrieval, SAMPLINGS[sampling], gate=gate, graphs=capture)
    assert found.tokens == by_processor(sampling)
    found.check(uploads=found.by_graphs if capture else 2)
    if not gate:
        target = Target(LanguageModel(tiny()))
        made = DRAFTERS[drafter](target, retrieval)
        _, meter = run(target, made, PROMPT, retrieval, SAMPLINGS[sampling], new=NEW, shape=SHAPE)
        assert found.meter.accepted_lengths == meter.accepted_lengths
        assert (policy != "full" and found.most > 1) == any(one.chosen for one in found.steps)
    if capture and found.most == 2 and not gate:
        assert {place.split(":")[0] for one in found.steps for place in one.reads} == {"engine/tree.py"}
        assert {one.reads.total() for one in found.steps} == {2}


@pairs(("eagle3",), drafter=("none", "ngram", "lm", "eagle1", "eagle3"), name=RECURRENT, by_graphs=(False, True))
def test_recurrent_layers_read_nothing_more(
    pretend: PretendDevice, graphs: Repeated, drafter: str, name: str, by_graphs: bool
) -> None:
    """By graphs the tree with all that its states need is one upload; the path another, where keys move."""
    capture = graphs if by_graphs else None
    found = decoded(pretend, drafter, small("retrieval"), SAMPLINGS["sampled"], name=name, graphs=capture)
    assert found.tokens == by_processor("sampled", name)
    found.check(uploads=found.by_graphs if by_graphs else 2 + 2 * (drafter != "none"))  # levels, path


def test_windows_are_not_read(pretend: PretendDevice, graphs: Repeated) -> None:
    found = decoded(pretend, "self", small("retrieval"), name="ministral", graphs=graphs)
    assert found.tokens == by_processor("greedy", "ministral")
    found.check(uploads=found.by_graphs)


@pytest.mark.parametrize("backend", but_for(["triton"], ["torch", "triton"]))
@pytest.mark.parametrize("name", but_for(["gemma4"], ["gemma4", "gemma4-shared"]))
def test_an_assistant_s_tree_is_read_once(pretend: PretendDevice, name: str, backend: str) -> None:
    found = decoded(pretend, "assistant", small("retrieval"), name=name, backend=backend)
    assert found.tokens == by_processor("greedy", name)
    found.check(uploads=2)


@pytest.mark.parametrize("backend", but_for(("torch", "flash_attn"), NAMES))
@pytest.mark.parametrize("dtype", [torch.bfloat16, pytest.param(torch.float16, marks=pytest.mark.full)])
def test_half_precision_chooses_near_the_maximum(pretend: PretendDevice, backend: str, dtype: torch.dtype) -> None:
    target, retrieval = Target(LanguageModel(tiny().to("cuda", dtype), backend=backend)), small("retrieval")
    out = run(target, DRAFTERS["blend"](target, retrieval), PROMPT, retrieval, new=NEW, shape=SHAPE)[0]
    exact = LanguageModel(tiny())
    sequence = torch.tensor(PROMPT + out)
    logits = exact.forward(sequence, torch.arange(len(sequence)), exact.new_cache(len(sequence))).logits
    rows = logits[len(PROMPT) - 1 : -1]
    gap = rows.max(-1).values - rows.gather(1, torch.tensor(out)[:, None])[:, 0]
    assert gap.max() < 0.05 * (rows.max() - rows.min())


def test_working_sets_are_the_processor_s(pretend: PretendDevice) -> None:
    told = []
    for device in ("cpu", "cuda"):
        target, retrieval = Target(LanguageModel(tiny().to(device))), small("retrieval")
        drafter = DRAFTERS["eagle3"](target, retrieval)
        gate = DraftGate(SHAPE, enabled=False)
        events = list(decode(target, drafter, PROMPT, stop=Stop(NEW), retrieval=retrieval, gate=gate))
        sets = [(e.positions.tolist(), round(e.hit, 4), e.length) for e in events if isinstance(e, Retrieved)]
        told.append(sets)
    assert told[0] == told[1] != []


def test_a_step_of_a_batch_is_not_read_behind_the_next(pretend: PretendDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is on its way before the next one is launched, which the host then does not wait for."""
    lm, told = LanguageModel(tiny().to("cuda"), backend="torch"), list[str]()

    def noting(what: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            told.append(what)
            return function(*given)

        return call

    monkeypatch.setattr(lm, "run", noting("launched", lm.run))
    monkeypatch.setattr(Download, "__init__", noting("sent", Download.__init__))
    monkeypatch.setattr(Download, "tolist", noting("read", Download.tolist))
    requests = [BatchRequest(prompt(20), Stop(8), Sampling()) for _ in range(4)]
    tokens = [event.tokens for _, event in decode_batch(lm, requests, slots=4) if isinstance(event, Accepted)]
    assert len(tokens) == 4 * 8
    assert min(map(min, tokens)) >= 0
    assert told[told.index("sent") - 1 :] == ["launched", "sent", *["launched", "sent", "read"] * 7, "read"]


@pairs(how=("greedy", "sampled"), by_graphs=(True, False))
def test_a_step_of_a_batch_reads_once(pretend: PretendDevice, graphs: Repeated, how: str, by_graphs: bool) -> None:
    """Of 16 sequences, whatever they are sampled by; what is written to the device does not depend on their number."""
    lm, sampling = LanguageModel(tiny().to("cuda"), backend="triton"), SAMPLINGS[how]
    if by_graphs:
        assert not use_checked_graphs(Target(lm), batch=16, capture=graphs)
    requests = [BatchRequest(prompt(20 + n), Stop(8), replace(sampling, seed=n)) for n in range(16)]
    found = []
    for number, event in decode_batch(lm, requests, slots=16):
        if isinstance(event, Accepted) and event.nodes and number == 0:  # the first one of a step
            found.append((pretend.reads.total(), pretend.uploads.total(), pretend.waits.total()))
            pretend.forget()
    assert len(found) == 7
    assert set(found[2:-1]) == {(1, 0, 0)}
    assert by_graphs == (graphs.rows[-7:] == [16] * 7)
