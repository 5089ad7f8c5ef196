"""The memory that a preset needs, computed from its models' sizes; nothing is loaded or fetched."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from dataclasses import dataclass

from specextend_cli.models.preset import Dtype, Preset, Target
from specextend_cli.models.shape import HeadShape, Shape
from specextend_cli.models.sources import locate

HEADROOM = 0.92
"""The share of a device's memory that a preset may need; the rest is for the driver and fragmentation."""

_GRAPH_ROWS = 256  # of all graphs: trees of up to 64 nodes, batches of up to 32 sequences, drafts
_PREFILL = 1024  # tokens of a prefill step, which bound its activations
_ITEM: dict[Dtype, int] = {"auto": 2, "bfloat16": 2, "float16": 2, "float32": 4}


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes, by use. Activations are bounded, not measured.

    Not `complete` where the draft's sizes are unknown until it is fetched, so that it is not counted.
    """

    weights: int
    kv: int
    draft_weights: int
    draft_kv: int
    workspace: int
    complete: bool = True

    @property
    def total(self) -> int:
        """Bytes in all."""
        return self.weights + self.kv + self.draft_weights + self.draft_kv + self.workspace


def estimate(preset: Preset, *, context: int | None = None, dtype: Dtype | None = None) -> Estimate | None:
    """Bytes for `context` tokens (default: the preset's window), in `dtype` (default: the preset's).

    None when neither the preset nor a model on disk says how large the target is.
    """
    tokens = context or preset.window.context
    target, draft = target_shape(preset.target), draft_shape(preset)
    if target is None:
        return None
    item = _ITEM[dtype or preset.target.dtype]
    has_head = preset.draft.model == "eagle"
    draft_item = item if has_head else _ITEM[dtype or preset.draft.dtype]
    working = 0 if preset.retrieval.policy == "full" else min(tokens, preset.retrieval.size)
    draft_weights = draft.weight_bytes(draft_item) if draft else 0
    draft_kv = draft.kv_bytes_per_token(draft_item) * (tokens + working) if draft else 0
    if preset.draft.kind == "self" or "self" in preset.draft.of:
        draft_kv += target.kv_bytes_per_token(item) * working
    return Estimate(
        weights=target.weight_bytes(item, preset.target.quantization),
        kv=target.kv_bytes_per_token(item) * tokens + target.state_bytes,
        draft_weights=draft_weights,
        draft_kv=draft_kv,
        workspace=_workspace(target, preset.tree.nodes, item) + has_head * _states(target, item),
        complete=draft is not None or not preset.draft.has_model,
    )


def graph_bytes(preset: Preset, *, dtype: Dtype | None = None) -> int:
    """What CUDA graphs keep (`engine/cuda/graphs.py`): of every row, all layers' states and queries, and its logits."""
    shape = target_shape(preset.target)
    if shape is None:
        return 0
    row = shape.layers * (2 * shape.hidden + shape.heads * shape.head_dim) + shape.vocab
    return _GRAPH_ROWS * row * _ITEM[dtype or preset.target.dtype]


def fits(preset: Preset, device_memory: int) -> bool | None:
    """Whether the preset fits a device with `device_memory` bytes, leaving headroom. None: not known."""
    need = estimate(preset)
    if need is None:
        return None
    room = need.total <= HEADROOM * device_memory
    return room if need.complete or not room else None


def device_memory() -> int:
    """Bytes of the first GPU, by nvidia-smi; without one, of this machine."""
    import psutil

    if tool := shutil.which("nvidia-smi"):
        query = [tool, "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
        with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError, IndexError):
            answer = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True)
            return int(answer.stdout.split()[0]) << 20
    return psutil.virtual_memory().total


def target_shape(target: Target) -> Shape | None:
    """The sizes of a target: from its config.json where it is on disk, else as the preset states them."""
    directory = locate(target.source)
    return target.shape if directory is None else Shape.of(directory)


def draft_shape(preset: Preset) -> Shape | HeadShape | None:
    """The sizes of a draft, likewise; None where there is none, or none are known."""
    draft = preset.draft
    if draft.source is None:
        return None
    directory = locate(draft.source, tokenizer=False)
    if draft.model == "eagle":
        return draft.head if directory is None else HeadShape.of(directory)
    return draft.shape if directory is None else Shape.of(directory)


def _workspace(shape: Shape, nodes: int, item: int) -> int:
    """Activations of one prefill step in one layer, and two copies of a tree's logits in single precision."""
    activations = _PREFILL * item * (4 * shape.hidden + 3 * shape.intermediate + shape.head_dim * shape.heads)
    return activations + 2 * 4 * nodes * shape.vocab


def _states(shape: Shape, item: int) -> int:
    """Hidden states of a prefill step for a head: all layers', before its feature layers are selected."""
    return _PREFILL * item * (shape.layers + 1) * shape.hidden
