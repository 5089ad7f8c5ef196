"""How much memory this process holds."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

import psutil

from specextend_cli.humanize import format_bytes


@dataclass(frozen=True)
class Memory:
    """Bytes of main memory and, where a GPU is in use, of its memory."""

    resident: int
    gpu: int = 0

    def __str__(self) -> str:
        """ "1.3 GB", or "1.3 GB + 4.0 GB gpu"."""
        main = format_bytes(self.resident)
        return f"{main} + {format_bytes(self.gpu)} gpu" if self.gpu else main


def memory() -> Memory:
    """What this process holds now. Asks torch only if someone else has already imported it."""
    resident = psutil.Process(os.getpid()).memory_info().rss
    # The panel asks from its own thread, perhaps in the middle of `import torch`: `cuda` comes last.
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return Memory(resident)
    return Memory(resident, cuda.memory_reserved())
