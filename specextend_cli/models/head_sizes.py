"""The sizes of a published head: what its tensors are. A configuration that contradicts them is refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from torch import Tensor

from specextend_cli.engine.head import HeadConfig
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.models.head_tensors import check_numbers

if TYPE_CHECKING:  # training a new head imports no pydantic
    from specextend_cli.models.head_settings import HeadSettings


def require(holds: object, why: str) -> None:
    """ValueError unless it holds."""
    if not holds:
        raise ValueError(why)


def agree(settings: HeadSettings, key: str, actual: object, whose: str = "its tensors have") -> None:
    """ValueError where the configuration says something else."""
    said = getattr(settings, key)
    require(said in (None, actual), f"config.json says {key} {said}, {whose} {actual}")


def sizes_of(
    settings: HeadSettings, tensors: dict[str, Tensor], target: LanguageModel, *, most_layers: int
) -> tuple[int, int, dict[str, Any]]:
    """The layers of a head, the numbers that its `fc` reads, and the fields of a `HeadConfig` that follow.

    ValueError: tensors and configuration contradict each other, or the head is another target's. KeyError: a tensor is
    missing.
    """
    settings.check_supported()
    check_numbers(tensors)
    hidden, joined = tensors["fc.weight"].shape
    intermediate = tensors["layers.0.mlp.gate_proj.weight"].shape[0]
    query, key = (tensors[f"layers.0.self_attn.{part}_proj.weight"] for part in "qk")
    width = int(target.config.hidden_size)
    reads = settings.target_hidden_size or width
    require(reads == width, f"it reads states of {reads} numbers, the target's have {width}")
    heads = settings.num_attention_heads or 0
    require(heads and query.shape[0] % heads == 0, f"{query.shape[0]} query rows do not divide among {heads} heads")
    head_dim = query.shape[0] // heads
    agree(settings, "head_dim", head_dim)
    kv_heads, rest = divmod(key.shape[0], head_dim)
    require(
        not rest and kv_heads and heads % kv_heads == 0,
        f"{key.shape[0]} key rows do not divide among {heads} heads of {head_dim} numbers",
    )
    agree(settings, "num_key_value_heads", kv_heads)
    agree(settings, "hidden_size", hidden)
    agree(settings, "intermediate_size", intermediate)
    numbers = {int(found[1]) for name in tensors if (found := re.match(r"layers\.(\d{1,3})\.", name))}
    layers = len(numbers)
    require(
        numbers == set(range(layers)) and layers <= most_layers,
        f"its layers are numbered {sorted(numbers)[:most_layers]}",
    )
    sizes = {
        "hidden": hidden,
        "target_hidden": reads,
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "intermediate": intermediate,
        "eps": settings.rms_norm_eps or 1e-6,
        "activation": settings.hidden_act or "silu",
        "rope": settings.rope(),
    }
    return layers, joined, sizes


def published_sizes(config: HeadConfig, layers: int) -> dict[str, Any]:
    """The keys of a config.json that layouts have in common."""
    return {
        "hidden_size": config.hidden,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "intermediate_size": config.intermediate,
        "num_hidden_layers": layers,
        "vocab_size": config.vocabulary,
        "rms_norm_eps": config.eps,
        "hidden_act": config.activation,
        "max_position_embeddings": config.max_position,
        "attention_bias": config.attention_bias,
        "tie_word_embeddings": False,
    }


def check_rows(tensors: dict[str, Tensor], target: LanguageModel, embedded: int, written: int) -> None:
    """ValueError unless a head that embeds and writes so many tokens does so with the target's."""
    theirs = target.vocabulary
    require(embedded >= theirs, f"it embeds {embedded:,} tokens, the target has {theirs:,}")
    require(
        written == theirs or "draft_to_target" in tensors,
        f"its lm_head has {written} rows, the target {theirs}, and no d2t joins them",
    )
