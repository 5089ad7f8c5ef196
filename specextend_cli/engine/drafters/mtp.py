"""The target's own multi-token prediction layer as the drafter."""

from __future__ import annotations

from specextend_cli.engine.config import Retrieval
from specextend_cli.engine.drafters.eagle import EagleDrafter
from specextend_cli.engine.mtp import MtpHead
from specextend_cli.engine.target import Target


class MtpDrafter(EagleDrafter):
    """Reads the target's last states as an EAGLE head does, and drafts trees over its own cache's working set."""

    def __init__(self, head: MtpHead, target: Target, config: Retrieval, *, window: int | None = None) -> None:
        super().__init__(head, target, config, window=window)
        self.name = "mtp"
