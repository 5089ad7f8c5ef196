"""Checks of a target's config.json before transformers builds a model from it, and against its tensors.

transformers accepts many wrong configurations and fills in what is missing. The attention implementation that a
configuration names is ignored: with the package `kernels` installed, `"_attn_implementation": "owner/name"` would
download compiled code from the Hub and run it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specextend_cli.errors import ModelError
from specextend_cli.models.checkpoint import damaged, read_object
from specextend_cli.models.text_part import is_wrapper, text_config, text_name, why_refused

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

_MOST_LAYERS = 1024
_MOST_PARTS = 1 << 16  # heads, experts, labels
_MOST = 1 << 26  # any other count: tokens of a vocabulary, positions, columns
_LAYERS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers")
_COUNTED = re.compile(r"(num|n|max)_\w+|\w+_(size|dim)|vocab_size|d_\w+")
_WEIGHT_TYPES = {"F64", "F32", "F16", "BF16"}
_IN_LAYER = re.compile(r"(^|\.)(layers|h|blocks)\.(\d+)\.")
_HARMLESS = re.compile(r"rotary_emb|inv_freq|masked_bias|\.attn\.bias$|\.attention\.bias$|position_ids")


def read_config(directory: Path) -> tuple[PreTrainedConfig, bool]:
    """The configuration for transformers, without a choice of implementations; and whether it is a wrapper's text part.

    ModelError: it cannot be read, is of an unknown kind, wraps a text model that cannot be loaded alone, or has
    impossible sizes. Any other exception is transformers' own.
    """
    from transformers import AutoConfig

    try:
        data = read_object(directory / "config.json")
        check_sizes(data)
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot read {directory / 'config.json'}", why=str(error)) from error
    if (why := why_refused(data)) is not None:
        raise ModelError(
            f"the model in {directory} is not supported",
            why=why,
            fix="use the text model it is made of, if its maker publishes it; specextend models list shows others",
        )
    config: PreTrainedConfig = AutoConfig.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
    wrapped = is_wrapper(data)
    if wrapped:
        config = text_config(config)
    for choice in ("_attn_implementation", "_experts_implementation"):
        if hasattr(config, choice):
            setattr(config, choice, None)
    return config, wrapped


def check_tensors(
    config: PreTrainedConfig, headers: Iterable[Mapping[str, Any]], directory: Path, *, wrapped: bool = False
) -> None:
    """ModelError where the tensors in safetensors headers contradict the configuration; `wrapped`: but for towers'.

    Integer weights are accepted only where the configuration has a quantization.
    """
    quantized = getattr(config, "quantization_config", None) is not None
    for header in headers:
        for name, entry in header.items():
            if wrapped and text_name(name) is None:
                continue
            if name.endswith("weight") and not quantized and entry.get("dtype") not in _WEIGHT_TYPES:
                raise _misfit(directory, f"its {name} is of {entry.get('dtype')} numbers, and nothing says their scale")
            if name.endswith("embed_tokens.weight"):
                for size, rows in zip(("vocab_size", "hidden_size"), entry.get("shape", ()), strict=False):
                    if (said := getattr(config, size, rows)) != rows:
                        raise _misfit(directory, f"config.json says {size} {said}, its embedding has {rows}")


def check_loaded(info: Mapping[str, Any], directory: Path, name: str, *, wrapped: bool = False) -> None:
    """ModelError where tensors are missing, or decoder layers have others, without which the model would compute.

    `info` is transformers'. `wrapped`: towers have layers, too, which have no place in the text model.
    """
    if missing := sorted(info["missing_keys"]) or sorted(map(str, info["mismatched_keys"])):
        raise damaged(directory, f"{len(missing)} tensors are missing or of a wrong shape, {missing[0]} first", name)
    names = filter(text_name, info["unexpected_keys"]) if wrapped else info["unexpected_keys"]
    left = sorted(name for name in names if _IN_LAYER.search(name) and not _HARMLESS.search(name))
    if left:
        raise _misfit(directory, f"{len(left)} tensors have no place in the model of its config.json, {left[0]} first")


def check_sizes(data: Mapping[str, Any]) -> None:
    """ValueError where a configuration, or its text part, has more of something than any model has."""
    text = data.get("text_config")
    for key, value in (*data.items(), *(text.items() if isinstance(text, dict) else ())):
        if not isinstance(value, int) or isinstance(value, bool) or not _COUNTED.fullmatch(key):
            continue
        most = _MOST_LAYERS if key in _LAYERS else _MOST_PARTS if key.startswith("num_") else _MOST
        if value > most:
            raise ValueError(f"it says {key} {value:,}, more than any model has")


def _misfit(directory: Path, why: str) -> ModelError:
    return ModelError(
        f"the model in {directory} is not what its config.json says",
        why=why,
        fix="save or fetch it again, configuration and weights of the same model",
    )
