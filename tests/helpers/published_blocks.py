"""Tiny block heads on disk, as their publishers lay them out. Each writer returns the head that it wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from specextend_cli.engine.block_head import BlockHead
from specextend_cli.engine.lm import LanguageModel
from tests.engine.tiny_blocks import tiny_block
from tests.engine.tiny_models import VOCABULARY, tiny

ROPE = {"rope_type": "default", "rope_theta": 500.0}
LAYER: dict[str, Any] = {
    "model_type": "qwen3",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "num_hidden_layers": 2,
    "vocab_size": VOCABULARY,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "attention_bias": False,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
    "use_sliding_window": False,
    "sliding_window": None,
    "max_window_layers": 2,
    "layer_types": ["full_attention", "full_attention"],
}
OLD_ROPE = {"rope_theta": 500.0, "rope_scaling": None}


def named(head: BlockHead, *without: str) -> dict[str, Tensor]:
    """Tensors by their published names."""
    tensors = {key.replace("embedding.", "embed_tokens."): tensor.clone() for key, tensor in head.state_dict().items()}
    offsets = tensors.pop("draft_to_target")
    if head.config.draft_vocabulary < head.config.vocabulary:
        tensors["d2t"] = offsets
        tensors["t2d"] = torch.zeros(head.config.vocabulary, dtype=torch.bool)
        tensors["t2d"][head.vocabulary] = True
    return {key: tensor for key, tensor in tensors.items() if not key.startswith(without)}


def with_target(head: BlockHead) -> BlockHead:
    """Use the tiny target's embedding and output layer."""
    lm = LanguageModel(tiny())
    head.embedding, head.lm_head = lm.model.get_input_embeddings(), lm.model.get_output_embeddings()  # type: ignore[assignment]
    return head


def write(directory: Path, tensors: dict[str, Tensor], config: dict[str, Any]) -> None:
    save_file(tensors, directory / "model.safetensors")
    (directory / "config.json").write_text(json.dumps(config))


def z_lab(directory: Path) -> BlockHead:
    """No embedding and no output layer; a table of its own; the block's size at the top."""
    head = with_target(tiny_block("dflash"))
    table = {"mask_token_id": VOCABULARY - 1, "target_layer_ids": [0, 1, 2]}
    head.config = tiny_block("dflash", feature_layers=(1, 2, 3)).config
    config = {
        "architectures": ["DFlashDraftModel"],
        "auto_map": {"AutoModel": "dflash.DFlashDraftModel"},
        "block_size": 6,
    }
    write(
        directory,
        named(head, "embed_tokens", "lm_head"),
        {**LAYER, **OLD_ROPE, **config, "dflash_config": table, "num_target_layers": 3},
    )
    return head


def z_lab_windows(directory: Path) -> BlockHead:
    """A newer one: the block's size in the table, RoPE nested, one layer with a window, which is causal."""
    head = with_target(tiny_block("dflash", windows=(128, None), is_causal=(True, False), feature_layers=(1, 2, 3)))
    table = {"mask_token_id": VOCABULARY - 1, "target_layer_ids": [0, 1, 2], "block_size": 6}
    config = {
        "architectures": ["DFlashDraftModel"],
        "dflash_config": table,
        "rope_parameters": ROPE,
        "sliding_window": 128,
    }
    kinds = {"layer_types": ["sliding_attention", "full_attention"], "use_sliding_window": True}
    write(directory, named(head, "embed_tokens", "lm_head"), {**LAYER, **config, **kinds})
    return head


def deepspec_dflash(directory: Path) -> BlockHead:
    """DFlash by DeepSpec: copies of the target's embedding and output layer; every row predicts."""
    head = with_target(tiny_block("deepspec-dflash"))
    head.config = tiny_block("deepspec-dflash", feature_layers=(0, 1, 3)).config
    own = {"block_size": 5, "mask_token_id": VOCABULARY - 1, "target_layer_ids": [-1, 0, 2], "num_target_layers": 3}
    own |= {"num_anchors": 8, "enable_confidence_head": False, "markov_rank": 0}
    write(directory, named(head), {**LAYER, "rope_parameters": ROPE, "architectures": ["Qwen3DSparkModel"], **own})
    return head


def deepspec_dspark(directory: Path) -> BlockHead:
    """DSpark: a Markov head and a confidence head that reads it."""
    head = with_target(tiny_block("dspark", feature_layers=(1, 2, 3)))
    own = {"block_size": 5, "mask_token_id": VOCABULARY - 1, "target_layer_ids": [0, 1, 2], "num_target_layers": 3}
    own |= {"num_anchors": 8, "enable_confidence_head": True, "confidence_head_with_markov": True}
    own |= {"markov_rank": 8, "markov_head_type": "vanilla"}
    write(directory, named(head), {**LAYER, "rope_parameters": ROPE, "architectures": ["Qwen3DSparkModel"], **own})
    return head


def speculators_dflash(directory: Path) -> BlockHead:
    """Sizes in a table, a part of the vocabulary, states as transformers numbers them."""
    head = tiny_block("dflash", draft_vocabulary=40)
    head.embedding = LanguageModel(tiny()).model.get_input_embeddings()
    tensors = named(head) | {"verifier_norm.weight": torch.ones(64)}
    config = {"architectures": ["DFlashSpeculator"], "speculators_model_type": "dflash", "draft_vocab_size": 40}
    config |= {"block_size": 6, "mask_token_id": VOCABULARY - 1, "aux_hidden_state_layer_ids": [0, 1, 2]}
    config |= {"sample_from_anchor": False, "sliding_window_non_causal": False, "target_hidden_size": None}
    write(directory, tensors, {**config, "transformer_layer_config": {**LAYER, "rope_parameters": ROPE}})
    return head


def speculators_dspark(directory: Path) -> BlockHead:
    """A Markov head that writes a part of the vocabulary, and a confidence head that does not read it."""
    head = tiny_block("dspark-gated")
    config = {"architectures": ["DSparkSpeculator"], "speculators_model_type": "dspark", "draft_vocab_size": 40}
    config |= {"block_size": 5, "mask_token_id": VOCABULARY - 1, "aux_hidden_state_layer_ids": [0, 1, 2]}
    config |= {"sample_from_anchor": True, "markov_rank": 8, "markov_head_type": "gated"}
    config |= {"enable_confidence_head": True, "confidence_head_with_markov": False}
    write(directory, named(head), {**config, "transformer_layer_config": {**LAYER, "rope_parameters": ROPE}})
    return head


def modelopt(directory: Path) -> BlockHead:
    """DSpark's heads without prefixes, and their settings in the table."""
    head = with_target(
        tiny_block("dspark-rnn", draft_vocabulary=VOCABULARY, confidence=False, confidence_reads_token=False)
    )
    head.config = tiny_block(
        "dspark-rnn", feature_layers=(1, 2, 3), confidence=False, confidence_reads_token=False
    ).config
    tensors = named(head, "embed_tokens", "lm_head")
    tensors = {key.removeprefix("markov_head."): tensor for key, tensor in tensors.items()}
    table = {"mask_token_id": VOCABULARY - 1, "target_layer_ids": [0, 1, 2], "projector_type": "dspark"}
    table |= {"markov_rank": 8, "markov_head_type": "rnn", "use_confidence_head": False, "shift_label": True}
    config = {**LAYER, **OLD_ROPE, "architectures": ["DFlashDraftModel"], "block_size": 5, "dflash_config": table}
    write(directory, tensors, config)
    return head


LAYOUTS: list[Callable[[Path], BlockHead]] = [
    z_lab,
    z_lab_windows,
    deepspec_dflash,
    deepspec_dspark,
    speculators_dflash,
    speculators_dspark,
    modelopt,
]
