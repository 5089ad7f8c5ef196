"""The text model inside one that also reads images or sound: its configuration, and the names of its tensors.

Gemma 3 from 4B on, Mistral Small 3, Qwen-VL and their like are published as a wrapper with a tower for images or sound
and a text model. On text the wrapper computes what the text model does, which is loaded alone: from its part of the
configuration, as the causal language model that transformers has for it, without reading the towers. That this holds is
a property of each wrapper's code, so it is known only of `WRAPPERS`; `tests/models/test_text_part.py` compares them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

WRAPPERS = frozenset(
    {
        *("gemma3", "gemma3n", "gemma4", "gemma4_unified", "mistral3", "llama4"),
        *("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5", "qwen3_5_moe"),
        *("llava", "llava_next", "llava_onevision", "internvl", "idefics3", "smolvlm", "exaone4_5", "lfm2_vl"),
        "voxtral",
    }
)
"""Values of `model_type` of wrappers that compute of text what their text model does."""

_PARTS = ("text_config", "vision_config", "audio_config", "thinker_config")
_SAME_WITHOUT_IMAGES = {"qwen2_vl_text": "qwen2", "qwen2_5_vl_text": "qwen2", "qwen3_vl_text": "qwen3"}
"""Text models without a causal language model of their own in transformers -> what they are on text.

M-RoPE rotates sections of a head by a token's time, row and column. A text token has its position as all three, which
is plain RoPE whatever the sections are.
"""
_TIED = "tie_word_embeddings"
_SECTIONS = ("mrope_section", "mrope_interleaved")
_SIZES = {
    *("num_hidden_layers", "hidden_size", "intermediate_size", "vocab_size"),
    *("num_attention_heads", "num_key_value_heads", "head_dim"),
}

_IN_TEXT = r"^(?:model\.)?(?:language_model|text_model)\."
KEY_MAPPING = {rf"{_IN_TEXT}lm_head\.": "lm_head.", rf"{_IN_TEXT}(?:model\.)?(?!lm_head\.)": "model."}
"""Names of tensors in a wrapper's files -> those in the text model, as regular expressions in this order.

Files on the Hub have `language_model.model.layers`, those that transformers 5 writes `model.language_model.layers`,
Qwen2-VL's `model.layers`, SmolVLM's `model.text_model.layers`.
"""
_TEXT = re.compile(rf"{_IN_TEXT}|^lm_head\.|^model\.(embed_tokens|layers|norm)\.")


def is_wrapper(data: Mapping[str, Any]) -> bool:
    """Whether a config.json describes more than a text model."""
    return any(isinstance(data.get(part), dict) for part in _PARTS)


def why_refused(data: Mapping[str, Any]) -> str | None:
    """Why that config.json's text part cannot be loaded alone, in words; None if it can, or there is no wrapper."""
    kind = data.get("model_type")
    if not is_wrapper(data) or kind in WRAPPERS:
        return None
    what = "it also reads images or sound"
    if not isinstance(data.get("text_config"), dict):
        return f"{what}, and its configuration has no text model as a part"
    return f"{what}, and it is not known of {kind!r:.40} that its text model alone writes what the whole does"


def text_settings(data: Mapping[str, Any]) -> dict[str, Any]:
    """The text model's part of a config.json, or a copy of `data` where nothing is wrapped.

    Saved parts leave out what has transformers' default value: where sizes are missing, they come from there.
    ValueError where it has none either, or where the part cannot be loaded alone.
    """
    if not is_wrapper(data):
        return dict(data)
    if (why := why_refused(data)) is not None:
        raise ValueError(why)
    part = data.get("text_config")
    text = dict(part) if isinstance(part, dict) else {**data, "model_type": f"{data['model_type']}_text"}
    kind = _SAME_WITHOUT_IMAGES.get(str(text.get("model_type")), text.get("model_type"))
    optional = {"head_dim"} if kind == "qwen2" else set()  # which has no such setting
    missing, said = _SIZES - text.keys() - optional, [part[_TIED] for part in (data, text) if _TIED in part]
    if missing or not said:
        usual, tied = _defaults(data)
        text |= {size: value for size, value in usual.items() if size in missing}
        said = said or [tied]
    return {**text, "model_type": kind, _TIED: any(said)}


def _defaults(data: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """transformers' settings of the text part, and whether its embeddings are tied."""
    from transformers import AutoConfig

    try:
        config = AutoConfig.for_model(**deepcopy(dict(data)))
        return config.get_text_config().to_dict(), _tied(config)
    except Exception as error:  # whatever a wrong configuration makes transformers raise
        raise ValueError(f"its text_config is incomplete: {error}") from error


def _tied(config: PreTrainedConfig) -> bool:
    return any(getattr(part, _TIED, None) for part in (config, config.get_text_config()))


def text_config(config: PreTrainedConfig) -> PreTrainedConfig:
    """The configuration of the text model alone, of a wrapper in `WRAPPERS`.

    What the wrapper says for both (type of numbers, quantization, end of text, tied embeddings) comes along. Where
    either says that the embeddings are tied, the tensors decide: transformers ties them if the files hold one matrix.
    """
    from transformers import AutoConfig

    text, tied = config.get_text_config(), _tied(config)
    if same := _SAME_WITHOUT_IMAGES.get(text.model_type):
        settings = text.to_dict()
        rope = {key: value for key, value in settings["rope_parameters"].items() if key not in _SECTIONS}
        text = AutoConfig.for_model(**{**settings, "model_type": same, "rope_parameters": rope})
    if text.dtype is None:
        text.dtype = config.dtype
    if (quantization := getattr(config, "quantization_config", None)) is not None:
        text.quantization_config = quantization
    if (ends := getattr(config, "eos_token_id", None)) is not None:
        text.eos_token_id = ends
    text.tie_word_embeddings = tied
    return text


def text_name(name: str) -> str | None:
    """What a tensor of a wrapper's files is called in the text model; None for one of a tower."""
    if not _TEXT.match(name):
        return None
    for pattern, replacement in KEY_MAPPING.items():
        name = re.sub(pattern, replacement, name)
    return name
