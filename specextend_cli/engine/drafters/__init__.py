"""Sources of draft trees."""

from specextend_cli.engine.drafters.assistant import AssistantDrafter
from specextend_cli.engine.drafters.base import Drafter, NoDrafter
from specextend_cli.engine.drafters.blend import BlendDrafter
from specextend_cli.engine.drafters.model import EagleDrafter, LMDrafter, ModelDrafter
from specextend_cli.engine.drafters.ngram import NgramDrafter
from specextend_cli.engine.drafters.table import NgramTableDrafter

__all__ = [
    "AssistantDrafter",
    "BlendDrafter",
    "Drafter",
    "EagleDrafter",
    "LMDrafter",
    "ModelDrafter",
    "NgramDrafter",
    "NgramTableDrafter",
    "NoDrafter",
    "model_drafters",
]


def model_drafters(drafter: Drafter) -> list[ModelDrafter]:
    """Those among a drafter and its sources that draft with a model."""
    sources = drafter.sources if isinstance(drafter, BlendDrafter) else (drafter,)
    return [source for source in sources if isinstance(source, ModelDrafter)]
