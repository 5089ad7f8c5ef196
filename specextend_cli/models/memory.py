"""The memory that a preset needs, computed from its models' sizes; nothing is loaded or fetched."""

from __future__ import annotations

from dataclasses import replace

from specextend_cli.engine.head_config import HeadConfig
from specextend_cli.errors import ModelError
from specextend_cli.models.assistant_shape import AssistantShape
from specextend_cli.models.footprint import HEADROOM, Estimate, Footprint
from specextend_cli.models.gguf.source import gguf_file
from specextend_cli.models.head_config import read_head_config
from specextend_cli.models.preset import Dtype, Preset, Target
from specextend_cli.models.shape import Shape
from specextend_cli.models.source_kinds import GgufSource, HubFileSource, OllamaSource, WheelSource
from specextend_cli.models.sources import locate

_MIXED = 1.2  # bytes of codes to those of a Q4_K_M file: its tensors of six bits are kept as eight
_ITEM: dict[Dtype, int] = {"auto": 2, "bfloat16": 2, "float16": 2, "float32": 4}


def estimate(
    preset: Preset, *, context: int | None = None, dtype: Dtype | None = None, on_cpu: bool = False
) -> Estimate | None:
    """Bytes for `context` tokens (default: the preset's window), in `dtype` (default: the preset's).

    None when neither the preset nor a model on disk says how large the target is.
    """
    footprint = _footprint(preset, dtype)
    if footprint is None:
        return None
    packed = packed_bytes(preset) if on_cpu else 0
    return replace(footprint.at(context or preset.window.context), packed=packed)


def packed_bytes(preset: Preset) -> int:
    """The codes of the target's weights in four or eight bits, which a processor decodes with; 0 without any."""
    source = preset.target.source
    if isinstance(source, (HubFileSource, WheelSource)):
        name, size = source.file, source.file_bytes
    elif isinstance(source, (GgufSource, OllamaSource)):
        name, size = f"{source}", gguf_file(source).stat().st_size
    else:
        return 0
    return int(size * (_MIXED if "q4_k_m" in name.lower() else 1.0))


def prefill_bytes(preset: Preset, tokens: int, *, dtype: Dtype | None = None) -> int:
    """Activations of a prefill step of so many tokens; 0 where the target's size is unknown."""
    footprint = _footprint(preset, dtype)
    return footprint.prefill(tokens) if footprint else 0


def _footprint(preset: Preset, dtype: Dtype | None) -> Footprint | None:
    target, draft = target_shape(preset.target), draft_shape(preset)
    if target is None:
        return None
    item = _ITEM[dtype or preset.target.dtype]
    return Footprint(
        target,
        draft,
        preset.retrieval,
        preset.tree,
        quantization=preset.target.quantization,
        item=item,
        draft_item=item if preset.draft.has_head else _ITEM[dtype or preset.draft.dtype],
        own="self" in preset.draft.drafters,
        predicts="mtp" in preset.draft.drafters,
        complete=draft is not None or not preset.draft.has_model,
    )


def fits(preset: Preset, memory: int, *, on_cpu: bool = False) -> bool | None:
    """Whether the preset fits `memory` bytes of a device, leaving headroom. None: not known."""
    need = estimate(preset, on_cpu=on_cpu)
    if need is None:
        return None
    room = need.total <= HEADROOM * memory
    return room if need.complete or not room else None


def target_shape(target: Target) -> Shape | None:
    """The sizes of a target: from its config.json where it is on disk, else as the preset states them.

    None where neither has them: some of the models that transformers runs have other sizes, or other names for them.
    """
    directory = locate(target.source)
    try:
        return target.shape if directory is None else Shape.of(directory)
    except ModelError as error:
        if isinstance(error.__cause__, KeyError):
            return target.shape
        raise


def draft_shape(preset: Preset) -> Shape | HeadConfig | AssistantShape | None:
    """The sizes of a draft, likewise; None where there is none, or none are known."""
    draft = preset.draft
    if draft.source is None:
        return None
    if (directory := locate(draft.source, tokenizer=False)) is None:
        return draft.sizes
    if draft.model == "assistant":
        return AssistantShape.of(directory)
    if draft.has_head:
        return read_head_config(directory)
    return Shape.of(directory)
