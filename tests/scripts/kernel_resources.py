"""What the Triton kernels take of a GPU: registers, spills and shared memory, compiled to machine code without a GPU.

    python -m tests.scripts.kernel_resources [--arch 80 89 90 120] [--all]

Compiles every launch that the package makes (`triton_plan`) with Triton's own ptxas and prints, as Markdown, the
largest figures by kernel, head dimension and architecture, or every launch with --all; exits 1 if one spills.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
import torch

from specextend_cli.engine.attention.triton_plan import MOST_REGISTERS, Chip, plan, power_of_two
from specextend_cli.engine.cuda.body import WORDS
from specextend_cli.engine.cuda.ops import _BLOCK

CHIPS = {80: Chip(108, 163 << 10), 89: Chip(142, 99 << 10), 90: Chip(132, 227 << 10), 120: Chip(170, 99 << 10)}
"""By compute capability: A100, RTX 4090, H100, RTX 5090."""
HEAD_DIMS = (64, 80, 96, 128, 256, 512)
DTYPES = {torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32"}
GROUPS = 4  # heads for each key head; the number of rows decides the launch
NODES = (1, 2, 4, 8, 12, 16, 32, 64, 128)
_LONG = 1 << 15  # keys
_INTEGERS = ("words", "addresses", "lengths", "starts", "positions", "at", "last")
_INTEGERS += ("pick", "ids", "vocabulary", "tokens", "begin", "nodes", "above", "count")
_FIXED = dict.fromkeys(_INTEGERS, "*i64") | {"mask": "*i1", "firsts": "*i32"}
_FIXED |= dict.fromkeys(("lse", "parts", "turns", "sums", "shares", "scores", "decay"), "*fp32")
_FIXED |= dict.fromkeys(("scale", "cap", "factor", "epsilon"), "fp32")
_OWN = ("q", "k", "v", "sinks", "out", "x", "added", "weight", "total", "normed")
_OWN += ("qkv", "queries", "q_weight", "k_weight", "keys", "values", "like", "gate_up", "new", "beta", "logits")
_WIDTHS = (576, 4096, 8192)
_LEVELS = (8, 10)  # nodes of a draft tree's level


@dataclass(frozen=True)
class Launch:
    """A kernel with its compile-time constants, for a number format."""

    kernel: str
    dtype: torch.dtype
    head_dim: int
    constants: tuple[tuple[str, Any], ...]
    warps: int = 4
    stages: int = 3

    @property
    def label(self) -> str:
        """The constants that differ, in words."""
        shown = {"BLOCK_M", "BLOCK_N", "CAUSAL", "WINDOWED", "CHUNK", "BLOCK_S"}
        return " ".join(f"{name}={value}" for name, value in self.constants if name in shown)


@dataclass(frozen=True)
class Resources:
    """Of one compiled launch: registers a thread; bytes spilled by a thread; bytes of shared memory a program."""

    registers: int
    spilled: int
    shared: int


def launches(arch: int) -> Iterator[Launch]:
    """Every launch, once: what `attend` can ask for on that architecture."""
    chip = CHIPS[arch]
    for dtype, d in product(DTYPES, HEAD_DIMS):
        width = power_of_two(d)
        cuts = {plan(GROUPS * n, _LONG, 8, d, dtype.itemsize, chip)._replace(splits=1) for n in NODES}
        for cut, causal, placed in product(sorted(cuts), (True, False), (True, False)):
            if causal and placed and cut.rows > 16:
                continue  # without a tree, graphs have one query a sequence
            shape = {"KV_HEADS": 8, "GROUPS": GROUPS, "D": d, "BLOCK_D": width, "q_d": 1, "k_d": 1, "v_d": 1}
            blocks = {"BLOCK_M": cut.rows, "BLOCK_N": cut.keys, "TAIL_N": min(cut.keys, 64)}
            flags = {"CAUSAL": causal, "PLACED": placed, "PRECISION": "ieee"}
            # Sinks, capped scores, a window. Only graphs leave windows to the kernel; no model has all three.
            kinds = [(False, False, False), (True, True, False)]
            kinds += [(False, False, True), (True, False, True), (False, True, True)] if placed else []
            for sinks, capped, windowed in kinds:
                every = shape | blocks | flags | {"HAS_SINKS": sinks, "CAPPED": capped, "WINDOWED": windowed}
                yield Launch("attend_split", dtype, d, tuple(every.items()), cut.warps, cut.stages)
        for ways in (2, 8, 64):
            sizes = (("D", d), ("BLOCK_D", width), ("BLOCK_S", ways))
            yield Launch("merge_splits", dtype, d, sizes, warps=4 if width <= 256 else 16)
        turned = {"HEADS": 8 * GROUPS, "KV_HEADS": 8, "D": d, "BLOCK_D": width, "ROTATED": d, "NORMS": True}
        yield Launch("rotate_and_store", dtype, d, tuple(turned.items()), warps=1)
        strides = {"k_d": 1, "v_d": 1}
        yield Launch("store_rows", dtype, d, tuple((strides | {"D": d, "BLOCK_D": width}).items()), warps=1)
    for dtype, size in product(DTYPES, _WIDTHS):
        block = power_of_two(size)
        added = {"WIDTH": size, "BLOCK": block, "ADDS": True, "SCALES": True}
        yield Launch("add_norm_rows", dtype, 0, tuple(added.items()), warps=min(max(block // 512, 1), 8))
        yield Launch("gate_rows", dtype, 0, (("WIDTH", size), ("BLOCK", min(block, 1024))))
    for causal in (True, False):
        sizes = {"SLOTS": 16 if causal else 128, "CAUSAL": causal}
        yield Launch("first_keys", torch.float32, 0, tuple(sizes.items()), warps=1)
    yield from _of_states()
    yield from _of_drafts()


def _of_states() -> Iterator[Launch]:
    """Of recurrent layers: a token of each sequence, a tree, and what is kept of it."""
    for dtype, (tree, keeps) in product(DTYPES, ((False, False), (True, False), (True, True))):
        how = {"WORDS": 2, "TREE": tree, "KEEPS": keeps}
        for channels, size in ((2048, 3), (8192, 4)):
            wide = {"CHANNELS": channels, "SIZE": size, "WIDE": power_of_two(size), "BLOCK": 256}
            yield Launch("window_rows", dtype, 0, tuple((wide | how).items()))
        shape = {"HEADS": 32, "KEY_HEADS": 16, "K": 128, "V": 128, "BLOCK_K": 128, "BLOCK_V": 16, "NORMS": True}
        yield Launch("recur_rows", dtype, 0, tuple((shape | how).items()))


def _of_drafts() -> Iterator[Launch]:
    """Choosing a draft's nodes: levels of eight and ten nodes, vocabularies of 32,000 and 262,144 tokens."""
    for width in _LEVELS:
        for dtype, picks in product(DTYPES, (False, True)):
            yield Launch("best_of_blocks", dtype, 0, (("WIDTH", width), ("BLOCK", _BLOCK), ("PICKS", picks)))
        for vocabulary in (32_000, 1 << 18):
            blocks = -(-vocabulary // _BLOCK)
            count = blocks * width
            sizes = {"WIDTH": width, "COUNT": count, "BLOCK": power_of_two(count), "BLOCKS": blocks}
            sizes |= {"BLOCK_S": power_of_two(blocks), "MAPS": True}
            yield Launch("best_of_rows", torch.float32, 0, tuple(sizes.items()), warps=1 if count <= 256 else 4)
        for first in (True, False):
            sizes = {"WIDTH": width, "WORDS": WORDS, "BLOCK": power_of_two(width if first else width * width)}
            sizes |= {"BLOCK_W": power_of_two(width), "FIRST": first}
            yield Launch("choose_level", torch.float32, 0, tuple(sizes.items()), warps=1)


def compiled(wanted: Iterable[Launch], arch: int) -> Iterator[tuple[Launch, Resources]]:
    """Each launch that the kernels know, compiled by Triton's own ptxas."""
    with tempfile.TemporaryDirectory() as cache, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", cache)  # ptxas speaks only when it runs
        patch.setenv("TRITON_DUMP_PTXAS_LOG", "1")
        seen = set()
        for launch in wanted:
            known = _known(launch)
            if known not in seen:
                seen.add(known)
                yield known, _compile(known, arch)


def _kernel(launch: Launch) -> Any:
    from specextend_cli.engine.attention import triton_kernels
    from specextend_cli.engine.cuda import kernels, recurrent_kernels

    modules = (triton_kernels, kernels, recurrent_kernels)
    return next(getattr(module, launch.kernel) for module in modules if hasattr(module, launch.kernel))


def _known(launch: Launch) -> Launch:
    """The launch without constants that its kernel does not have."""
    names = _kernel(launch).arg_names
    constants = tuple((name, value) for name, value in launch.constants if name in names)
    return Launch(launch.kernel, launch.dtype, launch.head_dim, constants, launch.warps, launch.stages)


def _compile(launch: Launch, arch: int) -> Resources:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kernel, constants = _kernel(launch), dict(launch.constants)
    own = f"*{DTYPES[launch.dtype]}"
    types = _FIXED | dict.fromkeys(_OWN, own)
    if launch.kernel == "attend_split":
        types["total"] = "i32"
    if launch.kernel == "choose_level":
        types["tree"] = "*i64"
    if launch.kernel in ("best_of_blocks", "best_of_rows"):
        types["values"] = "*fp32"
    signature = {name: "constexpr" if name in constants else types.get(name, "i32") for name in kernel.arg_names}
    # As at run time: tensors begin, and rows follow each other, at multiples of 16; lengths are not specialized on.
    strides = {"q_h", "q_n", "k_h", "k_t", "v_h", "v_t"}
    even = [i for i, name in enumerate(kernel.arg_names) if signature[name].startswith("*") or name in strides]
    attributes = {(i,): [["tt.divisibility", 16]] for i in even}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=attributes)
    options = {"num_warps": launch.warps, "num_stages": launch.stages}
    if launch.kernel in ("attend_split", "rotate_and_store"):
        options["maxnreg"] = MOST_REGISTERS
    log = io.StringIO()
    with redirect_stdout(log):
        made = triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)
    assert made.asm["cubin"]
    registers = re.search(r"Used (\d+) registers", log.getvalue())
    spilled = re.findall(r"(\d+) bytes spill (?:stores|loads)", log.getvalue())
    assert registers, log.getvalue()
    assert spilled, log.getvalue()
    return Resources(int(registers[1]), sum(map(int, spilled)), made.metadata.shared)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", type=int, nargs="+", default=list(CHIPS), choices=CHIPS)
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    spilled = 0
    largest: dict[tuple[str, int], dict[int, Resources]] = {}
    for arch in options.arch:
        for launch, took in compiled(launches(arch), arch):
            spilled += took.spilled > 0
            if options.all or took.spilled:
                print(
                    f"sm_{arch} {launch.kernel} {DTYPES[launch.dtype]} d={launch.head_dim} {launch.label}: {took}",
                    flush=True,
                )
            row = largest.setdefault((launch.kernel, launch.head_dim), {})
            old = row.get(arch, took)
            row[arch] = Resources(*map(max, zip(vars(old).values(), vars(took).values(), strict=True)))
    print("| kernel | head dimension | " + " | ".join(f"sm_{arch}" for arch in options.arch) + " |")
    print("|---|---:|" + "---:|" * len(options.arch))
    for (kernel, d), row in largest.items():
        figures = (
            f"{row[arch].registers} / {row[arch].spilled} / {row[arch].shared / 1024:.0f}" for arch in options.arch
        )
        print(f"| `{kernel}` | {d} | " + " | ".join(figures) + " |")
    sys.exit(1 if spilled else 0)


if __name__ == "__main__":
    main()
