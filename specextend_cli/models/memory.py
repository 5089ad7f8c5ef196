"""The memory that a preset needs, computed from its models' sizes; nothing is loaded or fetched."""

from __future__ import annotations

from dataclasses import replace

from specextend_cli.errors import ModelError
from specextend_cli.models.checkpoint import named_gguf
from specextend_cli.models.gguf.source import gguf_file, parts
from specextend_cli.models.head_config import read_head_config
from specextend_cli.models.preset import Dtype, Preset, Target, footprint
from specextend_cli.models.shape import Estimate, Footprint, Shape, Sizes
from specextend_cli.models.source_kinds import GgufSource, HubFileSource, OllamaSource, WheelSource
from specextend_cli.models.sources import locate

_PACKED = 1.1  # bytes of packed weights to those of a file: its tensors of six bits are kept as eight


def estimate(
    preset: Preset, *, context: int | None = None, dtype: Dtype | None = None, on_cpu: bool = False
) -> Estimate | None:
    """Bytes for `context` tokens (default: the preset's window), in `dtype` (default: the preset's).

    `on_cpu`: on a processor that has the native library, where the weights of a GGUF file stay packed. None when
    neither the preset nor a model on disk says how large the target is.
    """
    footprint = _footprint(preset, dtype)
    if footprint is None:
        return None
    found = footprint.at(context or preset.window.context)
    packed = gguf_bytes(preset) if on_cpu else 0
    return replace(found, weights=int(_PACKED * packed)) if packed else found


def gguf_bytes(preset: Preset) -> int:
    """The size of the target's GGUF file, of all parts; 0 where it is in none."""
    source = preset.target.source
    if isinstance(source, (HubFileSource, WheelSource)):
        return source.file_bytes
    if isinstance(source, (GgufSource, OllamaSource)):
        return sum(part.stat().st_size for part in parts(gguf_file(source)))
    return 0


def prefill_bytes(preset: Preset, tokens: int, *, dtype: Dtype | None = None) -> int:
    """Activations of a prefill step of so many tokens; 0 where the target's size is unknown."""
    footprint = _footprint(preset, dtype)
    return footprint.prefill(tokens) if footprint else 0


def _footprint(preset: Preset, dtype: Dtype | None) -> Footprint | None:
    shape, sizes = target_shape(preset.target), draft_sizes(preset)
    if shape is None:
        return None
    return footprint(preset.target, preset.draft, preset.retrieval, preset.tree, shape=shape, sizes=sizes, dtype=dtype)


def target_shape(target: Target) -> Shape | None:
    """The sizes of a target: from its config.json where it is on disk, else as the preset states them.

    None where neither has them: some of the models that transformers runs have other sizes, or other names for them.
    """
    directory = locate(target.source)
    try:
        in_gguf = directory is not None and named_gguf(directory) is not None
        return target.shape if directory is None or in_gguf else Shape.of(directory)
    except ModelError as error:
        if isinstance(error.__cause__, KeyError):
            return target.shape
        raise


def draft_sizes(preset: Preset) -> Sizes | None:
    """The sizes of a draft, likewise; None where there is none, or none are known."""
    draft = preset.draft
    if draft.source is None or (directory := locate(draft.source, tokenizer=False)) is None:
        return draft.shape
    if draft.model == "lm":
        return Shape.of(directory)
    head = None if draft.model == "assistant" else read_head_config(directory)
    return Sizes.counted(directory, head.cached if head else 0)
