"""A preset's block head (DFlash, DSpark), loaded for its target."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specextend_cli.engine.block_head import BlockHead
    from specextend_cli.engine.lm import LanguageModel


def load_block(directory: Path, target: LanguageModel, name: str) -> BlockHead:
    """The head in `directory`; `name` is what the user calls the preset. ModelError as `load_block_head`."""
    from specextend_cli.engine.four_bit import round_to_four_bit
    from specextend_cli.models.block_heads import load_block_head

    head = load_block_head(directory, target, name=name)
    round_to_four_bit(head)
    return head
