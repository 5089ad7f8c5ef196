"""Loading models."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch.overrides import TorchFunctionMode
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, PreTrainedModel
from transformers.utils import logging as transformers_logging

from specextend_cli.errors import ModelError
from specextend_cli.models.checkpoint import checked_weights, damaged, named_gguf, read_header
from specextend_cli.models.gguf.weights import load_gguf
from specextend_cli.models.model_config import KEY_MAPPING, check_loaded, check_tensors, read_config
from specextend_cli.models.preset import Dtype, Quantization


def load_model(
    directory: Path,
    *,
    device: str | torch.device = "cpu",
    dtype: Dtype | torch.dtype = "auto",
    quantization: Quantization = "none",
    name: str = "NAME",
) -> PreTrainedModel:
    """The causal language model in `directory`, on `device`, in evaluation mode. Nothing is fetched, no code is run.

    Of a model that also reads images or sound it is the text model, and nothing else is read (see `model_config.py`).
    `name` is the preset's name for error messages, "" for the user's own model. ModelError: damaged or missing weights,
    an unknown architecture, one that needs code from its repository or whose text part cannot be loaded alone, weights
    that contradict the configuration, or no library to quantize with. `torch.OutOfMemoryError` passes through.
    """
    if (file := named_gguf(directory)) is not None:
        with quiet_transformers():
            config, _ = read_config(directory)
            kind = torch.bfloat16 if dtype == "auto" else getattr(torch, dtype) if isinstance(dtype, str) else dtype
            return load_gguf(file, directory, config, device=torch.device(device), dtype=kind)
    weights = checked_weights(directory, name)
    safe = [file for file in weights if file.suffix == ".safetensors"]

    def load(building: AbstractContextManager[object]) -> Any:
        with quiet_transformers(), building:
            # With output_loading_info it returns a pair, which its annotation does not say.
            return AutoModelForCausalLM.from_pretrained(
                directory,
                config=config,
                dtype=dtype,
                local_files_only=True,
                trust_remote_code=False,
                **_quantized(quantization, device, dtype),
                use_safetensors=weights[0].suffix == ".safetensors",
                ignore_mismatched_sizes=True,  # but told, and refused below
                weights_only=True,
                key_mapping=KEY_MAPPING if wrapped else None,
                output_loading_info=True,
            )

    try:
        with quiet_transformers():
            config, wrapped = read_config(directory)
        check_tensors(config, (read_header(file, name=name) for file in safe), directory, wrapped=wrapped)
        try:
            loaded = load(SkipInit())
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:
            loaded = load(nullcontext())
    except (torch.OutOfMemoryError, ModelError):
        raise
    except (SafetensorError, pickle.UnpicklingError, EOFError) as error:
        raise damaged(directory, str(error), name) from error
    except Exception as error:  # a wrong configuration makes transformers raise anything
        why = f"its config.json says {error}, which is unknown" if isinstance(error, KeyError) else str(error).strip()
        raise ModelError(f"cannot load the model in {directory}", why=why[:400] or type(error).__name__) from error
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
