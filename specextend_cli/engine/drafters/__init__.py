"""Sources of draft trees."""

from specextend_cli.engine.drafters.base import Drafter, NoDrafter
from specextend_cli.engine.drafters.blend import BlendDrafter
from specextend_cli.engine.drafters.eagle import EagleDrafter
from specextend_cli.engine.drafters.lm import LMDrafter
from specextend_cli.engine.drafters.ngram import NgramDrafter
from specextend_cli.engine.drafters.ngram_table import NgramTableDrafter

__all__ = ["BlendDrafter", "Drafter", "EagleDrafter", "LMDrafter", "NgramDrafter", "NgramTableDrafter", "NoDrafter"]
