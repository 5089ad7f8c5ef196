"""How often a step of decoding makes host and device wait for each other: docs/performance.md says it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from specextend_cli.engine.batch import BatchRequest, decode_batch
from specextend_cli.engine.config import Sampling
from specextend_cli.engine.cuda import fused
from specextend_cli.engine.cuda.graph_check import use_checked_graphs
from specextend_cli.engine.decode import decode
from specextend_cli.engine.draft_gate import DraftGate
from specextend_cli.engine.events import Accepted, Retrieved
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.meter import Meter
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
from specextend_cli.engine.transfer import Download
from tests.engine.test_recurrent import SOME
from tests.engine.tiny_models import prompt, tiny
from tests.helpers.decoding import DRAFTERS, SHAPE, small
from tests.helpers.grid import pairs
from tests.helpers.pretend_device import Pretend, PretendDevice
from tests.helpers.repeated_capture import Repeated, only_stock_layers
from tests.helpers.torch_kernels import replace_attention, replace_kernels

READS = {"none": 1, "ngram": 1, **dict.fromkeys(("lm", "lm-window", "self", "eagle1", "eagle3", "blend"), 2)}
READS["blend-eagle"] = 3
"""Steps of a drafter read the target's choice, and the tree of each of its models."""
SAMPLED = Sampling(temperature=0.8, seed=3, repetition_penalty=1.1, no_repeat_ngram=3)


@dataclass(frozen=True)
class Counted:
    """A step: whether a working set was chosen after it, reads, uploads, and uploads that the host waited for."""

    chosen: bool
    reads: Counter[str]
    uploads: Counter[str]
    waits: Counter[str]


def steps(
    device: PretendDevice,
    drafter: str,
    sampling: Sampling,
    *,
    gate: bool = False,
    graphs: Repeated | None = None,
    name: str = "llama",
    **changes: object,
) -> Iterator[Counted]:
    """Every step but the first ones, as nobody looks at its events but the meter."""
    attention = "auto" if graphs is None else "triton"
    target = Target(LanguageModel(tiny(name).to("cuda"), backend=attention))
    retrieval = small("retrieval", **changes)
    made, meter = DRAFTERS[drafter](target, retrieval), Meter()
    shape = replace(SHAPE, threshold=0.15)
    if graphs is not None:
        refused = use_checked_graphs(target, made, shape, capture=graphs)
        assert not any(name.startswith("the model runs without") for name in refused)
    count, chosen = 0, False
    for event in decode(
        target,
        made,
        prompt(80),
        stop=Stop(16),
        sampling=sampling,
        retrieval=retrieval,
        gate=DraftGate(shape, enabled=gate),
    ):
        meter.add(event)
        chosen |= isinstance(event, Retrieved)
        if isinstance(event, Accepted):
            count += 1
            if count > 3:
                yield Counted(chosen, Counter(device.reads), Counter(device.uploads), Counter(device.waits))
            device.forget()
            chosen = False


QUICK = ("none", "lm", "blend-eagle")
GREEDY = ("none", "lm", "eagle3")  # by graphs all are


@pytest.mark.parametrize(
    ("sampling", "drafter", "gate"),
    [
        *(pytest.param(SAMPLED, name, False, marks=() if name in QUICK else pytest.mark.full) for name in READS),
        *(pytest.param(Sampling(), name, False, marks=pytest.mark.full) for name in GREEDY),
        *(pytest.param(Sampling(), name, True, marks=() if name == "eagle3" else pytest.mark.full) for name in READS),
    ],
)
def test_reads_and_uploads_of_a_step(pretend: PretendDevice, sampling: Sampling, drafter: str, gate: bool) -> None:
    """The gate reads nothing."""
    found = list(steps(pretend, drafter, sampling, gate=gate))
    assert gate or drafter in ("none", "ngram") or {one.chosen for one in found} == {False, True}
    check(found, drafter, uploads=2)


def check(found: list[Counted], drafter: str, uploads: int) -> None:
    """No step reads more than its drafter has to, nor has more uploads, nor waits for one."""
    assert len(found) > 5
    for one in found:
        assert one.reads.total() <= READS[drafter], one
        assert one.uploads.total() <= uploads, one
        assert not one.waits


@pytest.fixture
def graphs(pretend: PretendDevice, monkeypatch: pytest.MonkeyPatch) -> Repeated:
    """Kernels in torch, and a capture; fused layers take the device's tensors for plain ones."""
    replace_attention(monkeypatch)
    replace_kernels(monkeypatch)
    monkeypatch.setattr(fused, "Tensor", Pretend)
    return Repeated()


BY_GRAPHS = {name: reads + 1 - (name in ("none", "ngram")) for name, reads in READS.items()}
"""Uploads of a step at most: the tree, what each model reads, and the path that was accepted, where rows move."""


@pairs(("self", "eagle3"), drafter=READS, layers=("fused", "stock"), is_sampled=(True, False))
def test_reads_and_uploads_of_a_step_by_graphs(
    pretend: PretendDevice,
    graphs: Repeated,
    drafter: str,
    layers: str,
    is_sampled: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A draft is read once, and the choice."""
    if layers == "stock":
        only_stock_layers(monkeypatch)
    found = list(steps(pretend, drafter, SAMPLED if is_sampled else Sampling(), graphs=graphs))
    check(found, drafter, uploads=BY_GRAPHS[drafter])
    if drafter.startswith("eagle") or drafter in ("self", "lm"):
        places = {place.split(":")[0] for one in found for place in one.reads}
        assert places == {"engine/tree.py"}
        assert {one.reads.total() for one in found} == {2}


@pairs(("eagle3",), drafter=("none", "ngram", "lm", "eagle1", "eagle3"), name=SOME, by_graphs=(False, True))
def test_recurrent_layers_read_nothing_more(
    pretend: PretendDevice, graphs: Repeated, drafter: str, name: str, by_graphs: bool
) -> None:
    """By graphs the tree with all that its states need is one upload; the path another, where keys move."""
    most = BY_GRAPHS[drafter] if by_graphs else 2 + 2 * (drafter != "none")  # levels, path
    check(list(steps(pretend, drafter, SAMPLED, graphs=graphs if by_graphs else None, name=name)), drafter, most)


def test_windows_and_gaps_are_not_read(pretend: PretendDevice, graphs: Repeated) -> None:
    found = list(steps(pretend, "self", Sampling(), graphs=graphs, name="ministral", positions="absolute"))
    assert len(found) > 2
    assert {one.reads.total() for one in found} == {2}
    # The positions of a working set that was just chosen lie elsewhere: where, graphs have to be told.
    assert all(one.uploads.total() <= BY_GRAPHS["self"] + one.chosen and not one.waits for one in found)


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


@pairs(how=(Sampling(), SAMPLED), by_graphs=(True, False))
def test_a_step_of_a_batch_reads_once(pretend: PretendDevice, graphs: Repeated, how: Sampling, by_graphs: bool) -> None:
    """Of 16 sequences, whatever they are sampled by; nothing is written to the device."""
    lm = LanguageModel(tiny().to("cuda"), backend="triton")
    if by_graphs:
        assert not use_checked_graphs(Target(lm), batch=16, capture=graphs)
    requests = [BatchRequest(prompt(20 + n), Stop(8), replace(how, seed=n)) for n in range(16)]
    found = []
    for number, event in decode_batch(lm, requests, slots=16):
        if isinstance(event, Accepted) and event.nodes and number == 0:  # the first one of a step
            found.append((pretend.reads.total(), pretend.uploads.total(), pretend.waits.total()))
            pretend.forget()
    assert len(found) == 7
    assert set(found[2:-1]) == {(1, 0, 0)}
    assert by_graphs == (graphs.rows[-7:] == [16] * 7)
