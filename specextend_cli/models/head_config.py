"""What kind of EAGLE head a checkpoint is: its tensors say, and its configuration adds what they cannot.

A configuration that says otherwise is refused: a head loaded wrongly would draft at random.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specextend_cli.errors import ModelError
from specextend_cli.models.head_settings import claims_eagle3, nested
from specextend_cli.models.head_values import check_attention, check_values, rope_parameters

if TYPE_CHECKING:
    from torch import Tensor

    from specextend_cli.engine.head import HeadConfig
    from specextend_cli.engine.lm import LanguageModel

_THERE = {True: "there", False: "missing"}
_MOST_LAYERS = 8  # a head of more would be a model


def configure(
    settings: dict[str, Any], tensors: dict[str, Tensor], target: LanguageModel, directory: Path
) -> tuple[HeadConfig, tuple[int, ...] | None]:
    """Sizes by what the tensors are, everything else from the configuration; and the other reading of its layer ids.

    ModelError: the two contradict each other, or the head is another target's.
    """
    from specextend_cli.engine.head import HeadConfig

    check_values(settings)
    _check_numbers(tensors, directory)
    try:
        fc = tensors["fc.weight"]
        query, key = (tensors[f"layers.0.self_attn.{part}_proj.weight"] for part in "qk")
        gate = tensors["layers.0.mlp.gate_proj.weight"]
    except KeyError as error:
        raise misfit(directory, f"it has no {error.args[0]}") from error
    hidden, joined = fc.shape
    width = int(target.config.hidden_size)
    reads = int(settings.get("target_hidden_size") or width)
    if reads != width:
        raise misfit(directory, f"it reads states of {reads} numbers, the target's have {width}")
    generation = 3 if query.shape[1] == 2 * hidden else 1
    if query.shape[1] not in (hidden, 2 * hidden) or (claims_eagle3(settings) and generation == 1):
        raise misfit(directory, f"its first layer reads {query.shape[1]} numbers, its states have {hidden}")
    if generation == 1 and joined != 2 * hidden:
        raise misfit(directory, f"an EAGLE-1 head joins {2 * hidden} numbers, its fc reads {joined}")
    if generation == 3 and (joined % reads or joined < reads):
        raise misfit(directory, f"its fc reads {joined} numbers, the target's states have {reads}")
    heads = int(settings.get("num_attention_heads") or 0)
    if not heads or query.shape[0] % heads:
        raise misfit(directory, f"{query.shape[0]} query rows do not divide among {heads} heads")
    head_dim = query.shape[0] // heads
    stated = settings.get("head_dim")
    if stated and stated != head_dim:
        raise misfit(directory, f"config.json says head_dim {stated}, its tensors {head_dim}")
    numbers = {int(found[1]) for name in tensors if (found := re.match(r"layers\.(\d{1,3})\.", name))}
    layers = len(numbers)
    if numbers != set(range(layers)) or layers > _MOST_LAYERS:
        raise misfit(directory, f"its layers are numbered {sorted(numbers)[:_MOST_LAYERS]}")
    # Some configurations are copies of the target's; one that speaks of a head, and of more layers, has lost some.
    if layers < int(settings.get("num_hidden_layers") or 0) <= _MOST_LAYERS:
        raise misfit(directory, f"config.json says num_hidden_layers {settings['num_hidden_layers']}, it has {layers}")
    if layers > int(settings.get("num_hidden_layers") or layers):
        raise misfit(directory, f"config.json says num_hidden_layers {settings['num_hidden_layers']}, it has {layers}")
    check_attention(settings, layers)
    if generation == 1 and settings.get("bias") is True and "fc.bias" not in tensors:
        raise misfit(directory, "config.json says that fc has a bias, and it is missing")
    kv_heads, rest = divmod(key.shape[0], head_dim)
    if rest or not kv_heads or heads % kv_heads:
        raise misfit(directory, f"{key.shape[0]} key rows do not divide among {heads} heads of {head_dim} numbers")
    sizes = {"hidden_size": hidden, "intermediate_size": gate.shape[0], "num_key_value_heads": kv_heads}
    for size, actual in sizes.items():
        if (said := settings.get(size)) is not None and said != actual:
            raise misfit(directory, f"config.json says {size} {said}, its tensors {actual}")
    fused = joined // reads if generation == 3 else 1
    feature_layers, other = _feature_layers(settings, generation, fused, target.layers, directory)
    vocabulary = len(tensors["embedding.weight"]) if "embedding.weight" in tensors else target.vocabulary
    rows = len(tensors["lm_head.weight"]) if "lm_head.weight" in tensors else vocabulary
    if (said := settings.get("vocab_size")) is not None and said != vocabulary:
        whose = "its embedding" if "embedding.weight" in tensors else "the target"
        raise misfit(directory, f"config.json says vocab_size {said}, {whose} has {vocabulary}")
    if vocabulary < target.vocabulary:
        raise misfit(directory, f"it embeds {vocabulary:,} tokens, the target writes {target.vocabulary:,}")
    if generation == 1:
        rows = target.vocabulary
    stated_rows = int(settings.get("draft_vocab_size") or rows) if generation == 3 else rows
    if stated_rows != rows:
        raise misfit(directory, f"config.json says draft_vocab_size {stated_rows}, its lm_head has {rows} rows")
    if rows != target.vocabulary and "draft_to_target" not in tensors:
        raise misfit(directory, f"its lm_head has {rows} rows, the target {target.vocabulary}, and no d2t joins them")
    speculators = "speculators_model_type" in settings
    if not speculators and generation == 3 and nested(settings, "norm_output", None) is False:
        # SpecForge trained heads so until September 2026 (pull request 879), and now means what every other does.
        raise misfit(
            directory,
            "config.json says norm_output false, which is either no norm before lm_head or nothing unusual: "
            "remove it from config.json if other engines draft well with this head",
        )
    config = HeadConfig(
        generation=generation,
        hidden=hidden,
        target_hidden=reads,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate=gate.shape[0],
        layers=layers,
        vocabulary=vocabulary,
        draft_vocabulary=rows,
        feature_layers=feature_layers,
        eps=float(settings.get("rms_norm_eps") or 1e-6),
        activation=settings.get("hidden_act") or "silu",
        rope=rope_parameters(settings),
        max_position=settings.get("max_position_embeddings") or 2048,
        fc_bias="fc.bias" in tensors,
        qkv_bias="layers.0.self_attn.q_proj.bias" in tensors,
        attention_bias="layers.0.self_attn.o_proj.bias" in tensors,
        mlp_bias="layers.0.mlp.down_proj.bias" in tensors,
        norm_before_residual=nested(settings, "norm_before_residual", None) or False,
        norm_before_fc="input_norm.weight" in tensors,
        fc_norm="fc_norm.0.weight" in tensors,
        # SpecForge writes the same word for something every head does: the norm before lm_head.
        feeds_normed=speculators and bool(settings.get("norm_output")),
    )
    for flag in ("norm_before_fc", "fc_norm"):
        said, there = nested(settings, flag, None), getattr(config, flag)
        if said is not None and said != there:
            raise misfit(directory, f"config.json says {flag} {said}, and the tensors for it are {_THERE[there]}")
    for flag in ("qkv_bias", "attention_bias", "mlp_bias"):
        if settings.get(flag) and not getattr(config, flag):
            raise misfit(directory, f"config.json says {flag}, and the tensors for it are missing")
    return config, other


def default_layers(layers: int) -> tuple[int, ...]:
    """The states EAGLE-3 reads where a checkpoint does not say: early, middle and late."""
    return (2, layers // 2, layers - 3)


def misfit(directory: Path, why: str) -> ModelError:
    """What is said of a head that is whole and yet cannot be used."""
    return ModelError(
        f"the head in {directory} cannot be used with this target",
        why=why,
        fix="use the head that was trained for this target, in a published EAGLE or EAGLE-3 layout",
    )


def _feature_layers(
    settings: dict[str, Any], generation: int, fused: int, layers: int, directory: Path
) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """The states a head reads, and the other reading of its ids."""
    if generation == 1:
        return (layers,), None
    ids = nested(settings, "eagle_aux_hidden_state_layer_ids", None)
    if not ids:
        if fused != 3:
            raise misfit(directory, f"it fuses {fused} states and does not say which")
        return default_layers(layers), None
    given = tuple(int(i) + (layers + 1) * (int(i) < 0) for i in ids)
    if not all(0 <= i <= layers for i in given):
        raise misfit(directory, f"it reads layers {given}, the target has {layers}")
    if len(given) != fused:
        raise misfit(directory, f"it names {len(given)} layers and fuses {fused} states")
    shifted = tuple(i + 1 for i in given)
    return given, shifted if max(shifted) <= layers else None


def _check_numbers(tensors: dict[str, Tensor], directory: Path) -> None:
    """Weights as they were trained; quantized ones would be taken for small whole numbers."""
    import torch

    known = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
    for name, tensor in tensors.items():
        if name in ("draft_to_target", "t2d"):
            if tensor.is_floating_point() or (name == "draft_to_target" and tensor.dtype == torch.bool):
                raise misfit(directory, f"its {name.replace('draft_to_target', 'd2t')} is of {tensor.dtype} numbers")
        elif tensor.dtype not in known:
            raise misfit(directory, f"its {name} is of {tensor.dtype} numbers; quantized heads are not read")
