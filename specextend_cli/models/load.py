"""Loading models; their config.json is checked before transformers builds a model from it, and against its tensors.

transformers accepts many wrong configurations and fills in what is missing. The attention implementation that a
configuration names is ignored: with the package `kernels` installed, `"_attn_implementation": "owner/name"` would
download compiled code from the Hub and run it.

Gemma 3 from 4B on, Gemma 4, Mistral Small 3 and Qwen3.5 are published as a wrapper with a tower for images or sound and
a text model. On text the wrapper computes what the text model does, which is loaded alone: from its part of the
configuration, as the causal language model that transformers has for it, without reading the towers. That this holds is
a property of each wrapper's code, so it is known only of `WRAPPERS`; `tests/models/test_text_part.py` compares them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from transformers import AutoConfig, AutoModelForCausalLM, BitsAndBytesConfig, PreTrainedConfig, PreTrainedModel
from transformers.utils import logging as transformers_logging

from specextend_cli.errors import ModelError
from specextend_cli.models.checkpoint import checked_weights, damaged, named_gguf, read_object, usable
from specextend_cli.models.gguf.weights import load_gguf
from specextend_cli.models.head_config import ASSISTANTS
from specextend_cli.models.preset import Dtype, Quantization

_MOST_LAYERS = 1024
_MOST_PARTS = 1 << 16  # heads, experts, labels
_MOST = 1 << 26  # any other count: tokens of a vocabulary, positions, columns
_LAYERS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers")
_COUNTED = re.compile(r"(num|n|max)_\w+|\w+_(size|dim)|vocab_size|d_\w+")
_WEIGHT_TYPES = {"F64", "F32", "F16", "BF16"}
_IN_LAYER = re.compile(r"(^|\.)(layers|h|blocks)\.(\d+)\.")
_HARMLESS = re.compile(r"rotary_emb|inv_freq|masked_bias|\.attn\.bias$|\.attention\.bias$|position_ids")

WRAPPERS = ("gemma3", "gemma4", "gemma4_unified", "mistral3", "qwen3_5", "qwen3_5_moe")
"""Values of `model_type` of wrappers that compute of text what their text model does."""
_PARTS = ("text_config", "vision_config", "audio_config", "thinker_config")

_IN_TEXT = r"^(?:model\.)?language_model\."
KEY_MAPPING = {rf"{_IN_TEXT}lm_head\.": "lm_head.", rf"{_IN_TEXT}(?:model\.)?(?!lm_head\.)": "model."}
"""Names of tensors in a wrapper's files -> those in the text model, as regular expressions in this order.

Files on the Hub have `language_model.model.layers`, those that transformers 5 writes `model.language_model.layers`.
"""
_TEXT = re.compile(rf"{_IN_TEXT}|^lm_head\.|^model\.(embed_tokens|layers|norm)\.")
"""Names of a wrapper's tensors that are the text model's; the others are of towers."""


def load_model(
    directory: Path,
    *,
    device: str | torch.device = "cpu",
    dtype: Dtype | torch.dtype = "auto",
    quantization: Quantization = "none",
    name: str = "NAME",
) -> PreTrainedModel:
    """The causal language model in `directory`, on `device`, in evaluation mode. Nothing is fetched, no code is run.

    Of a model that also reads images or sound it is the text model, and nothing else is read (see `WRAPPERS`). `name`
    is the preset's name for error messages, "" for the user's own model. ModelError: damaged or missing weights, an
    unknown architecture, one that needs code from its repository or whose text part cannot be loaded alone, weights
    that contradict the configuration, or no library to quantize with. `torch.OutOfMemoryError` passes through.
    """
    if (file := named_gguf(directory)) is not None:
        with quiet_transformers():
            config, _ = read_config(directory)
            kind = torch.bfloat16 if dtype == "auto" else getattr(torch, dtype) if isinstance(dtype, str) else dtype
            return load_gguf(file, config, device=torch.device(device), dtype=kind)
    weights = checked_weights(directory, name)
    with usable(f"cannot load the model in {directory}"), quiet_transformers():
        config, wrapped = read_config(directory)
        check_tensors(config, weights.values(), directory, wrapped=wrapped)
        # With output_loading_info it returns a pair, which its annotation does not say.
        load: Any = partial(
            AutoModelForCausalLM.from_pretrained,
            directory,
            config=config,
            dtype=dtype,
            local_files_only=True,
            trust_remote_code=False,
            **_quantized(quantization, device, dtype),
            use_safetensors=all(file.suffix == ".safetensors" for file in weights),
            ignore_mismatched_sizes=True,  # but told, and refused below
            weights_only=True,
            key_mapping=KEY_MAPPING if wrapped else None,
            output_loading_info=True,
        )
        try:
            with SkipInit():
                loaded = load()
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:
            loaded = load()
    model: PreTrainedModel = loaded[0]
    check_loaded(loaded[1], directory, name, wrapped=wrapped)
    if wrapped and (head := model.get_output_embeddings()) is not None:  # its tensors decided
        model.config.tie_word_embeddings = head.weight is model.get_input_embeddings().weight
    if quantization == "none":  # a quantized model is on its device already, and must not be moved
        model.to(device)  # type: ignore[arg-type]  # its decorators hide its signature
    model.eval()
    return model


def _quantized(quantization: Quantization, device: str | torch.device, dtype: Dtype | torch.dtype) -> dict[str, Any]:
    """Arguments of `from_pretrained` for quantization. ModelError where a library is missing."""
    if quantization == "none":
        return {}
    if missing := [name for name in ("accelerate", "bitsandbytes") if not find_spec(name)]:
        raise ModelError(
            f"this preset's target is quantized, and {' and '.join(missing)} is not installed",
            why="bitsandbytes keeps its weights in four bits",
            fix="pip install 'specextend-cli[quantized]'",
        )
    # Weights only: with quantized activations, a token's logits would depend on the other nodes of its tree.
    settings = BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=None if dtype == "auto" else dtype
    )
    return {"quantization_config": settings, "device_map": {"": device}}


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Without transformers' progress bars and warnings; its settings are restored afterwards."""
    logging: Any = transformers_logging  # its functions carry no annotations
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


class SkipInit(TorchFunctionMode):
    """Builds models on the meta device without importing torch's compiler, which takes a fifth of a run's start.

    Within, `torch.nn.init` leaves tensors on the meta device as they are, and `torch.arange` is never there.
    """

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if getattr(function, "__module__", None) == "torch.nn.init":
            tensor = kwargs["tensor"] if "tensor" in kwargs else args[0]
            if tensor.is_meta:
                return tensor
        if function is torch.arange and str(kwargs.get("device")) == "meta":
            kwargs["device"] = "cpu"
        return function(*args, **kwargs)


def read_config(directory: Path) -> tuple[PreTrainedConfig, bool]:
    """The configuration for transformers, without a choice of implementations; and whether it is a wrapper's text part.

    ModelError: it cannot be read, is of an unknown kind, wraps a text model that cannot be loaded alone, or has
    impossible sizes. Any other exception is transformers' own.
    """
    with usable(f"cannot read {directory / 'config.json'}"):
        data = read_object(directory / "config.json")
        check_sizes(data)
    kind = data.get("model_type")
    wrapped = kind not in ASSISTANTS and any(isinstance(data.get(part), dict) for part in _PARTS)
    if wrapped and kind not in WRAPPERS:
        raise ModelError(
            f"the model in {directory} is not supported",
            why=f"it also reads images or sound, and it is not known of {kind!r:.40} that its text model alone writes"
            " what the whole does",
            fix="use the text model it is made of, if its maker publishes it; specextend models list shows others",
        )
    config: PreTrainedConfig = AutoConfig.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
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
    quantized, config = getattr(config, "quantization_config", None) is not None, config.get_text_config()
    for header in headers:
        for name, entry in header.items():
            if wrapped and not _TEXT.match(name):
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
    names = filter(_TEXT.match, info["unexpected_keys"]) if wrapped else info["unexpected_keys"]
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


def text_config(config: PreTrainedConfig) -> PreTrainedConfig:
    """The configuration of the text model alone, of a wrapper in `WRAPPERS`.

    What the wrapper says for both (type of numbers, quantization, end of text, tied embeddings) comes along. Where
    either says that the embeddings are tied, the tensors decide: transformers ties them if the files hold one matrix.
    """
    text = config.get_text_config()
    tied = any(getattr(part, "tie_word_embeddings", None) for part in (config, text))
    if text.dtype is None:
        text.dtype = config.dtype
    if (quantization := getattr(config, "quantization_config", None)) is not None:
        text.quantization_config = quantization
    if (ends := getattr(config, "eos_token_id", None)) is not None:
        text.eos_token_id = ends
    text.tie_word_embeddings = tied
    return text
