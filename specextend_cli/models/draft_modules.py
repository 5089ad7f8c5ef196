"""Draft modules that transformers has classes for: Gemma 4's assistants, and multi-token prediction layers.

An assistant is a model of its own; a prediction layer lies in the target's checkpoint. Nothing is fetched.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from specextend_cli.engine.drafters.assistant import Assistant
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.mtp import MtpHead
from specextend_cli.errors import ModelError
from specextend_cli.models.checkpoint import checked_weights, read_header, read_object
from specextend_cli.models.head_config import ASSISTANTS
from specextend_cli.models.load import quiet_transformers
from specextend_cli.models.model_config import check_loaded, check_sizes, check_tensors

_OF_ASSISTANT = (
    "the assistant model in {} cannot draft",
    "use the assistant that was published with this target, such as google/gemma-4-E4B-it-assistant",
)
_OF_LAYER = ("the model in {} cannot draft by multi-token prediction", "choose another --draft, such as ngram")
_IN_LAYER = re.compile(r"^mtp\.layers\.(\d+)\.")


@contextmanager
def _usable(directory: Path, what: tuple[str, str]) -> Iterator[None]:
    """ModelError for what transformers raises, which depends on the checkpoint, and on its version.

    `torch.OutOfMemoryError` passes through.
    """
    try:
        yield
    except (torch.OutOfMemoryError, ModelError):
        raise
    except Exception as error:
        message, fix = what
        why = str(error).strip()[:300] or type(error).__name__
        raise ModelError(message.format(directory), why=why, fix=fix) from error


def load_assistant(directory: Path, target: LanguageModel, *, name: str = "NAME") -> Assistant:
    """The assistant in `directory`, in the target's number format and on its device.

    `name` is the preset's. ModelError: damaged or missing weights, a directory with something else, or an assistant of
    another target. `torch.OutOfMemoryError` passes through.
    """
    weights = [file for file in checked_weights(directory, name) if file.suffix == ".safetensors"]
    with _usable(directory, _OF_ASSISTANT), quiet_transformers():
        if not weights:
            raise ValueError("it is not in safetensors")
        data = read_object(directory / "config.json")
        if (kind := data.get("model_type")) not in ASSISTANTS:
            raise ValueError(f"its config.json says {kind!r:.40}, not {' or '.join(ASSISTANTS)}")
        check_sizes(data)
        config = AutoConfig.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
        check_tensors(config.text_config, (read_header(file, name=name) for file in weights), directory)
        with without_producers(config.text_config):
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                directory,
                config=config,
                dtype=target.dtype,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                ignore_mismatched_sizes=True,  # but told, and refused below
                output_loading_info=True,
            )
        model, info = loaded
        check_loaded(info, directory, name)
        return Assistant(model.to(target.device).eval(), target)


@contextmanager
def without_producers(config: Any) -> Iterator[None]:
    """Let transformers build layers none of which has keys.

    From 5.23 on it asks of every model which layers the others share keys with, and refuses one without any.
    """
    kind, name = type(config), "kv_sharing_modes"
    own = kind.__dict__.get(name)
    if own is not None:
        setattr(kind, name, property(lambda self: ["reuse"] * self.num_hidden_layers))
    try:
        yield
    finally:
        if own is not None:
            setattr(kind, name, own)


def load_mtp(target: LanguageModel) -> MtpHead:
    """The first multi-token prediction layer of the checkpoint that `target` was loaded from.

    ModelError: it has none, the weights are incomplete, or the layer is of a kind that is not read here.
    """
    from transformers.modeling_layers import MtpModel

    model: Any = target.model
    directory = Path(str(model.name_or_path))
    count = layers_in(directory)
    with _usable(directory, _OF_LAYER), quiet_transformers():
        if not count:
            raise ValueError("its checkpoint has no such layer, or only in another format than safetensors")
        with _told(model, count):
            loaded: Any = MtpModel.from_pretrained(model)
        return MtpHead(loaded.layers[0].to(target.device, target.dtype), target).eval()


def layers_in(directory: Path) -> int:
    """Multi-token prediction layers among the tensors of a checkpoint."""
    if not directory.is_dir():
        return 0
    files = [file for file in checked_weights(directory, "") if file.suffix == ".safetensors"]
    return len({match[1] for file in files for name in read_header(file) if (match := _IN_LAYER.search(name))})


@contextmanager
def _told(model: Any, count: int) -> Iterator[None]:
    """Tells transformers, while it loads, what Qwen's configurations leave out: how many such layers, of what kind."""
    config = model.config
    told: Any = copy.copy(config)
    told.num_mtp_layers = count
    if (given := getattr(config, "layer_types", None)) is not None and getattr(config, "mtp_layer_types", None) is None:
        told.mtp_layer_types = [given[-1]] * count  # as transformers takes the last layer's class for them
    ignored = model._keys_to_ignore_on_load_unexpected
    model.config, model._keys_to_ignore_on_load_unexpected = told, [r"^mtp\."]
    try:
        yield
    finally:
        model.config, model._keys_to_ignore_on_load_unexpected = config, ignored
