"""The tensors of a head's checkpoint: read under our names, whichever program wrote them, compared, and written.

What a checkpoint is, its tensors say. Unknown ones are refused: a head loaded wrongly would draft at random.
"""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.errors import ModelError
from specextend_cli.models.checkpoint import checked_weights, damaged, reason
from specextend_cli.models.head_quantization import PackedError

_COMPARED = 4096  # rows of two matrices that are compared at a time
_UNPACKED = "use the head in the format that it was trained in, or with weights of eight bits and their weight_scale"
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


@contextmanager
def usable(directory: Path, fitting: str) -> Iterator[None]:
    """ModelError for a head that is complete and yet cannot be used; `fitting`: which head to use instead."""
    try:
        yield
    except (TypeError, ValueError, LookupError, AttributeError, RuntimeError, ArithmeticError) as error:
        what, fix = f"the head in {directory} cannot be used", _UNPACKED if isinstance(error, PackedError) else fitting
        raise ModelError(f"{what} with this target", why=reason(error), fix=fix) from error


def check_numbers(tensors: dict[str, Tensor]) -> None:
    """ValueError for weights that are not floating-point: codes would be read as small whole numbers."""
    known = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
    for name, tensor in tensors.items():
        if name in ("draft_to_target", "t2d"):
            if tensor.is_floating_point() or (name == "draft_to_target" and tensor.dtype == torch.bool):
                raise ValueError(f"its {name.replace('draft_to_target', 'd2t')} is of {tensor.dtype} numbers")
        elif tensor.dtype not in known:
            raise ValueError(f"its {name} is of {tensor.dtype} numbers")


def is_copy(own: Tensor | None, theirs: Any) -> bool:
    """Whether a matrix of the head is one of the target's: DeepSpec's have both, a gigabyte for a large vocabulary."""
    weight, bias = getattr(theirs, "weight", None), getattr(theirs, "bias", None)
    if own is None or bias is not None or not isinstance(weight, Tensor) or own.shape != weight.shape:
        return False
    rows = zip(own.split(_COMPARED), weight.split(_COMPARED), strict=True)
    return all(torch.equal(some.to(other), other) for some, other in rows)


def check_vocabulary(tensors: dict[str, Tensor], vocabulary: int) -> None:
    """Take `t2d` out, and let `draft_to_target` be int64; ValueError where they do not name distinct tokens, or others.

    `vocabulary`: tokens that the target has.
    """
    chosen = tensors.pop("t2d", None)
    if "draft_to_target" not in tensors:
        return
    offsets = tensors["draft_to_target"] = tensors["draft_to_target"].long()
    named = offsets + torch.arange(len(offsets))
    if int(named.min()) < 0 or int(named.max()) >= vocabulary:
        raise ValueError("d2t names tokens that the target does not have")
    if len(named.unique()) < len(named):
        raise ValueError("d2t names a token twice")
    if chosen is not None and not torch.equal(chosen.bool().nonzero().squeeze(-1), named.sort().values):
        raise ValueError("d2t and t2d name different tokens")


def fill(head: EagleHead, tensors: dict[str, Tensor], target: LanguageModel) -> None:
    """Load the tensors, and share the target's embedding and output layer where there are none, or copies of them.

    ValueError where others are missing, or one is not known.
    """
    width = int(target.config.hidden_size)
    for key, theirs in (
        ("embedding", target.model.get_input_embeddings()),
        ("lm_head", target.model.get_output_embeddings()),
    ):
        if is_copy(tensors.get(f"{key}.weight"), theirs):
            del tensors[f"{key}.weight"]
        if f"{key}.weight" not in tensors:
            if head.config.hidden != width:
                raise ValueError(f"it has no {key}, and the target's has {width} columns")
            setattr(head, key, theirs)
    check_vocabulary(tensors, target.vocabulary)
    wrong = head.load_state_dict(tensors, strict=False)
    if wrong.unexpected_keys:
        raise ValueError(f"it has a tensor that no such head has: {wrong.unexpected_keys[0]}")
    shared = {"embedding.weight", "lm_head.weight", "draft_to_target"}
    if missing := [key for key in wrong.missing_keys if key not in shared]:
        raise ValueError(f"{len(missing)} tensors are missing, {missing[0]} first")


def ready(head: EagleHead, target: LanguageModel) -> EagleHead:
    """The head where its target computes, in its number format: the two may share modules."""
    return head.to(device=target.device, dtype=target.dtype).eval().requires_grad_(False)


def write_head(
    head: EagleHead,
    directory: Path,
    config: Mapping[str, Any],
    dtype: torch.dtype | None,
    *,
    first_layer: str = "layers.0.",
) -> None:
    """Write weights, floating-point ones as `dtype`, and config.json; the embedding, the target's, is left out.

    `first_layer` is what the first layer's tensors are called.
    """
    tensors = {}
    for key, tensor in head.state_dict().items():
        key = key.replace("layers.0.", first_layer, 1) if key.startswith("layers.0.") else key
        kept = tensor.detach().to("cpu", dtype if tensor.is_floating_point() else None).contiguous()
        tensors["d2t" if key == "draft_to_target" else key] = kept
    del tensors["embedding.weight"]
    tensors["t2d"] = torch.zeros(head.config.vocabulary, dtype=torch.bool)
    tensors["t2d"][head.vocabulary.cpu()] = True
    directory.mkdir(parents=True, exist_ok=True)
    partial = directory / "model.safetensors.partial"
    save_file(tensors, partial, metadata={"format": "pt"})
    (directory / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    partial.replace(directory / "model.safetensors")
