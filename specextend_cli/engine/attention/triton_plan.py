"""The launch parameters of split-KV attention: block sizes, pipeline depth and number of splits, from shapes alone.

Nothing reads the device's data, so a launch captured in a CUDA graph is valid for every length up to its bound. No
launch spills registers on sm_80 to sm_120, by ptxas: `tests/scripts/kernel_resources.py` says what each takes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import torch

MOST_REGISTERS = 255
"""Of a thread. Left to itself, ptxas spills a few bytes where that lets another program run beside it."""
_HOPPER = 200 << 10  # bytes of shared memory; sm_120 has its 99 KB and no such instructions
_AMPERE = 99 << 10  # the least since then; for older ones Triton has no matrix instructions
MOST_SPLITS = 64
_LEAST_BLOCKS = 2  # key blocks per split; a single one has nothing to overlap its loads with
_GOOD_ENOUGH = 0.9  # of the best utilization; fewer splits leave less to merge


class Chip(NamedTuple):
    """The properties of a GPU that a plan needs. The defaults are a small one's, for the interpreter."""

    multiprocessors: int = 8
    shared_memory: int = 99 * 1024
    """Bytes per program."""


class Plan(NamedTuple):
    """One launch: query rows and keys per step of a program; splits; warps; stages of the software pipeline."""

    rows: int
    keys: int
    splits: int
    warps: int
    stages: int


@lru_cache
def chip(device: torch.device) -> Chip:
    """The device's properties, queried once."""
    if device.type != "cuda":
        return Chip()
    properties = torch.cuda.get_device_properties(device)
    memory = getattr(properties, "shared_memory_per_block_optin", Chip().shared_memory)
    return Chip(properties.multi_processor_count, memory)


def plan(rows: int, total: int, kv_heads: int, head_dim: int, itemsize: int, on: Chip) -> Plan:
    """For `rows` queries per key head (heads of its group times nodes) over at most `total` keys.

    `itemsize` is that of keys in bytes; float32, which serves exactness rather than speed, gets small blocks, as all
    formats do where they are not multiplied by matrix instructions: larger ones spill kilobytes of registers. Wide
    heads get smaller blocks and more warps, as registers are few. Hopper's matrix instructions read keys from its
    larger shared memory, and leave registers for larger blocks.
    """
    width = power_of_two(head_dim)
    if itemsize > 2 or on.shared_memory < _AMPERE:
        block, keys, warps = 16, 16, 8
    else:
        most = 128 if width <= (128 if on.shared_memory >= _HOPPER else 64) else 64
        if width > 256:
            most = 32 if on.shared_memory > _AMPERE else 16
        block, keys = min(power_of_two(rows), most), 64 if width <= 128 else 32
        warps = 4 if width <= 128 and width * block < 8192 else 8

    def memory(stages: int) -> int:
        return (stages * 2 * keys + block) * width * itemsize

    deepest = 3 if itemsize <= 2 else 2 if width <= 128 else 1
    stages = next((stages for stages in range(deepest, 1, -1) if memory(stages) <= on.shared_memory), 1)
    resident = 2 if block <= 32 and 2 * memory(stages) <= on.shared_memory else 1
    programs = -(-rows // block) * kv_heads
    return Plan(block, keys, splits(programs, -(-total // keys), on.multiprocessors * resident), warps, stages)


def splits(programs: int, blocks: int, slots: int) -> int:
    """The fewest splits that use `slots` nearly as well as any number of splits would.

    `programs` times the splits run in waves of `slots`; a nearly empty last wave wastes time.
    """
    most = max(1, min(MOST_SPLITS, blocks // _LEAST_BLOCKS))
    use = [programs * s / (slots * -(-programs * s // slots)) for s in range(1, most + 1)]
    return next(s for s, busy in enumerate(use, 1) if busy >= _GOOD_ENOUGH * max(use))


def power_of_two(n: int) -> int:
    """The smallest power of two that is at least n and 16, the least that a matrix instruction takes."""
    return max(16, 1 << (n - 1).bit_length())
