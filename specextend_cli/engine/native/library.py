"""The kernels as a library of operators, `torch.ops.specextend`, compiled on the user's machine and loaded into torch.

Shipped compiled, they would need a wheel for every CPU, system and version of torch. They are a few headers, and a
machine that can compile decoder layers (`cpu/layer_program.py`) can compile these for its own instructions.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from specextend_cli.engine.native.compiler import CannotCompileError, compiler, first_line, processor
from specextend_cli.engine.private_files import DamagedError, checked, is_good, make_private, publish

_HERE = Path(__file__).parent
SOURCES = (*sorted(_HERE.glob("*.h")), _HERE / "kernels.cpp")
_NEEDED = {"avx512f", "avx512bw", "avx512vl", "avx512_bf16", "avx512_vnni"}
# -fopenmp: threads are torch's. -fno-strict-aliasing: two numbers of 16 bits are read as one word. -ffp-contract=off:
# the same arithmetic in two places must round alike.
_FLAGS = (
    *("-O3", "-march=native", "-std=c++20", "-fno-strict-aliasing", "-ffp-contract=off"),
    *("-fPIC", "-shared", "-fopenmp"),
)
_LONGEST = 300  # seconds


@dataclass(frozen=True)
class Library:
    """The file of this version's kernels for this machine, whether it exists or not."""

    file: Path

    @classmethod
    def within(cls, directory: Path) -> Library:
        """CannotCompileError if the CPU lacks the instructions that the kernels use."""
        if not set(processor()[0].split()) >= _NEEDED:
            raise CannotCompileError("the CPU lacks AVX-512 with products in bfloat16 and eight bits")
        facts = (torch.__version__, torch.compiled_with_cxx11_abi(), processor(), _FLAGS, version())
        return cls(directory / f"kernels-{hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]}.so")

    @property
    def is_made(self) -> bool:
        """Whether the file exists, whole, and ours; otherwise `make` it."""
        return is_good(self.file)

    def make(self) -> None:
        """Compile, about half a minute. CannotCompileError, with no file left."""
        root = Path(torch.__file__).parent
        include = (root / "include", root / "include" / "torch" / "csrc" / "api" / "include")
        made = self.file.with_name(f"{self.file.name}.{os.getpid()}")
        command = [
            *(compiler(), *_FLAGS, str(SOURCES[-1]), "-o", str(made)),
            *(f"-I{folder}" for folder in include),
            f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
            *(f"-L{root / 'lib'}", "-lc10", "-ltorch_cpu"),
        ]
        try:
            make_private(self.file.parent)
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_LONGEST)
            if done.returncode:
                raise CannotCompileError(f"the C++ compiler failed: {_first_error(done.stderr)}")
            publish(made, self.file)
        except subprocess.TimeoutExpired as error:
            raise CannotCompileError(f"the C++ compiler took longer than {_LONGEST} seconds") from error
        except (OSError, subprocess.SubprocessError) as error:
            raise CannotCompileError(first_line(error)) from error
        finally:
            made.unlink(missing_ok=True)

    def load(self) -> None:
        """Load into this process, for its lifetime.

        CannotCompileError if it is damaged, could have been written by others, or cannot be loaded.
        """
        if is_loaded():
            return
        try:
            file = checked(self.file)
        except DamagedError as error:
            raise CannotCompileError(f"{first_line(error)}; remove {self.file}") from error
        except OSError as error:
            raise CannotCompileError(str(error)) from error
        try:
            torch.ops.load_library(str(file))
        except OSError as error:
            # Not removed: where no library can be loaded, every run would compile it again.
            raise CannotCompileError(f"{first_line(error.__cause__ or error)}; remove {self.file}") from error
        torch.library.register_fake("specextend::int4_matmul", _int4_matmul)
        torch.library.register_fake("specextend::attend", _attend)
        torch.library.register_fake("specextend::attend_causal", _attend_causal)


@cache
def version() -> str:
    """A digest of the kernels' sources, for programs that call them."""
    return hashlib.sha256(b"".join(source.read_bytes() for source in SOURCES)).hexdigest()


def is_loaded() -> bool:
    """Whether `torch.ops.specextend` can be called."""
    return hasattr(torch.ops.specextend, "int4_matmul")


def _int4_matmul(x: Tensor, codes: Tensor, scales: Tensor) -> Tensor:
    return x.new_empty(x.shape[0], codes.shape[0] * 16)


def _attend(q: Tensor, *args: object) -> Tensor:
    return torch.empty_like(q, memory_format=torch.contiguous_format)


def _attend_causal(q: Tensor, *args: object) -> Tensor:
    batch, heads, n, head_dim = q.shape
    return q.new_empty(batch, n, heads, head_dim)


def _first_error(output: str) -> str:
    lines = output.strip().splitlines() or ["it said nothing"]
    return next((line for line in lines if "error" in line), lines[-1])[:200]
