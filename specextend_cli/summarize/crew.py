"""Several processes for one target, as torchrun starts them: the first runs the command, the others compute along."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specextend_cli.engine.parallel import Crew


def is_shared() -> bool:
    """Whether this process is one of several."""
    return {"RANK", "MASTER_ADDR"} <= os.environ.keys() and int(os.environ.get("WORLD_SIZE", "1")) > 1


@cache
def crew() -> Crew | None:
    """The processes, which the first call waits for; None for a process of its own."""
    if not is_shared():
        return None
    import torch
    from torch.distributed import init_process_group

    from specextend_cli.engine.parallel import Crew

    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    return Crew()


def follow(crew: Crew) -> None:
    """Load what the first process loads, and compute along, until it has no more to do."""
    from specextend_cli.engine import parallel
    from specextend_cli.models.lean import import_transformers
    from specextend_cli.summarize.pair import load_target

    order = crew.hear()
    while order[0] == "load":
        import_transformers()
        target = load_target(*order[1:])
        order = parallel.follow(target, crew)
