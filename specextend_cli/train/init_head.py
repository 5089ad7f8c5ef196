"""Initialization of a head: the target's last layer, norm and output rows, reading the target's late state.

Such a head starts near the target's own prediction of the token just written; training teaches it the next one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from specextend_cli.engine.head import EagleHead, HeadConfig
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.errors import ModelError

_THETA = 1e6  # least base of RoPE: half of the dimensions then rotate little over a thousand tokens
_ATTENTION = {f"self_attn.{part}_proj.weight" for part in "qkvo"}


@torch.no_grad()
def init_head(
    lm: LanguageModel,
    vocabulary: Tensor,
    feature_layers: tuple[int, ...],
    *,
    max_position: int,
) -> EagleHead:
    """A trainable head in float32 for `lm`, whose output tokens are `vocabulary` [draft vocabulary], ascending.

    ModelError for a target without the parts of a Llama: a gated MLP, RMS norms, RoPE.
    """
    target, model = lm.config, lm.model
    parts = ("rms_norm_eps", "intermediate_size", "rope_parameters")
    if missing := [part for part in parts if getattr(target, part, None) is None]:
        raise ModelError(
            f"no head can be trained for {type(model).__name__}",
            why=f"heads have the parts of a Llama, and its configuration has no {missing[0]}",
            fix="choose another target: specextend presets list",
        )
    _check_output(lm)
    heads = int(target.num_attention_heads)
    config = HeadConfig(
        generation=3,
        hidden=int(target.hidden_size),
        target_hidden=int(target.hidden_size),
        heads=heads,
        kv_heads=int(getattr(target, "num_key_value_heads", None) or heads),
        head_dim=int(getattr(target, "head_dim", None) or target.hidden_size // heads),
        intermediate=int(target.intermediate_size),
        layers=1,
        vocabulary=lm.vocabulary,
        draft_vocabulary=len(vocabulary),
        feature_layers=feature_layers,
        eps=float(target.rms_norm_eps),
        rope={"rope_type": "default", "rope_theta": max(float(target.rope_parameters["rope_theta"]), _THETA)},
        max_position=max_position,
    )
    head = EagleHead(config)
    for parameter in head.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.02)
    head.draft_to_target.copy_(vocabulary - torch.arange(len(vocabulary)))
    head.embedding.weight.copy_(model.get_input_embeddings().weight)
    head.embedding.requires_grad_(False)
    head.lm_head.weight.copy_(model.get_output_embeddings().weight[vocabulary.to(lm.device)])
    hidden = config.hidden
    head.fc.weight.mul_(0.1)
    head.fc.weight[:, -hidden:] += torch.eye(hidden)
    decoder: Any = model.get_decoder()
    own = {name: tensor.float().cpu() for name, tensor in decoder.layers[-1].state_dict().items()}
    if {name for name in own if name.startswith("self_attn.")} != _ATTENTION:
        # With biases, norms of queries and keys or fused projections, the weights alone would mean something else.
        own = {name: tensor for name, tensor in own.items() if not name.startswith("self_attn.")}
    centre = 1.0 if str(target.model_type).startswith("gemma") else 0.0  # Gemma stores norm weights minus one
    layers: Any = head.layers
    for name, tensor in layers[0].state_dict().items():
        source = own.get("input_layernorm.weight" if name == "hidden_norm.weight" else name)
        if source is None:
            continue
        if tensor.shape == source.shape:
            tensor.copy_(source + centre if tensor.dim() == 1 else source)
        elif tensor.dim() == 2 and tensor.shape == (source.shape[0], 2 * source.shape[1]):
            tensor[:, hidden:] = source  # the half that reads states; embeddings come first
    norm: Any = head.norm
    norm.weight.copy_(decoder.norm.weight + centre)
    return head


def _check_output(lm: LanguageModel) -> None:
    """ModelError unless logits are the output head applied to the last state, as training computes them."""
    two = torch.arange(2, device=lm.device)
    out = lm.forward(two, two, lm.new_cache(2), features=(lm.layers,))
    ours = lm.model.get_output_embeddings()(out.features)
    if not torch.allclose(ours.float(), out.logits.float(), rtol=0.02, atol=0.02):
        raise ModelError(
            f"no head can be trained for {type(lm.model).__name__}",
            why="it scales or bends its logits after the output head",
            fix="choose another target: specextend presets list",
        )
