"""Loads a target's multi-token prediction layer from the target's own checkpoint."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.mtp import MtpHead
from specextend_cli.errors import ModelError
from specextend_cli.models.checkpoint import checked_weights, read_header
from specextend_cli.models.load import quiet_transformers

_IN_LAYER = re.compile(r"^mtp\.layers\.(\d+)\.")


def load_mtp(target: LanguageModel) -> MtpHead:
    """The first multi-token prediction layer of the checkpoint that `target` was loaded from.

    ModelError: it has none, the weights are incomplete, or the layer is of a kind that is not read here.
    """
    model: Any = target.model
    directory = Path(str(model.name_or_path))
    if not (count := layers_in(directory)):
        raise _refused(directory, "its checkpoint has no such layer, or only in another format than safetensors")
    from transformers.modeling_layers import MtpModel

    try:
        with quiet_transformers(), _told(model, count):
            loaded: Any = MtpModel.from_pretrained(model)
        head = MtpHead(loaded.layers[0].to(target.device, target.dtype), target)
    # What transformers raises depends on the checkpoint, which is untrusted, and on its version; the error is told.
    except (RuntimeError, ValueError, TypeError, AttributeError, KeyError, StopIteration, NotImplementedError) as error:
        raise _refused(directory, f"{type(error).__name__}: {str(error)[:300]}") from error
    return head.eval()


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


def _refused(directory: Path, why: str) -> ModelError:
    what = f"the model in {directory} cannot draft by multi-token prediction"
    return ModelError(what, why=why, fix="choose another --draft, such as ngram")
