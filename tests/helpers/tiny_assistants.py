"""Tiny random assistant models for the targets `gemma4` and `gemma4-shared` of `tiny_models`."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, PreTrainedModel

from specextend_cli.engine.drafters import AssistantDrafter
from specextend_cli.engine.drafters.assistant import Assistant
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.target import Target
from specextend_cli.models.draft_modules import without_producers
from tests.engine.tiny_models import GEMMA_4
from tests.helpers.decoding import small

ASSISTANT = {
    **{"hidden_size": 32, "intermediate_size": 48, "num_kv_shared_layers": 3},
    **{"hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0},
}


def tiny_assistant(*, clusters: int = 0, seed: int = 3, backbone: int = 84, **text: Any) -> PreTrainedModel:
    """transformers' own; with `clusters` it looks at the tokens of a ninth of them only."""
    config = transformers.Gemma4AssistantConfig(
        text_config={**GEMMA_4, **ASSISTANT, **text},
        backbone_hidden_size=backbone,
        use_ordered_embeddings=clusters > 0,
        num_centroids=clusters or 1,
        centroid_intermediate_top_k=max(clusters // 9, 1),
    )
    torch.manual_seed(seed)
    with without_producers(config.text_config):
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config).float().eval()
    if clusters:
        model.get_submodule("masked_embedding").token_ordering.copy_(torch.randperm(config.text_config.vocab_size))
    return model


def assistant_drafter(target: Target, policy: str = "retrieval", **options: Any) -> AssistantDrafter:
    made = tiny_assistant(backbone=int(target.lm.config.hidden_size), **options).to(target.lm.device)
    return AssistantDrafter(Assistant(made, target.lm), target, small(policy))


def target_of(model: PreTrainedModel) -> Target:
    return Target(LanguageModel(model))
