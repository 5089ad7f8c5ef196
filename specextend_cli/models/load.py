"""Models from their directories. torch and transformers are imported inside the functions that need them."""

from __future__ import annotations

import pickle
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specextend_cli.errors import ModelError
from specextend_cli.models.chat_template import render_chat
from specextend_cli.models.four_bit import FILE
from specextend_cli.models.hf_logging import quiet
from specextend_cli.models.model_config import check_tensors, check_unexpected, read_config
from specextend_cli.models.preset import Dtype, Quantization
from specextend_cli.models.splitting import split
from specextend_cli.models.tokens import load_tokenizer
from specextend_cli.models.weights import check_safetensors, damaged, read_header, weight_files

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

    from specextend_cli.engine.tensor_parallel import ProcessGroup

__all__ = ["load_model", "load_tokenizer", "render_chat"]


def load_model(
    directory: Path,
    *,
    device: str | torch.device = "cpu",
    dtype: Dtype | torch.dtype = "auto",
    attn_implementation: str | None = None,
    quantization: Quantization = "none",
    name: str = "NAME",
    crew: ProcessGroup | None = None,
) -> PreTrainedModel:
    """The causal language model in `directory`, on `device`, in evaluation mode. Nothing is fetched, no code is run.

    `name` is what the user calls the preset, "" where the model is the user's own. ModelError: damaged or missing
    weights, an unknown architecture, one that would need code from its repository or reads more than text, weights
    that are not the configuration's, or no library to quantize with.
    `torch.OutOfMemoryError` passes through: the caller knows the device. With a `crew`, of several processes that all
    call this, each has its part of the model (see `split`).
    """
    weights = weight_files(directory)
    safe = [file for file in weights if file.suffix == ".safetensors"]
    for file in safe:
        check_safetensors(file, name=name)
    if not weights:
        raise damaged(directory, "a file of weights is missing", name)

    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM

    from specextend_cli.models.skip_init import SkipInit

    def load(building: AbstractContextManager[object]) -> Any:
        with quiet(), building:
            # With output_loading_info it returns two things, which its annotation does not know.
            return AutoModelForCausalLM.from_pretrained(
                directory,
                config=config,
                dtype=dtype,
                attn_implementation=attn_implementation,
                local_files_only=True,
                trust_remote_code=False,
                **_quantized(quantization, device, dtype),
                use_safetensors=weights[0].suffix == ".safetensors",
                weights_only=True,
                output_loading_info=True,
            )

    try:
        with quiet():
            config = read_config(directory, attn_implementation)
        check_tensors(config, (read_header(file, name=name) for file in safe), directory)
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
    except Exception as error:  # a configuration makes transformers raise whatever it raises with such a one
        why = f"its config.json says {error}, which is unknown" if isinstance(error, KeyError) else str(error).strip()
        raise ModelError(f"cannot load the model in {directory}", why=why[:400] or type(error).__name__) from error
    info: dict[str, Any] = loaded[1]
    if missing := sorted(info["missing_keys"]) or sorted(map(str, info["mismatched_keys"])):
        raise damaged(directory, f"{len(missing)} tensors are missing or of a wrong shape, {missing[0]} first", name)
    check_unexpected(info["unexpected_keys"], directory)
    model: PreTrainedModel = loaded[0]
    if crew is not None:
        split(model, crew)
    if quantization == "none":  # a quantized model is on its device already, and must not be moved
        model.to(device)  # type: ignore[arg-type]  # its decorators hide its signature
    model.eval()
    if quantization == "none" and crew is None and (codes := directory / FILE).exists():
        _read_four_bit(model, codes, name)
    return model


def _read_four_bit(model: PreTrainedModel, file: Path, name: str) -> None:
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    from specextend_cli.engine.four_bit import use_four_bit

    check_safetensors(file, name=name)
    try:
        weights = load_file(file)
        for key, tensor in weights.items():
            if tensor.dtype != (torch.uint8 if key.endswith(".codes") else torch.bfloat16):
                raise ValueError(f"its {key} is of {tensor.dtype} numbers")
        use_four_bit(model, weights)
    except (SafetensorError, LookupError, ValueError, AttributeError, RuntimeError, TypeError) as error:
        raise damaged(file.parent, str(error), name) from error


def _quantized(quantization: Quantization, device: str | torch.device, dtype: Dtype | torch.dtype) -> dict[str, Any]:
    """What `from_pretrained` is told besides. ModelError where a library is missing."""
    if quantization == "none":
        return {}
    if missing := [name for name in ("accelerate", "bitsandbytes") if not find_spec(name)]:
        raise ModelError(
            f"this preset's target is quantized, and {' and '.join(missing)} is not installed",
            why="bitsandbytes keeps its weights in four bits",
            fix="pip install 'specextend-cli[quantized]'",
        )
    from transformers import BitsAndBytesConfig

    # Weights alone: activations stay as they are, so that a token's result does not depend on its neighbours in a tree.
    settings = BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=None if dtype == "auto" else dtype
    )
    return {"quantization_config": settings, "device_map": {"": device}}
