"""The memory that a preset needs, computed from its models' sizes; nothing is loaded or fetched."""

from __future__ import annotations

from specextend_cli.errors import ModelError
from specextend_cli.models.checkpoint import named_gguf
from specextend_cli.models.gguf.source import gguf_file, parts
from specextend_cli.models.head_config import PublishedHead
from specextend_cli.models.preset import ITEM_BYTES, Dtype, Preset, Target, pair_bytes
from specextend_cli.models.shape import Shape, Sizes, count_weights
from specextend_cli.models.source_kinds import GgufSource, HubFileSource, OllamaSource, WheelSource
from specextend_cli.models.sources import locate

_PACKED = 1.1  # bytes of packed weights to those of a file: its tensors of six bits are kept as eight


def estimate(
    preset: Preset, *, context: int | None = None, dtype: Dtype | None = None, on_cpu: bool = False
) -> int | None:
    """Bytes for `context` tokens (default: the preset's window), in `dtype` (default: the preset's).

    `on_cpu`: on a processor that has the native library, where the weights of a GGUF file stay packed. None when
    neither the preset nor a model on disk says how large the target is. A draft of unknown size is not counted.
    """
    if (shape := target_shape(preset.target)) is None:
        return None
    return pair_bytes(
        context or preset.window.context,
        shape,
        draft_sizes(preset),
        preset.target,
        preset.draft,
        preset.retrieval,
        preset.tree,
        dtype=dtype,
        weights=int(_PACKED * gguf_bytes(preset)) if on_cpu else 0,
    )


def gguf_bytes(preset: Preset) -> int:
    """The size of the target's GGUF file, of all parts; 0 where it is in none, or the file is gone."""
    source = preset.target.source
    if isinstance(source, (HubFileSource, WheelSource)):
        return source.file_bytes
    if not isinstance(source, (GgufSource, OllamaSource)):
        return 0
    try:
        return sum(part.stat().st_size for part in parts(gguf_file(source)))
    except (ModelError, OSError, ValueError):  # loading it says so
        return 0


def prefill_bytes(preset: Preset, tokens: int, *, dtype: Dtype | None = None) -> int:
    """Activations of a prefill step of so many tokens; 0 where the target's size is unknown."""
    shape, item = target_shape(preset.target), ITEM_BYTES[dtype or preset.target.dtype]
    return shape.prefill_bytes(tokens, item, keeps_states=preset.draft.reads_states) if shape else 0


def target_shape(target: Target) -> Shape | None:
    """The sizes of a target, counted where it is on disk and its layers are alike, else as the preset states them."""
    directory = locate(target.source)
    found = None if directory is None or named_gguf(directory) is not None else Shape.of(directory)
    return found or target.shape


def draft_sizes(preset: Preset) -> Sizes | None:
    """The sizes of a draft, likewise; None where there is none, or none are known."""
    draft = preset.draft
    if draft.source is None or (directory := locate(draft.source)) is None:
        return draft.shape
    if draft.model == "lm":
        return Shape.of(directory) or draft.shape
    cached = 0 if draft.model == "assistant" else PublishedHead.read(directory).cached
    return Sizes(weights=count_weights(directory), cached=cached)
