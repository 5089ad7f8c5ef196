"""The config.json of a block head (DFlash, DSpark), whichever program wrote it: z-lab, DeepSpec, speculators, ModelOpt.

They put the same facts at the top, in a table `dflash_config` or beside `transformer_layer_config`. Facts that are
given twice have to agree.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from specextend_cli.models.checkpoint import read_object
from specextend_cli.models.head_settings import HeadSettings, Size, describing, read_tables

_RENAMED = {
    "aux_hidden_state_layer_ids": "state_ids",
    "use_confidence_head": "enable_confidence_head",
    "shift_label": "sample_from_anchor",
}
_TABLE = "dflash_config"
_UNREAD = {
    "attention_sink_bias": "its attention has sinks",
    "linear_context": "its context is a recurrent memory",
    "selector_rank": "it is DFlash 2, which has convolutions and a selector",
    "conv_kernel_size": "it is DFlash 2, which has convolutions and a selector",
    "embed_scale": "it scales its embeddings",
    "input_embedding_scale": "it scales its embeddings",
}
"""Keys of what is not computed here, and why."""


class BlockSettings(HeadSettings):
    """What the configuration says; None where it says nothing.

    `target_layer_ids` count layers whose output is read, -1 being the embedding; `state_ids` the states themselves, as
    transformers does. `sample_from_anchor`: every row predicts the token after it.
    """

    block_size: Annotated[int, Field(ge=1, le=64)] | None = None
    mask_token_id: Annotated[int, Field(ge=0)] | None = None
    num_target_layers: Size | None = None
    target_layer_ids: list[Annotated[int, Field(ge=-1)]] | None = None
    state_ids: list[Annotated[int, Field(ge=0)]] | None = None
    sample_from_anchor: bool | None = None
    causal: bool | None = None
    sliding_window_non_causal: bool | None = None
    markov_rank: Annotated[int, Field(ge=0, le=1 << 16)] | None = None
    markov_head_type: Literal["vanilla", "gated", "rnn"] | None = None
    enable_confidence_head: bool | None = None
    confidence_head_with_markov: bool | None = None
    unread: str | None = None

    @classmethod
    def read(cls, directory: Path) -> BlockSettings:
        """Of the head in `directory`; ModelError where its configuration cannot be read or contradicts itself."""
        data, *tables = read_tables(directory, _TABLE)
        own, layer, table = map(_plain, (data, *tables))
        known = set(cls.model_fields)
        with describing(directory, "a DFlash or DSpark head"):
            for key in table.keys() & own.keys() & known:
                if table[key] != own[key]:
                    raise ValueError(f"config.json says {key} {own[key]!r:.60}, its {_TABLE} {table[key]!r:.60}")
            given = {**layer, **own, **table}
            if why := next((why for key, why in _UNREAD.items() if given.get(key)), None):
                given["unread"] = why
            return cls(**{key: value for key, value in given.items() if key in known})

    @property
    def all_rows_predict(self) -> bool:
        """Whether the last token's own row predicts, as DeepSpec's and DSpark's do and z-lab's do not.

        DeepSpec has its ids at the top, under its own architectures; speculators and ModelOpt say so themselves.
        """
        if self.sample_from_anchor is not None:
            return self.sample_from_anchor
        names = json.dumps((self.architectures, self.speculators_model_type)).lower()
        return "dspark" in names

    def windows(self, layers: int) -> tuple[int | None, ...]:
        """The newest tokens that each layer attends to, None for all; ValueError for kinds of layers unknown here."""
        kinds, size = self.layer_types, self.sliding_window
        if kinds is None:
            kinds = ["sliding_attention" if self.use_sliding_window and size else "full_attention"] * layers
        if (
            not isinstance(kinds, list)
            or len(kinds) < layers
            or not all(kind in ("full_attention", "sliding_attention") for kind in kinds[:layers])
        ):
            raise ValueError(f"layer_types is {kinds!r:.60}; full_attention and sliding_attention are supported")
        slides = [kind == "sliding_attention" for kind in kinds[:layers]]
        return tuple(self.checked_window() if one else None for one in slides)

    def causality(self, windows: tuple[int | None, ...]) -> tuple[bool, ...]:
        """Whether each layer's rows see only themselves and those before: by default those with windows."""
        if self.causal is not None:
            return (self.causal,) * len(windows)
        return tuple(window is not None and not self.sliding_window_non_causal for window in windows)

    def rope(self) -> dict[str, Any]:
        """See `HeadSettings`; ValueError also where layers of two kinds are turned differently."""
        own = self.rope_parameters or {}
        kinds = [own[kind] for kind in ("sliding_attention", "full_attention") if isinstance(own.get(kind), dict)]
        if any(one != kinds[0] for one in kinds):
            raise ValueError("its layers with and without windows have different position encodings")
        return super().rope()

    def check_supported(self) -> None:
        """ValueError for what is computed otherwise here."""
        names = json.dumps((self.architectures, self.model_type)).lower()
        if "dflash2" in names:
            raise ValueError(_UNREAD["selector_rank"])
        for family in ("gemma", "gpt_oss", "gptoss", "deepseek", "mimo"):
            if family in names:
                raise ValueError(f"its layers are of the kind {family}; only Qwen3's are supported in block heads")
        if self.unread is not None:
            raise ValueError(self.unread)
        if self.attention_chunk_size is not None or self.kv_lora_rank is not None:
            raise ValueError("it attends within chunks, or to a compressed cache (MLA)")


def is_block_head(directory: Path) -> bool:
    """Whether the config.json in `directory` is that of a DFlash or DSpark head; False where it cannot be read."""
    try:
        data = read_object(directory / "config.json")
    except (OSError, ValueError):
        return False
    names = json.dumps([data.get("architectures"), data.get("speculators_model_type")]).lower()
    return "dflash" in names or "dspark" in names or isinstance(data.get(_TABLE), dict)


def _plain(table: dict[str, Any]) -> dict[str, Any]:
    """Without keys that say nothing, under one name each."""
    return {_RENAMED.get(key, key): value for key, value in table.items() if value is not None}
