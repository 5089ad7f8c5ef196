"""Loading EAGLE heads in every published layout, and saving them in the common one.

SafeAILab (EAGLE-1, -2, -3), AngelSlim, SpecForge, speculators, DeepSpec and ModelOpt name the same tensors and sizes
differently; all become one `HeadConfig` and one `EagleHead`. What a checkpoint is, its tensors say; a configuration
that contradicts them is refused, and so are unknown tensors: a head loaded wrongly would draft at random.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from specextend_cli.engine.head import EagleHead, HeadConfig
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.models.head_quantization import multiply_out
from specextend_cli.models.head_sizes import agree, check_rows, published_sizes, require, sizes_of
from specextend_cli.models.head_tensors import fill, read_tensors, ready, usable, write_head
from specextend_cli.models.skip_init import SkipInit

if TYPE_CHECKING:  # training a new head imports no pydantic
    from specextend_cli.models.head_settings import HeadSettings

_FITTING = "use the head that was trained for this target, in a published EAGLE or EAGLE-3 layout"
_MOST_LAYERS = 8  # a head of more would be a model


@dataclass(frozen=True)
class Loaded:
    """A head, and the ways in which its configuration can be read, its own first; `head_probe` decides between them.

    `in_parallel`: it was trained to draft several tokens at once, which nothing here does.
    """

    head: EagleHead
    readings: tuple[HeadConfig, ...]
    in_parallel: bool


def load_head(directory: Path, target: LanguageModel, *, name: str = "NAME") -> Loaded:
    """The head in `directory` for `target`, on its device. Nothing is fetched; pickles are read for tensors only.

    It computes in the target's number format, because the two may share modules. `name` is the preset's. ModelError:
    damaged or missing weights, a head of another target, an unknown layout.
    """
    from specextend_cli.models.head_settings import HeadSettings

    settings = HeadSettings.read(directory)
    tensors, in_parallel = read_tensors(directory, name)
    with usable(directory, _FITTING):
        tensors = _completed(tensors, settings, target)
        readings = _configure(settings, tensors, target)
        with SkipInit(anywhere=True):  # random weights would take seconds for a large vocabulary
            head = EagleHead(readings[0])
        if settings.tie_word_embeddings and "embedding.weight" in tensors:
            tensors.setdefault("lm_head.weight", tensors["embedding.weight"])
        if head.config.generation == 1:  # its output layer is the target's
            tensors.pop("lm_head.weight", None)
        fill(head, tensors, target)
    return Loaded(ready(head, target), readings, in_parallel)


def _completed(tensors: dict[str, Tensor], settings: HeadSettings, target: LanguageModel) -> dict[str, Tensor]:
    """The tensors as `EagleHead` computes with them; ValueError as `multiply_out`, and for what cannot be done.

    Weights of eight bits are multiplied out. A head without `fc` gets the identity. A factor of the logits
    becomes one of `lm_head`, whose own copy is needed for that.
    """
    tensors = multiply_out(tensors, settings.quantization_config or settings.compression_config, target.dtype)
    for index in range(1, 8):  # SGLang's name in layers after the first
        other, usual = (f"layers.{index}.{norm}.weight" for norm in ("hidden_norm", "input_layernorm"))
        if other in tensors and usual not in tensors:
            tensors[usual] = tensors.pop(other)
    if settings.use_aux_hidden_state is False:
        # It reads the target's last state as it is, and vLLM leaves out an `fc` that is there. The identity changes no
        # number, and forwards need no second form.
        own, width = len(tensors["norm.weight"]), int(target.config.hidden_size)
        if own != width:
            raise ValueError(f"it reads the target's last state as it is, of {width} numbers, and its own have {own}")
        tensors = {key: tensor for key, tensor in tensors.items() if not key.startswith("fc.")}
        tensors["fc.weight"] = torch.eye(width)
    if settings.logit_scale not in (None, 1.0):
        head = tensors.get("lm_head.weight", tensors.get("embedding.weight") if settings.tie_word_embeddings else None)
        if head is None:
            raise ValueError("it scales its logits and has no lm_head of its own; the target's cannot be scaled")
        tensors["lm_head.weight"] = (head.float() * settings.logit_scale).to(target.dtype)
    return tensors


def _configure(settings: HeadSettings, tensors: dict[str, Tensor], target: LanguageModel) -> tuple[HeadConfig, ...]:
    """Sizes by what the tensors are, everything else from the configuration, in every way that it can be read.

    The first is the likeliest; `head_probe` decides. ValueError: tensors and configuration contradict each other, or
    the head is another target's. KeyError: a tensor is missing.
    """
    layers, joined, sizes = sizes_of(settings, tensors, target, most_layers=_MOST_LAYERS)
    hidden, reads, read = sizes["hidden"], sizes["target_hidden"], tensors["layers.0.self_attn.q_proj.weight"].shape[1]
    generation = 3 if read == 2 * hidden else 1
    require(
        generation == 3 or (read == hidden and not settings.is_eagle3),
        f"its first layer reads {read} numbers, its states have {hidden}",
    )
    if generation == 1:
        require(settings.logit_scale in (None, 1.0), "it scales its logits, which are the target's output layer's")
        require(joined == 2 * hidden, f"an EAGLE-1 head joins {2 * hidden} numbers, its fc reads {joined}")
        require(
            settings.bias is not True or "fc.bias" in tensors, "config.json says that fc has a bias, and it is missing"
        )
    else:
        require(
            joined >= reads and joined % reads == 0, f"its fc reads {joined} numbers, the target's states have {reads}"
        )
    if (settings.num_hidden_layers or 0) <= _MOST_LAYERS:  # more are a copy of the target's configuration
        agree(settings, "num_hidden_layers", layers, "it has")
    window = settings.window(layers)

    fused = joined // reads if generation == 3 else 1
    agree(settings, "num_aux_hidden_states", fused, "it fuses")
    embeds = "embedding.weight" in tensors
    vocabulary = len(tensors["embedding.weight"]) if embeds else target.vocabulary
    agree(settings, "vocab_size", vocabulary, "its embedding has" if embeds else "the target has")
    rows = target.vocabulary
    if generation == 3:
        rows = len(tensors["lm_head.weight"]) if "lm_head.weight" in tensors else vocabulary
        agree(settings, "draft_vocab_size", rows, "the rows of its lm_head are")
    check_rows(tensors, target, vocabulary, rows)
    config = HeadConfig(
        **sizes,
        generation=generation,
        layers=layers,
        vocabulary=vocabulary,
        draft_vocabulary=rows,
        feature_layers=(target.layers,) * fused,
        max_position=settings.max_position_embeddings or 2048,
        fc_bias="fc.bias" in tensors,
        qkv_bias="layers.0.self_attn.q_proj.bias" in tensors,
        attention_bias="layers.0.self_attn.o_proj.bias" in tensors,
        mlp_bias="layers.0.mlp.down_proj.bias" in tensors,
        norm_before_fc="input_norm.weight" in tensors,
        fc_norm="fc_norm.0.weight" in tensors,
        qk_norm="layers.0.self_attn.q_norm.weight" in tensors,
        sliding_window=window,
    )
    for flag in ("norm_before_fc", "fc_norm"):
        agree(settings, flag, getattr(config, flag), "and with its tensors that is")
    for flag in ("qkv_bias", "attention_bias", "mlp_bias"):
        require(
            not getattr(settings, flag) or getattr(config, flag),
            f"config.json says {flag}, and the tensors for it are missing",
        )
    layers_read = _feature_layers(settings, generation, fused, target.layers)
    feeds = _feeds_normed(settings, config.fc_norm)
    readings = product(layers_read, feeds, _norm_before_residual(settings))
    return tuple(
        replace(config, feature_layers=states, feeds_normed=feed, norm_before_residual=normed)
        for states, feed, normed in readings
    )


def default_layers(layers: int) -> tuple[int, ...]:
    """The states EAGLE-3 reads where a checkpoint does not say: early, middle and late."""
    return (2, layers // 2, layers - 3)


def _feature_layers(settings: HeadSettings, generation: int, fused: int, layers: int) -> tuple[tuple[int, ...], ...]:
    """The states that a head reads, in every reading of its ids.

    An id is a layer's input to some trainers and its output to others, but for DeepSpec's `target_layer_ids`.
    """
    if generation == 1 or settings.use_aux_hidden_state is False:
        return ((layers,),)
    outputs = settings.target_layer_ids
    ids = outputs or settings.eagle_aux_hidden_state_layer_ids
    if not ids:
        if fused != 3:
            raise ValueError(f"it fuses {fused} states and does not say which")
        return (default_layers(layers),)
    given = tuple(i + (layers + 1) * (i < 0) for i in ids)
    if not all(0 <= i <= layers - bool(outputs) for i in given):
        raise ValueError(f"it reads layers {given}, the target has {layers}")
    if len(given) != fused:
        raise ValueError(f"it names {len(given)} layers and fuses {fused} states")
    shifted = tuple(i + 1 for i in given)
    if outputs:
        return (shifted,)
    if max(shifted) > layers:
        return (given,)
    # Ids of outputs begin with 1, those of inputs with 2, where the first state is that after two layers.
    return (shifted, given) if given[0] == 1 and not settings.is_speculators else (given, shifted)


def _feeds_normed(settings: HeadSettings, fc_norm: bool) -> tuple[bool, ...]:
    """EAGLE-3.1's feedback, in every reading of `norm_output`.

    It is that in speculators, and in SpecForge since September 2026 (pull request 879). SpecForge of August trained
    with the state before the norm, whatever the key says, and wrote it for the norm before lm_head (568); beside
    `fc_norm` it may also have been left out. Our own heads say it by a key of their own.
    """
    if settings.feeds_normed is not None:
        return (settings.feeds_normed,)
    said = settings.norm_output
    if settings.is_speculators or said is False or (said is None and not fc_norm):
        return (said or False,)
    return (True, False) if fc_norm and said else (False, True)


def _norm_before_residual(settings: HeadSettings) -> tuple[bool, ...]:
    """Left out in speculators' layout it is false to speculators and true to vLLM."""
    said = settings.norm_before_residual
    if said is None and settings.is_speculators:
        return (True, False)
    return (said or False,)


def save_head(head: EagleHead, directory: Path, *, target_layers: int = 0, dtype: torch.dtype | None = None) -> None:
    """Write an EAGLE-3 head in the layout that SafeAILab published and serving engines read.

    The embedding is the target's and is left out, and so are the layer ids where they are the default ones for
    `target_layers`: engines disagree about the meaning of explicit ids only. Floating-point tensors become `dtype`.
    ValueError for EAGLE-1 and for what this layout cannot say.
    """
    config = head.config
    if config.generation != 3:
        raise ValueError("only EAGLE-3 heads are written")
    if config.sliding_window or (config.feeds_normed and not config.fc_norm):
        raise ValueError("this layout has no sliding windows, and fed back normed states with fc_norm only")
    published = _published(config)
    if config.feature_layers == default_layers(target_layers):
        del published["eagle_config"]
    write_head(head, directory, published, dtype, first_layer="midlayer.")


def _published(config: HeadConfig) -> dict[str, Any]:
    published = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        **published_sizes(config, config.layers),
        "target_hidden_size": config.target_hidden,
        "draft_vocab_size": config.draft_vocabulary,
        "rope_theta": config.rope["rope_theta"],
        "rope_scaling": None if config.rope["rope_type"] == "default" else dict(config.rope),
        "qkv_bias": config.qkv_bias,
        "mlp_bias": config.mlp_bias,
        "norm_before_residual": config.norm_before_residual,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": list(config.feature_layers)},
    }
    if config.fc_norm:
        published |= {"fc_norm": True, "norm_output": config.feeds_normed, "feeds_normed": config.feeds_normed}
    return published
