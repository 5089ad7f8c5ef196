"""Which device the suite runs on. To be asked before anything imports triton."""

from __future__ import annotations

import os
import sys

import torch

from specextend_cli.errors import UsageError


def pick(name: str) -> torch.device:
    """A GPU; without one, the processor, with Triton told to interpret its kernels. UsageError for any other."""
    if name not in ("auto", "cpu") and not name.startswith("cuda"):
        raise UsageError(f"--suite gpu does not run on {name!r}", fix="--device cuda, or cpu for a rehearsal")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise UsageError(f"device {name} is not usable here", why="torch sees no CUDA device", fix="--device cpu")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else torch.device(name)
    if device.type != "cuda" and "triton" not in sys.modules:
        os.environ.setdefault("TRITON_INTERPRET", "1")
    return device
