"""Tiny EAGLE heads on disk, as their publishers lay them out. Each writer returns the head that it wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from specextend_cli.engine.head import EagleHead
from tests.engine.tiny_heads import tiny_head
from tests.engine.tiny_models import VOCABULARY
from tests.helpers.model_files import change_tensors

SIZES = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 1,
    "vocab_size": VOCABULARY,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "max_position_embeddings": 2048,
}


def save(head: EagleHead, file: Path, first: str, *without: str) -> None:
    """Write tensors by their published names, `without` some; those of the first layer begin with `first`."""
    tensors = {}
    for key, tensor in head.state_dict().items():
        key = key.replace("embedding.", "embed_tokens.").replace("draft_to_target", "d2t")
        tensors[key.replace("layers.0.", first)] = tensor.clone()
    if head.config.draft_vocab < head.config.embedding:
        tensors["t2d"] = torch.zeros(head.config.embedding, dtype=torch.bool)
        tensors["t2d"][head.vocabulary] = True
    else:
        del tensors["d2t"]
    for name in without:
        del tensors[f"{name}.weight"]
    (torch.save if file.suffix == ".bin" else save_file)(tensors, file)


def write_config(directory: Path, vocabulary: int, **settings: Any) -> None:
    (directory / "config.json").write_text(json.dumps({**SIZES, "vocab_size": vocabulary, **settings}))


def safeailab_1(directory: Path, vocabulary: int = VOCABULARY) -> EagleHead:
    """pytorch_model.bin without final norm and output head; `bias` in the configuration speaks of fc."""
    head = tiny_head("eagle1-bias-2-layers", embedding=vocabulary, draft_vocab=vocabulary)
    save(head, directory / "pytorch_model.bin", "layers.0.", "lm_head")
    write_config(directory, vocabulary, num_hidden_layers=2, bias=True)
    return head


def safeailab_3(directory: Path, vocabulary: int = VOCABULARY) -> EagleHead:
    """pytorch_model.bin, `midlayer`, default layers, no embedding of its own."""
    head = tiny_head("eagle3", embedding=vocabulary)
    save(head, directory / "pytorch_model.bin", "midlayer.", "embed_tokens")
    write_config(directory, vocabulary, architectures=["LlamaForCausalLMEagle3"], draft_vocab_size=40)
    return head


def angelslim(directory: Path, vocabulary: int = VOCABULARY) -> EagleHead:
    """An explicit head_dim that is not hidden / heads, its own embedding, a narrower head."""
    head = tiny_head("eagle3-narrow", embedding=vocabulary)
    save(head, directory / "model.safetensors", "midlayer.")
    sizes = {"hidden_size": 32, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 24}
    settings = {"architectures": ["Eagle3LlamaForCausalLM"], "target_hidden_size": 64, "draft_vocab_size": 40}
    write_config(directory, vocabulary, **sizes, **settings)
    return head


def yarn(directory: Path, vocabulary: int = VOCABULARY) -> EagleHead:
    """A head for long inputs: YaRN in `rope_scaling`, no embedding of its own."""
    scaling = {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 2048}
    head = tiny_head("eagle3", embedding=vocabulary, rope={**scaling, "rope_theta": 10000.0}, max_position=65536)
    save(head, directory / "model.safetensors", "midlayer.", "embed_tokens")
    settings = {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": 40, "rope_scaling": scaling}
    write_config(directory, vocabulary, **settings, max_position_embeddings=65536)
    return head


def speculators(directory: Path, vocabulary: int = VOCABULARY) -> EagleHead:
    """Sizes in a table of their own, `layers.0`, norms of EAGLE-3.1, RoPE nested."""
    rope = {"rope_type": "default", "rope_theta": 500.0}
    head = tiny_head("eagle3.1", embedding=vocabulary, norm_before_residual=True, rope=rope)
    save(head, directory / "model.safetensors", "layers.0.")
    change_tensors(directory, lambda tensors: tensors.update({"verifier_norm.weight": torch.ones(64)}))
    layer = {**SIZES, "vocab_size": vocabulary, "model_type": "llama", "rope_parameters": rope}
    config = {"architectures": ["Eagle3Speculator"], "speculators_model_type": "eagle3"}
    config |= {"transformer_layer_config": layer, "draft_vocab_size": 40, "target_hidden_size": None}
    config |= {"norm_before_residual": True, "fc_norm": True, "norm_output": True, "norm_before_fc": False}
    config |= {"eagle_aux_hidden_state_layer_ids": [0, 1, 2]}
    (directory / "config.json").write_text(json.dumps(config))
    return head


def specforge(directory: Path, vocabulary: int = VOCABULARY) -> EagleHead:
    """`norm_output` that means nothing, no maps where the vocabulary is whole, old rope_scaling, ids in a table."""
    rope = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}
    head = tiny_head("eagle3-whole-vocabulary", embedding=vocabulary, draft_vocab=vocabulary, rope=rope)
    save(head, directory / "model.safetensors", "midlayer.")
    settings: dict[str, Any] = {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": vocabulary}
    settings |= {"norm_output": True, "rope_scaling": {"type": "linear", "factor": 2.0}}
    ids = {"eagle_aux_hidden_state_layer_ids": [0, 1, 2], "use_aux_hidden_state": True}
    write_config(directory, vocabulary, **settings, eagle_config=ids)
    return head


def speculators_window(directory: Path, vocabulary: int = VOCABULARY) -> EagleHead:
    """All keys of a newer one: Qwen3's norms of queries and keys, a window (ignored), one norm before fc, feedback."""
    rope = {"rope_type": "default", "rope_theta": 1000000.0}
    changes = {"norm_before_fc": True, "feeds_normed": True, "rope": rope}
    head = tiny_head("eagle3-qk-norm", embedding=vocabulary, **changes)
    save(head, directory / "model.safetensors", "layers.0.")
    layer = {**SIZES, "vocab_size": vocabulary, "model_type": "qwen3", "rope_parameters": rope, "head_dim": 16}
    layer |= {"layer_types": ["sliding_attention"], "sliding_window": 2048, "use_sliding_window": True}
    layer |= {"attention_bias": False, "max_window_layers": 0, "dtype": "bfloat16"}
    layer["architectures"] = ["Qwen3ForCausalLM"]
    proposal = {"accept_tolerance": 0.0, "proposal_type": "greedy", "speculative_tokens": 3, "verifier_accept_k": 1}
    config: dict[str, Any] = {"architectures": ["Eagle3DraftModel"], "speculators_model_type": "eagle3"}
    config |= {"speculators_version": "0.6.0", "has_no_defaults_at_init": False, "embed_requires_grad": False}
    config |= {"transformer_layer_config": layer, "draft_vocab_size": 40, "target_hidden_size": None}
    config |= {"norm_before_residual": False, "norm_before_fc": True, "fc_norm": False, "norm_output": True}
    config["eagle_aux_hidden_state_layer_ids"] = [0, 1, 2]
    verifier = {"name_or_path": "Qwen/Qwen3-8B", "architectures": ["Qwen3ForCausalLM"]}
    config["speculators_config"] = {"algorithm": "eagle3", "proposal_methods": [proposal], "verifier": verifier}
    (directory / "config.json").write_text(json.dumps(config))
    return head


def specbundle(directory: Path, vocabulary: int = VOCABULARY) -> EagleHead:
    """SpecForge's as it saves them: safetensors without the embedding, no position encoding in the configuration."""
    head = tiny_head("eagle3", embedding=vocabulary)
    save(head, directory / "model.safetensors", "midlayer.", "embed_tokens")
    settings: dict[str, Any] = {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama"}
    write_config(directory, vocabulary, **settings, draft_vocab_size=40, pad_token_id=0, tie_word_embeddings=False)
    return head


def specforge_31(directory: Path, vocabulary: int = VOCABULARY) -> EagleHead:
    """EAGLE-3.1: `norm_output` means the feedback, beside norms of the target's states. No embedding of its own."""
    head = tiny_head("eagle3.1", embedding=vocabulary, rope={"rope_type": "default", "rope_theta": 1000000.0})
    save(head, directory / "model.safetensors", "midlayer.", "embed_tokens")
    settings: dict[str, Any] = {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama"}
    settings |= {"draft_vocab_size": 40, "fc_norm": True, "norm_output": True}
    settings |= {"rope_scaling": None, "rope_theta": 1000000.0, "head_dim": 16}
    settings |= {"sliding_window": None, "use_sliding_window": False, "max_window_layers": 48, "attention_bias": False}
    write_config(directory, vocabulary, **settings, tie_word_embeddings=False, target_model_type="qwen3_moe")
    return head


def bare(directory: Path, vocabulary: int = VOCABULARY) -> EagleHead:
    """The target's embedding and output head, and a norm before fc."""
    head = tiny_head("eagle3-norm-before-fc", embedding=vocabulary, draft_vocab=vocabulary)
    save(head, directory / "model.safetensors", "midlayer.", "embed_tokens", "lm_head")
    write_config(directory, vocabulary, architectures=["LlamaForCausalLMEagle3"], norm_before_fc=True)
    return head


QWEN3: dict[str, Any] = {
    "model_type": "qwen3",
    "head_dim": 16,
    "attention_bias": False,
    "attention_dropout": 0.0,
    "layer_types": ["full_attention"],
    "max_window_layers": 36,
    "sliding_window": None,
    "use_sliding_window": False,
    "tie_word_embeddings": False,
}


def deepspec(directory: Path, vocabulary: int = VOCABULARY) -> EagleHead:
    """Five states, named by the layers that put them out (here of three layers, so some are read twice); Qwen3's
    norms of queries and keys; the whole vocabulary without maps; its target's configuration with keys added.
    """
    rope = {"rope_type": "default", "rope_theta": 1000000.0}
    head = tiny_head("eagle3-five-states", embedding=vocabulary, draft_vocab=vocabulary, rope=rope)
    save(head, directory / "model.safetensors", "layers.0.")
    settings = {**QWEN3, "architectures": ["Qwen3Eagle3Model"], "dtype": "bfloat16", "rope_parameters": rope}
    settings |= {"target_layer_ids": [0, 1, 2, 1, 0], "num_target_layers": 3, "draft_num_hidden_layers": 1}
    settings |= {"target_model_name_or_path": "Qwen/Qwen3-4B", "ttt_length": 7, "step_loss_decay": 0.8}
    write_config(directory, vocabulary, **settings)
    return head


LAYOUTS = (
    deepspec,
    safeailab_1,
    safeailab_3,
    angelslim,
    yarn,
    speculators,
    speculators_window,
    specforge,
    specbundle,
    specforge_31,
    bare,
)
