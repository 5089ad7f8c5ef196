"""The presets that `choice` chooses among, with what this machine says of each: size, whether it is on disk, seconds.

Besides presets with a rank: models of ollama's, and GGUF files that the configuration names, where they have the sizes
of a preset with a rank, and then that rank. Named files of other sizes come last.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from types import MappingProxyType

from specextend_cli.errors import SpecextendError
from specextend_cli.models.choice import USUAL_TOKENS, Candidate, Machine, Passed, expected_rates, expected_seconds
from specextend_cli.models.gguf.source import ollama_file, ollama_names
from specextend_cli.models.memory import estimate, gguf_bytes, target_shape
from specextend_cli.models.preset import Dtype, Preset
from specextend_cli.models.presets import load_preset, preset_files, read_preset
from specextend_cli.models.shape import GRAPHS, Shape
from specextend_cli.models.source_kinds import GgufSource, HubFileSource, OllamaSource, WheelSource
from specextend_cli.models.sources import is_present, locate
from specextend_cli.models.store import cache_root, write_whole

_LAST = 1 << 20
"""The rank of a file that the configuration names, of which nothing is known."""
_LARGE = 500_000_000  # weights

Rates = Mapping[str, tuple[float, float]]
"""Seconds for a token read and for one written, by the names of presets that ran before."""


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
        kept: dict[str, list[int] | None] = json.loads(file.read_text())
    except (OSError, ValueError):
        kept = {}
    before = len(kept)
    for name in ollama_names():
        try:
            digest = ollama_file(name).name
            if digest not in kept:
                shape = load_preset(f"ollama:{name}").target.shape
                kept[digest] = None if shape is None else list(_sizes(shape) or ())
        except SpecextendError:
            continue
        if tuple(kept[digest] or ()) in sizes:
            yield name
    if len(kept) > before:
        with suppress(OSError):
            write_whole(file, json.dumps(kept))


def _sizes(shape: Shape | None) -> tuple[int, ...] | None:
    """What two conversions of one model have in common."""
    if shape is None:
        return None
    return (shape.layers, shape.hidden, shape.cached, shape.vocab)


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
    known = rates.get(preset.name)
    if machine.device != "cpu":
        return one
    known = known or expected_rates(gguf_bytes(preset) or shape.weight_bytes())
    return replace(one, seconds=expected_seconds(preset, tokens, *known), rate=1 / known[1])


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
