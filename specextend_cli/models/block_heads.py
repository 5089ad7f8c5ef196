"""Loading block heads (DFlash, DSpark) in every published layout, and saving them in that of speculators.

What a checkpoint is, its tensors say; a configuration that contradicts them is refused, and so are unknown tensors: a
head loaded wrongly would draft at random.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from specextend_cli.engine.block_head import BlockConfig, BlockHead
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.models.head_quantization import multiply_out
from specextend_cli.models.head_sizes import agree, check_rows, published_sizes, require, sizes_of
from specextend_cli.models.head_tensors import fill, read_tensors, ready, usable, write_head
from specextend_cli.models.skip_init import SkipInit

if TYPE_CHECKING:  # training a new head imports no pydantic
    from specextend_cli.models.block_settings import BlockSettings

_FITTING = "use the head that was trained for this target, as z-lab, DeepSpec or speculators publish it"
_MOST_LAYERS = 16
_MODELOPT = (
    (re.compile(r"^(markov_w[12]|gate_proj|joint_proj)\."), r"markov_head.\1."),
    (re.compile(r"^confidence_proj\."), "confidence_head.proj."),
)


def load_block_head(directory: Path, target: LanguageModel, *, name: str = "NAME") -> BlockHead:
    """The head in `directory` for `target`, on its device. Nothing is fetched; pickles are read for tensors only.

    It computes in the target's number format, because the two may share modules. `name` is the preset's. ModelError:
    damaged or missing weights, a head of another target, an unknown layout.
    """
    from specextend_cli.models.block_settings import BlockSettings

    settings = BlockSettings.read(directory)
    tensors, has_mask = read_tensors(directory, name)
    with usable(directory, _FITTING):
        if has_mask or (directory / "mask_embedding.pt").exists():
            raise ValueError("its mask token has an embedding of its own")
        for pattern, new in _MODELOPT:
            tensors = {pattern.sub(new, key): tensor for key, tensor in tensors.items()}
        tensors = multiply_out(tensors, settings.quantization_config or settings.compression_config, target.dtype)
        config = _configure(settings, tensors, target)
        with SkipInit(anywhere=True):  # random weights would take seconds for a large vocabulary
            head = BlockHead(config)
        fill(head, tensors, target)
    return ready(head, target)


def default_block_layers(layers: int, states: int) -> tuple[int, ...]:
    """The target's states that z-lab's heads read where a checkpoint does not say, evenly spaced over `layers`."""
    if states == 1:
        return (layers // 2 + 1,)
    span = layers - 4
    return tuple(round(1 + i * span / (states - 1)) + 1 for i in range(states))


def _configure(settings: BlockSettings, tensors: dict[str, Tensor], target: LanguageModel) -> BlockConfig:
    """Sizes by what the tensors are, everything else from the configuration.

    ValueError: tensors and configuration contradict each other, or the head is another target's. KeyError: a tensor is
    missing.
    """
    layers, joined, sizes = sizes_of(settings, tensors, target, most_layers=_MOST_LAYERS)
    hidden, reads = sizes["hidden"], sizes["target_hidden"]
    require(joined % reads == 0 and joined, f"its fc reads {joined} numbers, the target's states have {reads}")
    agree(settings, "num_hidden_layers", layers, "it has")
    agree(settings, "num_target_layers", target.layers, "the target has")
    embedding: Any = target.model.get_input_embeddings()
    vocabulary = len(tensors.get("embedding.weight", embedding.weight))
    rows = len(tensors["lm_head.weight"]) if "lm_head.weight" in tensors else target.vocabulary
    agree(settings, "draft_vocab_size", rows, "the rows of its lm_head are")
    check_rows(tensors, target, vocabulary, rows)
    mask, block = settings.mask_token_id, settings.block_size
    if mask is None or block is None:
        raise ValueError(f"config.json has no {'mask_token_id' if mask is None else 'block_size'}")
    require(mask < vocabulary, f"its mask token is {mask}, and {vocabulary:,} tokens are embedded")
    windows = settings.windows(layers)
    markov, rank = _markov(settings, tensors)
    confidence = "confidence_head.proj.weight" in tensors
    require(
        settings.enable_confidence_head in (None, confidence) or settings.speculators_model_type == "dflash",
        f"config.json says enable_confidence_head {settings.enable_confidence_head}, and its tensors say otherwise",
    )
    reads_token = confidence and tensors["confidence_head.proj.weight"].shape[1] == hidden + rank and rank > 0
    if confidence:
        agree(settings, "confidence_head_with_markov", reads_token, "and by its tensors that is")
    return BlockConfig(
        **sizes,
        vocabulary=vocabulary,
        draft_vocabulary=rows,
        feature_layers=_feature_layers(settings, joined // reads, layers, target.layers),
        block=block,
        mask_token=mask,
        windows=windows,
        is_causal=settings.causality(windows),
        predicts_next=settings.all_rows_predict,
        max_position=settings.max_position_embeddings or 4096,
        attention_bias="layers.0.self_attn.q_proj.bias" in tensors,
        markov=markov,
        markov_rank=rank,
        confidence=confidence,
        confidence_reads_token=reads_token,
    )


def _markov(settings: BlockSettings, tensors: dict[str, Tensor]) -> tuple[Any, int]:
    """The kind of the Markov head and its rank; None and 0 without one."""
    rank = tensors["markov_head.markov_w1.weight"].shape[1] if "markov_head.markov_w1.weight" in tensors else 0
    parts = {"markov_head.gate_proj.weight": "gated", "markov_head.joint_proj.weight": "rnn"}
    kind = next((kind for name, kind in parts.items() if name in tensors), "vanilla")
    if settings.markov_rank not in (None, rank) or (rank and settings.markov_head_type not in (None, kind)):
        said = settings.markov_head_type, settings.markov_rank
        raise ValueError(f"config.json says a Markov head {said}, by its tensors it is {(kind, rank)}")
    return (kind, rank) if rank else (None, 0)


def _feature_layers(settings: BlockSettings, fused: int, layers: int, target_layers: int) -> tuple[int, ...]:
    """The states that a head reads, as transformers numbers them."""
    outputs, states = settings.target_layer_ids, settings.state_ids
    if outputs is not None and states is not None and [i + 1 for i in outputs] != states:
        raise ValueError(f"it reads the outputs of layers {outputs}, and the states {states}")
    found = tuple(states) if states is not None else tuple(i + 1 for i in outputs or ())
    found = found or default_block_layers(target_layers, layers)
    if len(found) != fused:
        raise ValueError(f"it names {len(found)} states and fuses {fused}")
    if not all(0 <= i <= target_layers for i in found):
        raise ValueError(f"it reads the states {found}, the target has {target_layers} layers")
    return found


def save_block_head(head: BlockHead, directory: Path, *, dtype: torch.dtype) -> None:
    """Write a DFlash head in the layout of speculators, its embedding, which is the target's, left out."""
    config = head.config
    if config.markov or config.confidence or config.sliding_window or any(config.is_causal):
        raise ValueError("only DFlash heads with full attention are written")
    write_head(head, directory, _published(config), dtype)


def _published(config: BlockConfig) -> dict[str, Any]:
    layer = {
        **published_sizes(config, config.layers),
        "model_type": "qwen3",
        "layer_types": ["full_attention"] * config.layers,
        "rope_parameters": dict(config.rope),
    }
    return {
        "architectures": ["DFlashDraftModel"],
        "speculators_model_type": "dflash",
        "transformer_layer_config": layer,
        "draft_vocab_size": config.draft_vocabulary,
        "block_size": config.block,
        "mask_token_id": config.mask_token,
        "aux_hidden_state_layer_ids": list(config.feature_layers),
        "sample_from_anchor": config.predicts_next,
    }
