"""Loads an assistant model (Gemma 4) for its target."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from specextend_cli.engine.assistant import Assistant
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.errors import ModelError
from specextend_cli.models.checkpoint import checked_weights, read_header, read_object
from specextend_cli.models.head_config import ASSISTANTS
from specextend_cli.models.load import quiet_transformers
from specextend_cli.models.model_config import check_loaded, check_sizes, check_tensors

_FITTING = "use the assistant that was published with this target, such as google/gemma-4-E4B-it-assistant"


def load_assistant(directory: Path, target: LanguageModel, *, name: str = "NAME") -> Assistant:
    """The assistant in `directory`, in the target's number format and on its device. Nothing is fetched.

    `name` is the preset's. ModelError: damaged or missing weights, a directory with something else, or an assistant of
    another target. `torch.OutOfMemoryError` passes through.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    weights = [file for file in checked_weights(directory, name) if file.suffix == ".safetensors"]
    if not weights:
        raise _refused(directory, "it is not in safetensors")
    try:
        data = read_object(directory / "config.json")
        if (kind := data.get("model_type")) not in ASSISTANTS:
            raise ValueError(f"its config.json says {kind!r:.40}, not {' or '.join(ASSISTANTS)}")
        check_sizes(data)
        with quiet_transformers():
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
    except (torch.OutOfMemoryError, ModelError):
        raise
    # What transformers raises depends on the checkpoint, which is untrusted, and on its version; the error is told.
    except Exception as error:
        raise _refused(directory, str(error).strip()[:300] or type(error).__name__) from error


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


def _refused(directory: Path, why: str) -> ModelError:
    return ModelError(f"the assistant model in {directory} cannot draft", why=why, fix=_FITTING)
