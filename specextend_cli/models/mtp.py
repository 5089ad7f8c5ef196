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
_BEHIND = re.compile(r"(?:^|\.)layers\.(\d+)\.(?:enorm|hnorm|eh_proj)\.weight$")


def load_mtp(target: LanguageModel) -> MtpHead:
    """The first multi-token prediction layer of the checkpoint that `target` was loaded from.

    ModelError: it has none, the weights are incomplete, or the layer is of a kind that is not read here.
    """
    model: Any = target.model
    directory = Path(str(model.name_or_path))
    count = layers_in(directory, target.layers)
    if not count:
        raise _refused(directory, "its checkpoint has no such layer, or only in another format than safetensors")
    from transformers.modeling_layers import MtpModel

    try:
        with quiet_transformers(), _told(model, target.layers, count):
            loaded: Any = MtpModel.from_pretrained(model)
        head = MtpHead(loaded.layers[0].to(target.device, target.dtype), target)
    # What transformers raises depends on the checkpoint, which is untrusted, and on its version; the error is told.
    except (RuntimeError, ValueError, TypeError, AttributeError, KeyError, StopIteration, NotImplementedError) as error:
        raise _refused(directory, f"{type(error).__name__}: {str(error)[:300]}") from error
    return head.eval()


def layers_in(directory: Path, target_layers: int) -> int:
    """Multi-token prediction layers among the tensors of a checkpoint: `mtp.*`, or layers behind the target's."""
    if not directory.is_dir():
        return 0
    found = set()
    for file in checked_weights(directory, ""):
        if file.suffix != ".safetensors":
            continue
        for name in read_header(file):
            if (match := _IN_LAYER.search(name)) or (
                (match := _BEHIND.search(name)) and int(match[1]) >= target_layers
            ):
                found.add(int(match[1]))
    return len(found)


@contextmanager
def _told(model: Any, layers: int, count: int) -> Iterator[None]:
    """Tells transformers, while it loads, what configurations and classes leave out.

    Qwen's say neither how many such layers there are nor of what kind. GLM's and DeepSeek's classes name the numbers of
    the layers in the published sizes only, for tensors to be passed over when the target is loaded.
    """
    config, ignored = model.config, model._keys_to_ignore_on_load_unexpected
    told: Any = copy.copy(config)
    told.num_mtp_layers = count
    for kinds, own in (("layer_types", "mtp_layer_types"), ("mlp_layer_types", "mtp_mlp_layer_types")):
        given = getattr(config, kinds, None)
        if given is not None and getattr(config, own, None) is None:
            setattr(told, own, [given[-1]] * count)  # as transformers takes the last layer's class for them
    behind = [rf"layers\.{number}\." for number in range(layers, layers + count)]
    model.config, model._keys_to_ignore_on_load_unexpected = told, [r"^mtp\.", *behind]
    try:
        yield
    finally:
        model.config, model._keys_to_ignore_on_load_unexpected = config, ignored


def _refused(directory: Path, why: str) -> ModelError:
    what = f"the model in {directory} cannot draft by multi-token prediction"
    return ModelError(what, why=why, fix="choose another --draft, such as ngram")
