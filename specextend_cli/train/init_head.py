"""Initialization of a head: the target's last layers, norm and output rows, reading the target's late state.

Such a head starts near the target's own prediction of the token just written; training teaches it the next one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from specextend_cli.engine.block_head import BlockHead
from specextend_cli.engine.head import EagleHead, HeadConfig
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.self_check import disagreement
from specextend_cli.errors import ModelError

_THETA = 1e6  # least base of RoPE: half of the dimensions then rotate little over a thousand tokens
_ATTENTION = {f"self_attn.{part}_proj.weight" for part in "qkvo"}


@torch.no_grad()
def head_sizes(
    lm: LanguageModel, vocabulary: Tensor, feature_layers: tuple[int, ...], *, max_position: int
) -> HeadConfig:
    """The sizes of an EAGLE-3 head for `lm` that writes the tokens `vocabulary`; ModelError as `init_head`."""
    target, model = lm.config, lm.model
    parts = ("rms_norm_eps", "intermediate_size", "rope_parameters")
    if missing := [part for part in parts if getattr(target, part, None) is None]:
        raise ModelError(
            f"no head can be trained for {type(model).__name__}",
            why=f"heads have the parts of a Llama, and its configuration has no {missing[0]}",
            fix="choose another target: specextend models list",
        )
    _check_output(lm)
    heads = int(target.num_attention_heads)
    return HeadConfig(
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
    config = head_sizes(lm, vocabulary, feature_layers, max_position=max_position)
    head = EagleHead(config)
    init_ends(head, lm, vocabulary)
    own = layer_weights(lm, -1)
    layers: Any = head.layers
    for name, tensor in layers[0].state_dict().items():
        source = own.get("input_layernorm.weight" if name == "hidden_norm.weight" else name)
        if source is None:
            continue
        if tensor.shape == source.shape:
            tensor.copy_(source)
        elif tensor.dim() == 2 and tensor.shape == (source.shape[0], 2 * source.shape[1]):
            tensor[:, config.hidden :] = source  # the half that reads states; embeddings come first
    return head


@torch.no_grad()
def init_ends(head: EagleHead | BlockHead, lm: LanguageModel, vocabulary: Tensor) -> None:
    """Small random matrices, but for what reads and writes tokens; `fc` hands on the target's late state."""
    for parameter in head.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.02)
    head.draft_to_target.copy_(vocabulary - torch.arange(len(vocabulary)))
    head.embedding.weight.copy_(lm.model.get_input_embeddings().weight)
    head.embedding.requires_grad_(False)
    head.lm_head.weight.copy_(lm.model.get_output_embeddings().weight[vocabulary.to(lm.device)])
    hidden = head.config.hidden
    head.fc.weight.mul_(0.1)
    head.fc.weight[:, -hidden:] += torch.eye(hidden)
    decoder: Any = lm.model.get_decoder()
    norm: Any = head.norm
    norm.weight.copy_(decoder.norm.weight + _centre(lm))


def layer_weights(lm: LanguageModel, index: int) -> dict[str, Tensor]:
    """The weights of a target's layer in float32, those of norms as factors; attention's only where they are all."""
    decoder: Any = lm.model.get_decoder()
    own = {name: tensor.float().cpu() for name, tensor in decoder.layers[index].state_dict().items()}
    if {name for name in own if name.startswith("self_attn.")} != _ATTENTION:
        # With biases, norms of queries and keys or fused projections, the weights alone would mean something else.
        own = {name: tensor for name, tensor in own.items() if not name.startswith("self_attn.")}
    return {name: tensor + _centre(lm) if tensor.dim() == 1 else tensor for name, tensor in own.items()}


def _centre(lm: LanguageModel) -> float:
    """What is added to a norm's stored weights: Gemma stores them minus one."""
    return 1.0 if str(lm.config.model_type).startswith("gemma") else 0.0


def _check_output(lm: LanguageModel) -> None:
    """ModelError unless logits are the output head applied to the last state, as training computes them."""
    two = torch.arange(2, device=lm.device)
    out = lm.forward(two, two, lm.new_cache(2), features=(lm.layers,))
    ours = lm.model.get_output_embeddings()(out.features)
    if disagreement(ours, out.logits, lm.dtype) is not None:
        raise ModelError(
            f"no head can be trained for {type(lm.model).__name__}",
            why="it scales or bends its logits after the output head",
            fix="choose another target: specextend models list",
        )
