"""Draft modules that transformers has classes for: Gemma 4's assistants, and multi-token prediction layers.

An assistant is a model of its own; a prediction layer lies in the target's checkpoint. Nothing is fetched.
"""

from __future__ import annotations

import copy
import re
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from specextend_cli.engine.drafters.assistant import Assistant
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.mtp import MtpHead
from specextend_cli.engine.temporary import exchanged
from specextend_cli.models.checkpoint import checked_weights, usable
from specextend_cli.models.head_config import ASSISTANTS, is_assistant
from specextend_cli.models.load import load_model, quiet_transformers, read_config

_PUBLISHED = "use the assistant that was published with this target, such as google/gemma-4-E4B-it-assistant"
_IN_LAYER = re.compile(r"^mtp\.layers\.(\d+)\.")


def load_assistant(directory: Path, target: LanguageModel, *, name: str = "NAME") -> Assistant:
    """The assistant in `directory`, in the target's number format and on its device.

    `name` is the preset's. ModelError: damaged or missing weights, a directory with something else, or an assistant of
    another target. `torch.OutOfMemoryError` passes through.
    """
    with usable(f"the assistant model in {directory} cannot draft", fix=_PUBLISHED), quiet_transformers():
        if not is_assistant(directory):
            raise ValueError(f"its config.json is not that of a {' or '.join(ASSISTANTS)}")
        with without_producers(read_config(directory)[0].get_text_config()):
            model: Any = load_model(directory, device=target.device, dtype=target.dtype, name=name)
        return Assistant(model, target)


def without_producers(config: Any) -> AbstractContextManager[None]:
    """Let transformers build layers none of which has keys.

    From 5.23 on it asks of every model which layers the others share keys with, and refuses one without any.
    """
    kind, name = type(config), "kv_sharing_modes"
    shared = property(lambda self: ["reuse"] * self.num_hidden_layers)
    return exchanged([(kind, name, shared)] if name in vars(kind) else [])


def load_mtp(target: LanguageModel) -> MtpHead:
    """The first multi-token prediction layer of the checkpoint that `target` was loaded from.

    ModelError: it has none, the weights are incomplete, or the layer is of a kind that is not read here.
    """
    from transformers.modeling_layers import MtpModel

    model: Any = target.model
    directory = Path(str(model.name_or_path))
    count = layers_in(directory)
    what = f"the model in {directory} cannot draft by multi-token prediction"
    with usable(what, fix="choose another --draft, such as ngram"), quiet_transformers():
        if not count:
            raise ValueError("its checkpoint has no such layer, or only in another format than safetensors")
        with _told(model, count):
            loaded: Any = MtpModel.from_pretrained(model)
        return MtpHead(loaded.layers[0].to(target.device, target.dtype), target).eval()


def layers_in(directory: Path) -> int:
    """Multi-token prediction layers among the tensors of a checkpoint."""
    if not directory.is_dir():
        return 0
    names = [name for tensors in checked_weights(directory, "").values() for name in tensors]
    return len({match[1] for name in names if (match := _IN_LAYER.search(name))})


def _told(model: Any, count: int) -> AbstractContextManager[None]:
    """Tells transformers, while it loads, what Qwen's configurations leave out: how many such layers, of what kind."""
    config = model.config
    told: Any = copy.copy(config)
    told.num_mtp_layers = count
    if (given := getattr(config, "layer_types", None)) is not None and getattr(config, "mtp_layer_types", None) is None:
        told.mtp_layer_types = [given[-1]] * count  # as transformers takes the last layer's class for them
    return exchanged([(model, "config", told), (model, "_keys_to_ignore_on_load_unexpected", [r"^mtp\."])])
