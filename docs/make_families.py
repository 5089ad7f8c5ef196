"""Writes docs/data/architectures.md: `python docs/make_families.py`. A test checks a sample of it.

Every causal language model of the installed transformers is built with few random weights, and decoded with drafts; of
those that wrap one, the text part, which `tests/models/test_text_part.py` compares with the whole. It is exact if that
writes what `generate` writes; otherwise it has to be refused when it is loaded, and the table says why.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from specextend_cli.engine.config import Retrieval, TreeShape
from specextend_cli.engine.decode import decode
from specextend_cli.engine.draft_gate import DraftGate
from specextend_cli.engine.drafters import BlendDrafter, LMDrafter, NgramDrafter
from specextend_cli.engine.events import Step
from specextend_cli.engine.lm import LanguageModel, check_supported
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
from specextend_cli.errors import ModelError
from specextend_cli.models.text_part import WRAPPERS, text_config

PAGE = Path(__file__).parent / "data" / "architectures.md"
BEGIN, END = "<!-- by docs/make_families.py -->\n", "<!-- end -->\n"
EXACT, NOT_CHECKED = "exact", "not checked: no small model of it was made"
_VOCABULARY, _PROMPT, _NEW, _MOST_WEIGHTS = 97, 150, 12, 5_000_000
_SMALL: dict[str, Any] = {
    **dict.fromkeys(("vocab_size", "vocab_size_per_layer_input"), _VOCABULARY),
    **dict.fromkeys(("hidden_size", "n_embd", "d_model", "embedding_size", "moe_latent_size"), 64),
    **dict.fromkeys(("intermediate_size", "moe_intermediate_size", "shared_expert_intermediate_size", "ffn_dim"), 48),
    **dict.fromkeys(("n_inner", "d_ff", "d_inner", "ffn_hidden_size", "shared_intermediate_size"), 48),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "num_layers", "n_layers", "decoder_layers", "encoder_layers"), 4),
    **dict.fromkeys(("num_attention_heads", "n_head", "num_heads", "n_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads"), 2),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_k", "n_group", "topk_group", "n_shared_experts"), 1),
    **dict.fromkeys(("linear_key_head_dim", "linear_value_head_dim", "mamba_d_state", "ssm_state_size"), 16),
    **dict.fromkeys(("linear_num_key_heads", "linear_num_value_heads"), 4),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx"), 512),
    **{"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "hidden_size_per_layer_input": 16},
    **{
        "head_dim": 24,
        "sliding_window": 16,
        "use_sliding_window": True,
        "num_kv_shared_layers": 2,
        "tie_word_embeddings": False,
    },
}
_PUBLISHED: dict[str, dict[str, Any]] = {
    "lfm2": {"layer_types": ["conv", "full_attention"] * 2},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 2},
    "granitemoehybrid": {"layer_types": ["linear_attention", "full_attention"] * 2},
    "bamba": {"attn_layer_indices": [1, 3]},
    "mamba2": {"num_heads": 4, "head_dim": 32},
    "zamba2": {"layers_block_type": ["linear_attention", "hybrid"] * 2},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "minimax_m3_vl_text": {"layer_types": ["full_attention", "minimax_m3_sparse"] * 2},
    "helium": {"head_dim": 16},
    "ministral": {"head_dim": 24},
    "hunyuan_v1_dense": {"head_dim": 24},
    "hunyuan_v1_moe": {"head_dim": 24, "moe_topk": 1},
}
"""What published models have, and their configurations only if it is asked for."""


def table() -> str:
    """The rows of the table, between the markers."""
    found = defaultdict(list)
    for name in names():
        found[classify(name)].append(name)
    rows = [(EXACT, found.pop(EXACT)), *sorted(found.items(), key=lambda row: (-len(row[1]), row[0]))]
    lines = [f"| {reason} | {len(which)} | {', '.join(f'`{name}`' for name in which)} |" for reason, which in rows]
    return "\n".join(
        (f"Of transformers {transformers.__version__}:\n", "| | | architectures |", "|---|---|---|", *lines, "")
    )


def names() -> list[str]:
    """The types of models that transformers continues text with, and of those whose text part is loaded alone."""
    return sorted({*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, *WRAPPERS})


def classify(name: str) -> str:
    """`EXACT`, or why this type of model is refused. AssertionError for one that is neither exact nor refused."""
    try:
        model = tiny(name)
        check_supported(model)
    except ModelError as error:
        return str(error.why)
    except Exception:  # whatever a configuration of other sizes leads to
        return NOT_CHECKED
    if model.device.type == "meta":
        return NOT_CHECKED
    tokens = torch.randint(3, _VOCABULARY, (_PROMPT,), generator=torch.Generator().manual_seed(0)).tolist()
    tokens[-20:] = tokens[10:30]
    try:
        lm = LanguageModel(model)
    except ModelError as error:
        return re.sub(r"^\w+: |, by \d+% of their size|: .*", "", str(error.why))
    written = _decoded(lm, tokens)
    assert written == _generated(model, tokens), f"{name} is not refused, and it is not exact"
    return EXACT


def tiny(name: str) -> PreTrainedModel:
    """A model of this type with few random weights, or with none (on the device "meta") if they would be many.

    It raises whatever a model of such sizes does.
    """
    torch.manual_seed(0)
    config = small(name)
    with torch.device("meta"):
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    if model.num_parameters() > _MOST_WEIGHTS:
        return model
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # some begin as zeros, and do nothing
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    return model


def small(name: str) -> PreTrainedConfig:
    """A configuration of few and small layers, of every kind that its default has."""
    kind = CONFIG_MAPPING[name]
    usual = kind()
    known = {field.name for field in fields(kind)}
    sizes = {size: value for size, value in _SMALL.items() if size in known and _has(usual, size)}
    if types := "layer_types" in known and getattr(usual, "layer_types", None):
        sizes["layer_types"] = (list(dict.fromkeys(types)) * 4)[:4]
    if name in WRAPPERS:
        text = usual.get_text_config().model_type
        return text_config(kind(text_config=small(text).to_dict() if text in CONFIG_MAPPING else None))
    return kind(**{**sizes, **_PUBLISHED.get(name, {})})


def _has(config: PreTrainedConfig, name: str) -> bool:
    """Whether the configuration has one such value for all layers."""
    try:
        return getattr(config, name) is not None
    except Exception:  # one for each layer
        return False


def _decoded(lm: LanguageModel, tokens: list[int]) -> list[int]:
    target = Target(lm)
    retrieval = Retrieval(policy="retrieval", chunk=8, top_k=4, recent=16, sinks=2, every=2)
    drafter = BlendDrafter([NgramDrafter(), LMDrafter(lm, target, retrieval)])
    gate = DraftGate(TreeShape(nodes=16, depth=5, width=3, threshold=0.0), enabled=False)
    events = decode(target, drafter, tokens, stop=Stop(_NEW), retrieval=retrieval, gate=gate, prefill_chunk=64)
    return [token for event in events if isinstance(event, Step) for token in event.tokens]


def _generated(model: PreTrainedModel, tokens: list[int]) -> list[int]:
    model.set_attn_implementation("eager")
    model.generation_config.eos_token_id = None
    ids = torch.tensor([tokens])
    with torch.inference_mode():
        out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=_NEW, do_sample=False)
    return out[0, len(tokens) :].tolist()


if __name__ == "__main__":
    for name in sys.argv[1:]:
        sys.stdout.write(f"{name}: {classify(name)}\n")
    if not sys.argv[1:]:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        PAGE.write_text(before + BEGIN + table() + END + rest.partition(END)[2], encoding="utf-8")
