"""The presets that `choice` chooses among, with what this machine says of each: size, whether it is on disk, seconds.

Besides presets with a rank: models of ollama's, and GGUF files that the configuration names, where they have the sizes
of a preset with a rank, and then that rank. Named files of other sizes come last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from specextend_cli.errors import SpecextendError
from specextend_cli.models import ollama
from specextend_cli.models.choice import USUAL_TOKENS, Candidate, Machine, expected_rates, expected_seconds
from specextend_cli.models.memory import estimate, graph_bytes, target_shape
from specextend_cli.models.preset import Dtype, Preset
from specextend_cli.models.presets import load_preset, preset_files, read_preset
from specextend_cli.models.shape import Shape
from specextend_cli.models.source_kinds import GgufSource, HubFileSource, OllamaSource, WheelSource
from specextend_cli.models.sources import is_present, locate

_LAST = 1 << 20
"""The rank of a file that the configuration names, of which nothing is known."""
_LARGE = 500_000_000  # weights
_MIXED = 1.6  # bytes read to those of a Q4_K_M file: its tensors of six bits become bfloat16
_NEED = 2_000  # tokens of a window beside the document: prompt and answer

Rates = Callable[[str], tuple[float, float] | None]
"""Seconds for a token read and for one written, by a preset's earlier runs; None where there are none."""


def candidates(
    machine: Machine, *, tokens: int = USUAL_TOKENS, gguf: Sequence[str] = (), rates: Rates = lambda name: None
) -> list[Candidate]:
    """For a document of so many tokens; `gguf` has the files that the configuration names. Never uses the network."""
    ranked = [preset for preset in _readable() if preset.rank is not None and preset.mode == "abstractive"]
    return [_candidate(machine, one, tokens, rates) for one in (*ranked, *_files(ranked, gguf))]


def _readable() -> Iterator[Preset]:
    """The presets, without the user's own that are not valid: naming one says what is wrong."""
    for file in preset_files().values():
        with suppress(SpecextendError):
            yield read_preset(file)


def _files(ranked: Sequence[Preset], gguf: Sequence[str]) -> Iterator[Preset]:
    """Presets made of the files on this machine that can be run."""
    named = [str(Path(file).expanduser()) for file in gguf]
    for argument in (*named, *(f"ollama:{name}" for name in ollama.names())):
        try:
            made = load_preset(argument)
        except SpecextendError:  # gone, damaged or of another kind: naming it says what is wrong
            continue
        own = [one.rank for one in ranked if one.rank and _sizes(one.target.shape) == _sizes(made.target.shape)]
        if own or argument in named:
            # A directory or TOML file can be named, so the argument is what runs it again.
            yield made.model_copy(update={"name": argument, "rank": min(own, default=_LAST)})


def _sizes(shape: Shape | None) -> object:
    """What two conversions of one model have in common."""
    return shape and (shape.layers, shape.hidden, shape.heads, shape.kv_heads, shape.intermediate, shape.vocab)


def _candidate(machine: Machine, preset: Preset, tokens: int, rates: Rates) -> Candidate:
    assert preset.rank is not None
    one = Candidate(preset.name, preset.rank, None, is_present(preset), _missing(preset), tokens=tokens)
    try:
        dtype: Dtype | None = None if machine.has_bfloat16 or preset.target.dtype == "float32" else "float32"
        need = estimate(preset, context=min(preset.window.context, tokens + _NEED), dtype=dtype)
        shape = target_shape(preset.target)
    except SpecextendError:  # a damaged directory: naming it says what is wrong
        return one
    if need is None or shape is None:
        return one
    source = preset.target.source
    has_codes = isinstance(source, (HubFileSource, WheelSource, GgufSource, OllamaSource))
    # Beside the weights: graphs on a GPU; the codes of four or eight bits on a processor.
    beside = graph_bytes(preset) if machine.device == "cuda" else has_codes * _weight_bytes(preset, shape)
    gated, needs_cuda = preset.gated and not _logged_in(), preset.target.quantization == "nf4"
    lacks = "" if not needs_cuda or find_spec("bitsandbytes") else "pip install 'specextend-cli[quantized]'"
    is_slow = not has_codes and shape.parameters > _LARGE
    one = replace(
        one, need=need.total + beside, gated=gated, needs_cuda=needs_cuda, is_slow_on_cpu=is_slow, lacks=lacks
    )
    known = rates(preset.name)
    if known is None and machine.speed is not None:
        known = expected_rates(preset, shape, machine.speed, _weight_bytes(preset, shape))
    if known is None or machine.device != "cpu":
        return one
    return replace(one, seconds=expected_seconds(preset, tokens, *known), rate=1 / known[1])


def _weight_bytes(preset: Preset, shape: Shape) -> int:
    """Bytes that a step of decoding reads: those of the file whose codes the kernels read, or of the full weights."""
    source = preset.target.source
    if isinstance(source, (HubFileSource, WheelSource)):
        return int(source.file_bytes * (_MIXED if "Q4_K_M" in source.file else 1.0))
    if isinstance(source, GgufSource) and source.path.is_file():
        return source.path.stat().st_size
    return shape.weight_bytes()


def _missing(preset: Preset) -> int | None:
    """Bytes to download; None where they are not known."""
    total = 0
    for role, source in zip(("target", "draft"), preset.sources, strict=False):
        if locate(source, tokenizer=role == "target") is not None:
            continue
        if isinstance(source, HubFileSource):
            total += source.file_bytes
        elif isinstance(source, WheelSource):
            total += source.wheel_bytes
        else:
            sizes = preset.target.shape if role == "target" else preset.draft.shape or preset.draft.head
            if sizes is None:
                return None
            total += sizes.weight_bytes()
    return total


def _logged_in() -> bool:
    """Whether the Hub's library has a token."""
    from huggingface_hub import get_token

    return get_token() is not None
