"""How large the suite is: full on a GPU, as far as its memory goes; tiny elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import torch

_RESERVE = 6e9  # bytes for activations, kernels' rings, and what else is on the GPU
_LAYER = 0.44e9  # bytes of a layer of Llama 3.1 8B in bfloat16
_ROWS = 2 * 8 * 128 * 2  # bytes of keys and values, a token and layer
_ENDS = 2.2e9  # bytes of embedding and output head, and about as much of a head that drafts
MOST_LAYERS = 32


@dataclass(frozen=True)
class Sizes:
    """`label` is in every row: which device it was, and where it was none, that these are no GPU's figures."""

    device: torch.device
    label: str
    dtype: torch.dtype
    exact: tuple[torch.dtype, ...]
    """What kernels are checked in."""
    heads: int
    kv_heads: int
    head_dim: int
    head_dims: tuple[int, ...]
    """What kernels are checked with; those timed are of `head_dim`."""
    trees: tuple[tuple[int, int], ...]
    """Nodes and the keys before them, of the checks."""
    lengths: tuple[int, ...]
    nodes: int
    ring: int
    """Bytes of keys and values that timings go round: several times any cache."""
    layers: int
    hidden: int
    intermediate: int
    vocabulary: int
    draft_vocabulary: int
    rounds: int
    ceiling: float
    prompt: int
    """Tokens of the embedded pair's prompt; it writes a quarter as many."""

    @property
    def is_gpu(self) -> bool:
        """Whether the figures mean anything."""
        return self.device.type == "cuda"


def sizes_for(device: torch.device) -> Sizes:
    """Llama 3.1 8B's on CUDA, with as many of its layers as fit; tiny elsewhere."""
    if device.type != "cuda":
        return Sizes(
            device=device,
            label="no GPU: a rehearsal",
            dtype=torch.float32,
            exact=(torch.float32, torch.float16),
            heads=4,
            kv_heads=2,
            head_dim=32,
            head_dims=(32,),
            trees=((1, 40), (12, 70)),
            lengths=(32, 64),
            nodes=8,
            ring=1,
            layers=2,
            hidden=128,
            intermediate=256,
            vocabulary=512,
            draft_vocabulary=256,
            rounds=1,
            ceiling=0.02,
            prompt=256,
        )
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
        prompt=2048,
    )
