"""The tensors of a head's checkpoint, under the names of `EagleHead`, whichever program wrote them."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from specextend_cli.models.checkpoint import checked_weights, damaged
from specextend_cli.models.head_quantization import multiply_out

if TYPE_CHECKING:  # training a new head imports no pydantic
    from specextend_cli.models.head_settings import HeadSettings

_MASK = "mask_hidden"
_IGNORED = re.compile(rf"(^|\.)(rotary_emb\.inv_freq|verifier_(norm|lm_head)\.weight|{_MASK})$")
_RENAMED = (
    (re.compile(r"^(model|eagle_module)\."), ""),
    (re.compile(r"^midlayer\."), "layers.0."),
    (re.compile(r"^embed_tokens\."), "embedding."),
    (re.compile(r"^d2t$"), "draft_to_target"),
    *((re.compile(rf"^aux_norm_{which}\."), f"fc_norm.{i}.") for i, which in enumerate(("low", "mid", "high"))),
)


def read_tensors(directory: Path, name: str) -> tuple[dict[str, Tensor], bool]:
    """The tensors, and whether the head was trained to draft several tokens at once; pickles are read for tensors only.

    `name` is the preset's. ModelError: damaged or missing weights.
    """
    tensors: dict[str, Tensor] = {}
    try:
        for file in checked_weights(directory, name):
            if file.suffix == ".safetensors":
                tensors.update(load_file(file))
            else:
                tensors.update(torch.load(file, map_location="cpu", weights_only=True))
    except (SafetensorError, pickle.UnpicklingError, EOFError, RuntimeError, OSError, TypeError, ValueError) as error:
        raise damaged(directory, str(error).partition("\n")[0], name) from error
    if not all(isinstance(key, str) and isinstance(tensor, torch.Tensor) for key, tensor in tensors.items()):
        raise damaged(directory, "it holds other things than tensors by name", name)
    named = {}
    for key, tensor in tensors.items():
        if _IGNORED.search(key):
            continue
        for pattern, new in _RENAMED:
            key = pattern.sub(new, key)
        named[key] = tensor
    # P-EAGLE's stands for the states of tokens that are not there yet.
    return named, any(key.rpartition(".")[2] == _MASK for key in tensors)


def completed(tensors: dict[str, Tensor], settings: HeadSettings, dtype: torch.dtype) -> dict[str, Tensor]:
    """The tensors as `EagleHead` computes with them; ValueError as `multiply_out`, and for what cannot be done.

    Weights of eight bits are multiplied out in `dtype`. A head without `fc` gets the identity. A factor of the logits
    becomes one of `lm_head`, whose own copy is needed for that.
    """
    tensors = multiply_out(tensors, settings.quantization_config or settings.compression_config, dtype)
    for index in range(1, 8):  # SGLang's name in layers after the first
        other, usual = (f"layers.{index}.{norm}.weight" for norm in ("hidden_norm", "input_layernorm"))
        if other in tensors and usual not in tensors:
            tensors[usual] = tensors.pop(other)
    if settings.use_aux_hidden_state is False:
        # It reads the target's last state as it is, and vLLM leaves out an `fc` that is there. The identity changes no
        # number, and forwards need no second form.
        tensors = {key: tensor for key, tensor in tensors.items() if not key.startswith("fc.")}
        tensors["fc.weight"] = torch.eye(len(tensors["norm.weight"]))
    if settings.logit_scale not in (None, 1.0):
        own = "lm_head.weight" if "lm_head.weight" in tensors else "embedding.weight"
        if own not in tensors or (own == "embedding.weight" and not settings.tie_word_embeddings):
            raise ValueError("it scales its logits and has no lm_head of its own; the target's cannot be scaled")
        tensors["lm_head.weight"] = tensors[own].float() * settings.logit_scale
    return tensors
