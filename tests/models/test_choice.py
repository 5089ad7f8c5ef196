"""The model that runs where none is named: machines and states in one table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specextend_cli.models.choice import (
    Candidate,
    Machine,
    Passed,
    choose,
    expected_rates,
    expected_seconds,
    hindrance,
    obstacle,
)
from specextend_cli.models.choice import candidates as presets_of
from specextend_cli.models.memory import estimate
from specextend_cli.models.presets import load_preset
from specextend_cli.models.shape import GRAPHS

GB = 1_000_000_000
# name: rank, GB that it needs, seconds for a document of 12,000 tokens on two cores, GB to fetch
PRESETS = {
    "32b": (1, 70, 9000, 65),
    "30b-a3b": (2, 34, 2500, 31),
    "8b": (3, 21, 2200, 16),
    "8b-4bit": (4, 10, 1900, 16),
    "4b": (5, 9, 1000, 8),
    "1.7b": (6, 5, 480, 1.1),
    "0.6b": (7, 2, 160, 0.6),
}


def candidates(on_disk: str = "", *, gated: str = "", tokens: int = 12_000) -> list[Candidate]:
    found = []
    for name, (rank, need, seconds, fetch) in PRESETS.items():
        also = {"gated": name in gated.split(), "seconds": seconds * tokens / 12_000, "tokens": tokens}
        found.append(Candidate(name, rank, int(need * GB), name in on_disk.split(), int(fetch * GB), **also))
    return found


# device, GB free, tokens of the document -> the best that fits: runs if it is on disk; with nothing there, is offered
BEST = [
    ("cuda", 80, 12_000, "32b"),
    ("cuda", 47, 12_000, "30b-a3b"),
    ("cuda", 24, 12_000, "8b"),
    ("cuda", 16, 12_000, "8b-4bit"),
    ("cuda", 10, 12_000, "4b"),
    ("cuda", 8, 12_000, "1.7b"),
    ("cuda", 4, 12_000, "0.6b"),
    ("cuda", 2, 12_000, None),
    # the document's size does not matter on a GPU
    ("cuda", 24, 500_000, "8b"),
    # processors: memory, and ten minutes
    ("cpu", 64, 2_000, "30b-a3b"),
    ("cpu", 64, 7_000, "4b"),
    ("cpu", 64, 12_000, "1.7b"),
    ("cpu", 4, 12_000, "0.6b"),
    ("cpu", 1, 12_000, None),
    ("cpu", 2.1, 2_000, None),
    ("cpu", 64, 15_500, "0.6b"),
    ("cpu", 64, 46_000, None),
]
# what is on disk is preferred to a better one that would have to be fetched
PREFERRED = [
    ("cuda", 80, "1.7b", 12_000, "1.7b", None),
    ("cuda", 80, "0.6b 4b", 12_000, "4b", None),
    ("cuda", 24, "32b", 12_000, None, "8b"),
    ("cuda", 24, "32b 0.6b", 12_000, "0.6b", None),
    ("cuda", 9, "8b 1.7b", 12_000, "1.7b", None),  # another program has most of the memory
    ("cuda", 3, "8b 1.7b", 12_000, None, "0.6b"),
    ("cpu", 64, "8b", 12_000, None, "1.7b"),
    ("cpu", 64, "8b", 2_000, "8b", None),
    ("cpu", 64, "1.7b", 15_500, None, "0.6b"),
]
TABLE = [
    *((device, free, "", tokens, None, best) for device, free, tokens, best in BEST),
    *((device, free, " ".join(PRESETS), tokens, best, None) for device, free, tokens, best in BEST),
    *PREFERRED,
]


@pytest.mark.parametrize(("device", "free", "on_disk", "tokens", "runs", "offered"), TABLE)
def test_which_model_runs_and_which_is_offered(
    device: str, free: float, on_disk: str, tokens: int, runs: str | None, offered: str | None
) -> None:
    choice = choose(Machine(device, int(free * GB)), candidates(on_disk, tokens=tokens))
    assert choice.preset == runs
    assert choice.reason == ("none fits" if runs is None else "on disk")
    assert runs or (choice.offer.name if choice.offer else None) == offered


def test_a_gated_model_is_not_offered_and_runs_where_it_is_on_disk() -> None:
    machine = Machine("cuda", 24 * GB)
    choice = choose(machine, candidates(gated="8b"))
    assert choice.offer.name == "8b-4bit"
    assert obstacle(machine, candidates(gated="8b")[2]) == ("8b", "gated", "accept its licence, then: hf auth login")
    assert choose(machine, candidates("8b", gated="8b")).preset == "8b"


def test_unknown_sizes_are_never_taken_and_unknown_speeds_do_not_matter() -> None:
    [one] = [one for one in candidates("1.7b") if one.name == "1.7b"]
    machine = Machine("cpu", 64 * GB)
    assert obstacle(machine, replace(one, need=None)) == ("1.7b", "of unknown size", "")
    assert obstacle(machine, replace(one, seconds=None)) is None
    assert obstacle(machine, replace(one, seconds=601.0)) == ("1.7b", "too slow", "about 10:01 for 12,000 tokens")
    lacking = Passed("1.7b", "lacking a package", "pip install x")
    assert obstacle(machine, replace(one, hindrance=lacking, seconds=601.0)) == lacking


def test_what_keeps_a_preset_from_a_machine_whatever_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    large, small, packed = (load_preset(name) for name in ("qwen3-8b-eagle3", "qwen3-8b-4bit-eagle3", "smollm3-3b"))
    cpu, gpu = (Machine(device, 10**12) for device in ("cpu", "cuda"))
    assert hindrance(cpu, large) == ("qwen3-8b-eagle3", "for GPUs", "")
    assert hindrance(cpu, small) == ("qwen3-8b-4bit-eagle3", "for NVIDIA GPUs", "")
    for installed in (None, "bitsandbytes"):
        monkeypatch.setattr("specextend_cli.models.choice.find_spec", lambda name, it=installed: it)
        found = hindrance(gpu, small)
        assert found is None if installed else found is not None and "[quantized]" in found.detail
    assert not any(hindrance(machine, packed) for machine in (cpu, gpu))
    assert hindrance(gpu, large) is None


def test_expected_seconds_grow_with_the_document_and_the_model() -> None:
    preset = load_preset("smollm3-3b")
    read, written = expected_rates(2 * GB)
    assert (read, written) == pytest.approx((0.01, 0.1))
    short, long = (expected_seconds(preset, tokens, read, written) for tokens in (1_000, 100_000))
    assert short < long
    assert 100_000 * read < long < 2 * 100_000 * read + 1_000


def test_what_is_on_disk_and_hindered_is_said_first() -> None:
    choice = choose(Machine("cpu", 64 * GB), candidates("1.7b", tokens=46_000))
    assert choice.preset is None
    assert choice.hindered == ("1.7b", "too slow", "about 30:40 for 46,000 tokens")


def test_a_preset_that_is_chosen_is_not_refused_when_it_is_loaded() -> None:
    """Both count its whole window, whatever the document."""
    for one in presets_of(Machine("cuda", 10**12), tokens=500):
        assert one.need == estimate(load_preset(one.name)) + GRAPHS
