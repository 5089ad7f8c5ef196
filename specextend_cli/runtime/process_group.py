"""Several processes for one target, as torchrun starts them: the first runs the command, the others compute along."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specextend_cli.engine.tensor_parallel import ProcessGroup


def is_shared() -> bool:
    """Whether this process is one of several."""
    return {"RANK", "MASTER_ADDR"} <= os.environ.keys() and int(os.environ.get("WORLD_SIZE", "1")) > 1


@cache
def process_group() -> ProcessGroup | None:
    """The processes, which the first call waits for; None for a process of its own."""
    if not is_shared():
        return None
    import torch
    from torch.distributed import init_process_group

    from specextend_cli.engine.tensor_parallel import ProcessGroup

    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    return ProcessGroup()
