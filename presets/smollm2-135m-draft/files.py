"""The files of a draft: an EAGLE-3 head and an n-gram table, as `specextend` and serving engines read them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file

from specextend_cli.engine.drafters.table import CONTEXT, TOKEN_BITS
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.head_config import HeadConfig
from specextend_cli.models.head_config import default_layers
from specextend_cli.models.ngram_table import KEPT

_LEAST = 5  # times that a context occurred


def save_head(head: EagleHead, directory: Path, *, target_layers: int = 0, dtype: torch.dtype | None = None) -> None:
    """Write an EAGLE-3 head in the layout that SafeAILab published and serving engines read.

    The embedding is the target's and is left out, and so are the layer ids where they are the default ones for
    `target_layers`: engines disagree about the meaning of explicit ids only. Floating-point tensors become `dtype`.
    ValueError for EAGLE-1 and for what this layout cannot say.
    """
    config = head.config
    if config.generation != 3:
        raise ValueError("only EAGLE-3 heads are written")
    if config.feeds_normed and not config.fc_norm:
        raise ValueError("this layout feeds normed states back with fc_norm only")
    published = _published(config, head.embedding.num_embeddings)
    if config.feature_layers == default_layers(target_layers):
        del published["eagle_config"]
    tensors = {}
    for key, tensor in head.state_dict().items():
        kept = tensor.detach().to("cpu", dtype if tensor.is_floating_point() else None).contiguous()
        key = re.sub(r"^layers\.0\.", "midlayer.", key)
        tensors["d2t" if key == "draft_to_target" else key] = kept
    del tensors["embedding.weight"]
    tensors["t2d"] = torch.zeros(head.embedding.num_embeddings, dtype=torch.bool)
    tensors["t2d"][head.vocabulary.cpu()] = True
    directory.mkdir(parents=True, exist_ok=True)
    partial = directory / "model.safetensors.partial"
    save_file(tensors, partial, metadata={"format": "pt"})
    (directory / "config.json").write_text(json.dumps(published, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    partial.replace(directory / "model.safetensors")


def _published(config: HeadConfig, vocabulary: int) -> dict[str, Any]:
    published = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_size": config.hidden,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "intermediate_size": config.intermediate,
        "num_hidden_layers": config.layers,
        "vocab_size": vocabulary,
        "rms_norm_eps": config.eps,
        "hidden_act": "silu",
        "max_position_embeddings": config.max_position,
        "attention_bias": False,
        "tie_word_embeddings": False,
        "target_hidden_size": config.target_hidden,
        "draft_vocab_size": config.draft_vocab,
        "rope_theta": config.rope["rope_theta"],
        "rope_scaling": None if config.rope["rope_type"] == "default" else dict(config.rope),
        "qkv_bias": config.qkv_bias,
        "mlp_bias": False,
        "norm_before_residual": config.norm_before_residual,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": list(config.feature_layers)},
    }
    if config.fc_norm:
        published |= {"fc_norm": True, "norm_output": config.feeds_normed, "feeds_normed": config.feeds_normed}
    return published


def table_file(answers: Iterable[tuple[Sequence[int], int]]) -> bytes:
    """The file that counts what followed in `answers`: tokens of prompt and answer, and where the answer begins."""
    windows = [
        np.lib.stride_tricks.sliding_window_view(np.array(tokens[start - CONTEXT :], np.int64), CONTEXT + 1)
        for tokens, start in answers
        if CONTEXT <= start < len(tokens)
    ]
    every = np.concatenate([*windows, np.empty((0, CONTEXT + 1), np.int64)])
    parts: list[tuple[NDArray[np.int64], ...]] = []
    for length in range(1, CONTEXT + 1):
        keys = np.zeros(len(every), np.int64)
        for column in range(CONTEXT - length, CONTEXT):
            keys = keys << TOKEN_BITS | every[:, column] + 1
        parts.append(_counted(keys, every[:, -1]))
    keys, tokens, counts, totals = (np.concatenate(arrays).reshape(-1) for arrays in zip(*parts, strict=True))
    file = BytesIO()
    np.savez_compressed(file, keys=keys, tokens=tokens, counts=counts, totals=totals)
    return file.getvalue()


def _counted(keys: NDArray[np.int64], following: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    """Keys that occur often, ascending; of each the tokens that follow most often, their counts, and all of them."""
    order = np.lexsort((following, keys))
    pairs, counts = _runs(keys[order], following[order])
    order = np.lexsort((-counts, keys := pairs[0]))
    tokens, counts = pairs[1][order], counts[order]
    (contexts,), sizes = _runs(keys)
    starts = sizes.cumsum() - sizes
    totals = np.add.reduceat(counts, starts) if len(starts) else starts
    places = starts[:, None] + np.arange(KEPT)
    is_there = np.arange(KEPT) < sizes[:, None]
    places = np.where(is_there, places, 0)
    often = totals >= _LEAST
    rows = (contexts, np.where(is_there, tokens[places], 0), np.where(is_there, counts[places], 0), totals)
    keys, tokens, counts, totals = (row[often] for row in rows)
    return keys, tokens.astype(np.int32), counts.astype(np.int32), totals.astype(np.int32)


def _runs(*columns: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sorted rows without repetitions, and how often each occurs."""
    rows = np.stack(columns)
    starts = np.flatnonzero(np.r_[True, (rows[:, 1:] != rows[:, :-1]).any(0)][: rows.shape[1]])
    return rows[:, starts], np.diff(np.r_[starts, rows.shape[1]])
