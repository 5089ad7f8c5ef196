"""Sources of draft trees."""

from specextend_cli.engine.drafters.assistant import AssistantDrafter as AssistantDrafter
from specextend_cli.engine.drafters.base import Drafter as Drafter
from specextend_cli.engine.drafters.base import NoDrafter as NoDrafter
from specextend_cli.engine.drafters.blend import BlendDrafter as BlendDrafter
from specextend_cli.engine.drafters.model import EagleDrafter as EagleDrafter
from specextend_cli.engine.drafters.model import LMDrafter as LMDrafter
from specextend_cli.engine.drafters.model import ModelDrafter as ModelDrafter
from specextend_cli.engine.drafters.ngram import NgramDrafter as NgramDrafter
from specextend_cli.engine.drafters.table import NgramTableDrafter as NgramTableDrafter


def model_drafters(drafter: Drafter) -> list[ModelDrafter]:
    """Those among a drafter and its sources that draft with a model."""
    sources = drafter.sources if isinstance(drafter, BlendDrafter) else (drafter,)
    return [source for source in sources if isinstance(source, ModelDrafter)]
