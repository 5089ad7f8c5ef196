"""Which preset runs where no model was named, from the machine, the presets and the user's configuration.

Presets that write are tried by rank (`Preset.rank`: the most faithful class first, in it the largest). The first that
fits the memory that is free, and on processors reads and writes the document within `LIMIT`, is taken if it is on disk;
the first such one that is not can be offered. Where none is taken, no model runs: documents are quoted.

Besides presets with a rank, models of ollama's and GGUF files that the configuration names are candidates, where they
have the sizes of a preset with a rank, and then that rank. Named files of other sizes come last.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from math import ceil
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

from specextend_cli.errors import SpecextendError
from specextend_cli.humanize import format_bytes, format_seconds
from specextend_cli.models.gguf.source import ollama_file, ollama_names
from specextend_cli.models.memory import estimate, gguf_bytes, target_shape
from specextend_cli.models.preset import Dtype, Preset
from specextend_cli.models.presets import load_preset, preset_files, read_preset
from specextend_cli.models.shape import GRAPHS, HEADROOM, Shape
from specextend_cli.models.source_kinds import GgufSource, HubFileSource, OllamaSource, WheelSource
from specextend_cli.models.sources import is_present, locate
from specextend_cli.models.store import cache_root, write_whole

LIMIT = 600.0
"""Seconds that reading and writing a document may take on a processor."""
USUAL_TOKENS = 12_000
"""Tokens of a document that is not known yet: some twenty pages."""
BANDWIDTH = 20e9
"""Bytes of weights that a processor reads in a second as it decodes: of two cores, and of a laptop's memory."""
_READ_TOGETHER = 10  # tokens of a prompt in the time of one that is written
_FRAME = 200  # tokens of a prompt around its part of the document
_WRITTEN = 0.8  # of the tokens that a text has room for: how many it usually has
_LAST = 1 << 20
"""The rank of a file that the configuration names, of which nothing is known."""
_LARGE = 500_000_000  # weights

Rates = Mapping[str, tuple[float, float]]
"""Seconds for a token read and for one written, by the names of presets that ran before."""

Device: TypeAlias = Literal["cuda", "cpu"]
Obstacle: TypeAlias = Literal[
    "too large",
    "too slow",
    "gated",
    "for NVIDIA GPUs",
    "for GPUs",
    "lacking a package",
    "of unknown size",
]
Reason: TypeAlias = Literal["named", "none asked", "configured", "on disk", "none fits"]


@dataclass(frozen=True, slots=True)
class Machine:
    """The device that would run a model, and bytes of its memory that are free.

    `has_bfloat16`: whether it multiplies such numbers; else they take twice the memory.
    """

    device: Device
    free: int
    has_bfloat16: bool = True

    def holds(self, need: int) -> bool:
        """Whether so many bytes fit what is free, leaving headroom."""
        return need <= HEADROOM * self.free


class Passed(NamedTuple):
    """A preset that would have been preferred, why it does not run, and by how much."""

    name: str
    why: Obstacle
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.name} is {self.why}" + (f" ({self.detail})" if self.detail else "")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A preset that writes. None: not known.

    `need` is bytes of memory, `fetch` bytes to download. On a processor, a document of so many `tokens` takes `seconds`
    and is written at `rate` tokens a second. `gated`: its owner has to be asked first, and nobody is logged in.
    `hindrance`: what keeps it from this machine whatever its size.
    """

    name: str
    rank: int
    need: int | None
    is_present: bool
    fetch: int | None = None
    gated: bool = False
    hindrance: Passed | None = None
    tokens: int = USUAL_TOKENS
    seconds: float | None = None
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """The preset that writes, None where none does, and why; `offer` is the best one that could be fetched.

    `hindered` is the first that is on disk and cannot be taken.
    """

    preset: str | None
    reason: Reason
    offer: Candidate | None = None
    hindered: Passed | None = None


def choose(machine: Machine, candidates: Sequence[Candidate]) -> Choice:
    """The preset for this machine."""
    offer: Candidate | None = None
    hindered: Passed | None = None
    for one in sorted(candidates, key=lambda one: (one.rank, not one.is_present, one.name)):
        why = obstacle(machine, one)
        if why is None and one.is_present:
            return Choice(one.name, "on disk")
        if why is None and offer is None:
            offer = one
        if why is not None and one.is_present:
            hindered = hindered or why
    return Choice(None, "none fits", offer, hindered)


def obstacle(machine: Machine, one: Candidate) -> Passed | None:
    """Why a preset cannot be taken on this machine, on disk or not; None where it can."""
    if one.need is None:
        return Passed(one.name, "of unknown size")
    if one.hindrance is not None:
        return one.hindrance
    if not machine.holds(one.need):
        return Passed(one.name, "too large", f"{format_bytes(one.need)} of {format_bytes(machine.free)} free")
    if machine.device == "cpu" and one.seconds is not None and one.seconds > LIMIT:
        return Passed(one.name, "too slow", f"about {format_seconds(one.seconds)} for {one.tokens:,} tokens")
    if one.gated and not one.is_present:
        return Passed(one.name, "gated", "accept its licence, then: hf auth login")
    return None


def expected_rates(weight_bytes: int) -> tuple[float, float]:
    """Seconds for a token read and for one written, on a processor that did not run the model before."""
    written = weight_bytes / BANDWIDTH
    return written / _READ_TOGETHER, written


def expected_seconds(preset: Preset, tokens: int, read: float, written: float) -> float:
    """Seconds that a document of so many tokens takes, where a token read and one written take `read` and `written`."""
    window = preset.window
    prompts = ceil(tokens / window.chunk)
    notes = _WRITTEN * window.chunk_summary_tokens * prompts if prompts > 1 else 0.0
    answer = _WRITTEN * window.summary_tokens
    return (tokens + prompts * _FRAME + notes) * read + (notes + answer) * written


def candidates(
    machine: Machine, *, tokens: int = USUAL_TOKENS, gguf: Sequence[str] = (), rates: Rates = MappingProxyType({})
) -> list[Candidate]:
    """For a document of so many tokens; `gguf` has the files that the configuration names. Never uses the network."""
    ranked = [preset for preset in _readable() if preset.rank is not None and not preset.unreliable]
    return [_candidate(machine, one, tokens, rates) for one in (*ranked, *_files(ranked, gguf))]


def _readable() -> Iterator[Preset]:
    """The presets, without the user's own that are not valid: naming one says what is wrong."""
    for file in preset_files().values():
        with suppress(SpecextendError):
            yield read_preset(file)


def _files(ranked: Sequence[Preset], gguf: Sequence[str]) -> Iterator[Preset]:
    """Presets made of the files on this machine that can be run."""
    own = {_sizes(one.target.shape): one.rank for one in reversed(ranked)}
    named = [os.path.expanduser(file) for file in gguf]  # noqa: PTH111 - unlike Path's, it never raises
    for argument in (*named, *(f"ollama:{name}" for name in ollama_models(own))):
        try:
            made = load_preset(argument)
        except SpecextendError:  # gone, damaged or of another kind: naming it says what is wrong
            continue
        # A directory or TOML file can be named, so the argument is what runs it again.
        yield made.model_copy(update={"name": argument, "rank": own.get(_sizes(made.target.shape)) or _LAST})


def ollama_models(sizes: Collection[object]) -> Iterator[str]:
    """Names of ollama's models that have one of the `sizes`. Each file's are read once, and kept by its digest."""
    file = cache_root() / "ollama-shapes.json"
    try:
        kept: dict[str, Sequence[int]] = json.loads(file.read_text())
    except (OSError, ValueError):
        kept = {}
    before = len(kept)
    for name in ollama_names():
        try:
            digest = ollama_file(name).name
            if digest not in kept:
                kept[digest] = _sizes(load_preset(f"ollama:{name}").target.shape)
        except SpecextendError:
            continue
        if tuple(kept[digest]) in sizes:
            yield name
    if len(kept) > before:
        with suppress(OSError):
            write_whole(file, json.dumps(kept))


def _sizes(shape: Shape | None) -> tuple[int, ...]:
    """What two conversions of one model have in common."""
    return (shape.layers, shape.hidden, shape.cached, shape.vocab) if shape else ()


def _candidate(machine: Machine, preset: Preset, tokens: int, rates: Rates) -> Candidate:
    assert preset.rank is not None
    on_disk = isinstance(preset.target.source, (GgufSource, OllamaSource)) or is_present(preset)
    one = Candidate(preset.name, preset.rank, None, on_disk, 0 if on_disk else _missing(preset), tokens=tokens)
    dtype: Dtype | None = None if machine.has_bfloat16 or preset.target.dtype == "float32" else "float32"
    need = estimate(preset, dtype=dtype, on_cpu=machine.device == "cpu")
    shape = target_shape(preset.target)
    if need is None or shape is None:
        return one
    one = replace(
        one,
        need=need + (GRAPHS if machine.device == "cuda" else 0),
        gated=preset.gated and not _logged_in(),
        hindrance=hindrance(machine, preset),
    )
    if machine.device != "cpu":
        return one
    read, written = rates.get(preset.name) or expected_rates(gguf_bytes(preset) or shape.weight_bytes())
    return replace(one, seconds=expected_seconds(preset, tokens, read, written), rate=1 / written)


def hindrance(machine: Machine, preset: Preset) -> Passed | None:
    """What keeps a preset from a machine whatever its size: bitsandbytes, or large weights in no GGUF file."""
    if preset.target.quantization == "nf4":
        if machine.device != "cuda":
            return Passed(preset.name, "for NVIDIA GPUs")
        if not find_spec("bitsandbytes"):
            return Passed(preset.name, "lacking a package", "pip install 'specextend-cli[quantized]'")
    shape = target_shape(preset.target)
    if machine.device == "cpu" and shape is not None and shape.weights > _LARGE and not gguf_bytes(preset):
        return Passed(preset.name, "for GPUs")
    return None


def _missing(preset: Preset) -> int | None:
    """Bytes to download; None where they are not known."""
    total = 0
    for source, sizes in zip(preset.sources, (preset.target.shape, preset.draft.shape), strict=False):
        if locate(source) is not None:
            continue
        if isinstance(source, HubFileSource):
            total += source.file_bytes
        elif isinstance(source, WheelSource):
            total += source.wheel_bytes
        elif sizes is None:
            return None
        else:
            total += 2 * sizes.weights
    return total


def _logged_in() -> bool:
    """Whether the Hub's library has a token."""
    from huggingface_hub import get_token

    return get_token() is not None
