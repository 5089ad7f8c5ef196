"""Random multi-token prediction layers beside a model's tensors, in the layouts of published checkpoints."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file
from torch import Tensor
from transformers import PreTrainedModel
from transformers.modeling_layers import MtpLayer

QWENS = {"enorm": "mtp.pre_fc_norm_embedding", "hnorm": "mtp.pre_fc_norm_hidden", "eh_proj": "mtp.fc"}


def prediction_layer(net: PreTrainedModel) -> MtpLayer:
    """A layer of random weights for a causal language model, of the kind of its last layer."""
    config: Any = copy.copy(net.config)
    config.num_hidden_layers = 1
    if getattr(config, "layer_types", None):
        config.layer_types = ["full_attention"]
    last = net.get_decoder().layers[-1]
    torch.manual_seed(3)
    layer = MtpLayer(config, type(last), type(last.input_layernorm), 0).eval()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, mean=float(parameter.dim() == 1) * 0.5, std=0.1)
    return layer


def published(layer: MtpLayer) -> dict[str, Tensor]:
    """The layer's tensors by the names of published checkpoints, an expert each."""
    block = "mtp.layers.0"
    found = {}
    for key, tensor in layer.state_dict().items():
        part, _, rest = key.partition(".")
        if part == "mtp_block" and rest.startswith("mlp.experts."):
            for number, expert in enumerate(tensor):
                where = f"{block}.mlp.experts.{number}"
                if rest.endswith("gate_up_proj"):
                    gate, up = expert.chunk(2)
                    found |= {f"{where}.gate_proj.weight": gate, f"{where}.up_proj.weight": up}
                else:
                    found[f"{where}.down_proj.weight"] = expert
        elif part == "mtp_block":
            found[f"{block}.{rest}"] = tensor
        else:
            found[f"{QWENS.get(part, 'mtp.norm')}.{rest}"] = tensor
    return {key: tensor.clone().contiguous() for key, tensor in found.items()}


def add(directory: Path, tensors: dict[str, Tensor]) -> None:
    """Put tensors beside those that `save_pretrained` wrote, in a file of their own."""
    (directory / "model.safetensors").rename(directory / "model-1.safetensors")
    save_file(tensors, directory / "model-2.safetensors", {"format": "pt"})
    of_target = transformers.modeling_utils.load_state_dict(directory / "model-1.safetensors")
    places = dict.fromkeys(of_target, "model-1.safetensors") | dict.fromkeys(tensors, "model-2.safetensors")
    (directory / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
