"""Prompts longer than a model was trained for: RoPE stretched by YaRN (arXiv 2309.00071), for every method alike."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from transformers import PreTrainedModel

from specextend_cli.errors import FitError


@contextmanager
def stretched(model: PreTrainedModel, trained: int, needed: int) -> Iterator[bool]:
    """`model` with RoPE for `needed` positions while the body runs; yields whether that took any stretching.

    By needed / trained, no more: a model loses something with every stretch. FitError where the model's RoPE is
    already a stretched one.
    """
    if needed <= trained:
        yield False
        return
    decoder = model.get_decoder()
    rope = dict(getattr(model.config, "rope_parameters", None) or {})
    before = getattr(decoder, "rotary_emb", None)
    if rope.get("rope_type", "default") != "default" or not isinstance(before, nn.Module):
        raise FitError(
            f"{needed:,} tokens do not fit the model's window of {trained:,}",
            why=f"its RoPE is already scaled ({rope.get('rope_type')}), and a second scaling would be a guess",
            fix="a smaller --len or --tokens",
        )
    config = copy.deepcopy(model.config)
    config.rope_parameters = {
        **rope,
        "rope_type": "yarn",
        "factor": needed / trained,
        "original_max_position_embeddings": trained,
    }
    config.max_position_embeddings = needed
    decoder.rotary_emb = type(before)(config=config).to(model.device)
    try:
        yield True
    finally:
        decoder.rotary_emb = before
