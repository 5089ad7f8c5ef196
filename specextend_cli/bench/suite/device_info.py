"""The suite's device, and its sizes there: full on a GPU, as far as memory allows, tiny elsewhere."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

import torch

from specextend_cli.errors import UsageError

_RESERVE = 6e9  # bytes for activations, kernels' rings, and what else is on the GPU
_LAYER = 0.44e9  # bytes of a layer of Llama 3.1 8B in bfloat16
_ROWS = 2 * 8 * 128 * 2  # bytes of keys and values, a token and layer
_ENDS = 2.2e9  # bytes of embedding and output head, and about as much of a head that drafts
MOST_LAYERS = 32


def pick(name: str) -> torch.device:
    """A GPU, or the processor with Triton's interpreter. Call it before triton is imported. UsageError for others."""
    if name not in ("auto", "cpu") and not name.startswith("cuda"):
        raise UsageError(f"--suite gpu does not run on {name!r}", fix="--device cuda, or cpu for a rehearsal")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise UsageError(f"device {name} is not usable here", why="torch sees no CUDA device", fix="--device cpu")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else torch.device(name)
    if device.type != "cuda" and "triton" not in sys.modules:
        os.environ.setdefault("TRITON_INTERPRET", "1")
    return device


@dataclass(frozen=True)
class Sizes:
    """Of models, kernels' inputs and runs; by default those of a rehearsal.

    `label` names the device in every row, or says that the figures are no GPU's. `exact`, `head_dims` and `trees`
    (nodes, and keys before them) are for the kernel checks; `ring` is the bytes of keys and values in the ring of the
    timings: several times any cache. `ceiling` scales the roofline's buffers. `read`: tokens of the prompt that every
    kernel reads, in pieces of `piece`. `prompt`: tokens of the embedded pair's prompt; it writes a quarter as many.
    """

    device: torch.device
    label: str = "no GPU: a rehearsal"
    dtype: torch.dtype = torch.float32
    exact: tuple[torch.dtype, ...] = (torch.float32, torch.float16)
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 32
    head_dims: tuple[int, ...] = (32,)
    trees: tuple[tuple[int, int], ...] = ((1, 40), (12, 70))
    lengths: tuple[int, ...] = (32,)
    nodes: int = 8
    ring: int = 1
    layers: int = 2
    hidden: int = 128
    intermediate: int = 256
    vocabulary: int = 512
    draft_vocabulary: int = 256
    rounds: int = 1
    ceiling: float = 0.02
    read: int = 24
    piece: int = 16
    prompt: int = 256

    @property
    def is_gpu(self) -> bool:
        """True if the figures are a GPU's."""
        return self.device.type == "cuda"


def sizes_for(device: torch.device) -> Sizes:
    """Llama 3.1 8B's sizes on CUDA, with as many layers as fit; tiny ones elsewhere."""
    if device.type != "cuda":
        return Sizes(device)
    free = torch.cuda.mem_get_info(device)[0]
    longest = 32768
    layers = int((free - _RESERVE - _ENDS) // (_LAYER + longest * _ROWS))
    return Sizes(
        device=device,
        label=torch.cuda.get_device_name(device),
        dtype=torch.bfloat16,
        exact=(torch.bfloat16, torch.float16, torch.float32),
        heads=32,
        kv_heads=8,
        head_dim=128,
        head_dims=(64, 128),
        trees=((1, 0), (1, 9000), (7, 63), (33, 301), (60, 2000), (70, 7000)),
        lengths=(2048, 8192, 16384, longest),
        nodes=60,
        ring=512 << 20,
        layers=max(min(layers, MOST_LAYERS), 0),
        hidden=4096,
        intermediate=14336,
        vocabulary=128256,
        draft_vocabulary=32000,
        rounds=15,
        ceiling=1.0,
        read=16384,
        piece=4096,
        prompt=2048,
    )
