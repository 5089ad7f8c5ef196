"""Loading EAGLE heads in every published layout, and saving them in the common one.

SafeAILab (EAGLE-1, -2, -3), AngelSlim, SpecForge, speculators, DeepSpec and ModelOpt name the same tensors and sizes
differently; all become one `HeadConfig` and one `EagleHead`. Unknown tensors are refused: a head loaded wrongly would
draft at random.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from specextend_cli.engine.head import EagleHead, HeadConfig
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.models.head_config import configure, default_layers
from specextend_cli.models.head_quantization import multiply_out
from specextend_cli.models.head_sizes import published_sizes
from specextend_cli.models.head_tensors import fill, read_tensors, ready, usable, write_head
from specextend_cli.models.skip_init import SkipInit

if TYPE_CHECKING:  # training a new head imports no pydantic
    from specextend_cli.models.head_settings import HeadSettings

_FITTING = "use the head that was trained for this target, in a published EAGLE or EAGLE-3 layout"


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
        readings = configure(settings, tensors, target)
        with SkipInit(anywhere=True):  # random weights would take seconds for a large vocabulary
            head = EagleHead(readings[0])
        if settings.tie_word_embeddings and "embedding.weight" in tensors:
            tensors.setdefault("lm_head.weight", tensors["embedding.weight"])
        if head.config.generation == 1:  # its output layer is the target's
            tensors.pop("lm_head.weight", None)
        fill(head, tensors, target)
    return Loaded(ready(head, target), readings, in_parallel)


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
