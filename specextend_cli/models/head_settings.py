"""The config.json of an EAGLE head, whichever program wrote it.

Types and ranges are checked: read loosely, `"norm_output": "false"` would be true.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from specextend_cli.errors import ModelError
from specextend_cli.models.checkpoint import read_object, reason

Size: TypeAlias = Annotated[int, Field(gt=0, lt=1 << 31)]
Positive: TypeAlias = Annotated[float, Field(gt=0)]

_NESTED = (
    "norm_before_residual",
    "norm_before_fc",
    "fc_norm",
    "norm_output",
    "eagle_aux_hidden_state_layer_ids",
    "use_aux_hidden_state",
)
"""Keys that some programs write at the top and others into the table `eagle_config`."""
_ROPE_NEEDS = {"linear": ("factor",), "yarn": ("factor",), "llama3": ("factor", "low_freq_factor", "high_freq_factor")}
_LLAMA_LIKE = ("llama", "mistral", "qwen2", "qwen3")
_LEAST_WINDOW = 128  # tokens; what is pending and a draft tree or a block have to fit
_OF_PICTURES = ("mrope_section", "mrope_interleaved")  # positions of text are the same in all sections
_OTHERS = {
    "dflash": "DFlash",
    "dspark": "DSpark",
    "domino": "Domino",
    "medusa": "Medusa",
    "mtp": "multi-token prediction",
    "mlp_speculator": "MLP speculator",
}
"""Draft models that are no EAGLE heads, by a part of their names."""


class _Rope(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)
    __pydantic_extra__: dict[str, bool | int | float | str]

    rope_type: Literal["default", "linear", "yarn", "llama3", "dynamic"] = "default"
    rope_theta: float = Field(default=10000.0, gt=1)
    factor: Positive | None = None
    low_freq_factor: Positive | None = None
    high_freq_factor: Positive | None = None
    beta_fast: Positive | None = None
    beta_slow: Positive | None = None
    mscale: Positive | None = None
    original_max_position_embeddings: Size | None = None
    partial_rotary_factor: float | None = Field(default=None, ge=1, le=1)  # only whole heads are rotated here


class HeadSettings(BaseModel):
    """What the configuration says; None where it says nothing. Keys that do not matter here are ignored."""

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)

    architectures: Any = None
    speculators_model_type: Any = None
    model_type: Any = None
    layer_types: Any = None
    sliding_window: Any = None
    attention_chunk_size: Any = None
    quantization_config: Any = None
    compression_config: Any = None
    kv_lora_rank: Any = None
    rope_parameters: dict[str, Any] | None = None
    rope_scaling: dict[str, Any] | None = None
    rope_theta: Any = None
    partial_rotary_factor: float | None = Field(default=None, ge=1, le=1)
    hidden_size: Size | None = None
    target_hidden_size: Size | None = None
    intermediate_size: Size | None = None
    num_attention_heads: Size | None = None
    num_key_value_heads: Size | None = None
    num_hidden_layers: Size | None = None
    head_dim: Size | None = None
    vocab_size: Size | None = None
    draft_vocab_size: Size | None = None
    max_position_embeddings: Size | None = None
    rms_norm_eps: float | None = Field(default=None, gt=0, lt=1)
    hidden_act: str | None = None
    norm_before_residual: bool | None = None
    norm_before_fc: bool | None = None
    fc_norm: bool | None = None
    norm_output: bool | None = None
    tie_word_embeddings: bool | None = None
    bias: bool | None = None
    attention_bias: bool | None = None
    mlp_bias: bool | None = None
    qkv_bias: bool | None = None
    use_sliding_window: bool | None = None
    eagle_aux_hidden_state_layer_ids: list[int] | None = None
    target_layer_ids: list[Annotated[int, Field(ge=0)]] | None = None
    num_aux_hidden_states: Size | None = None
    use_aux_hidden_state: bool | None = None
    logit_scale: Positive | None = None
    feeds_normed: bool | None = None

    @classmethod
    def read(cls, directory: Path) -> HeadSettings:
        """Of the head in `directory`; ModelError where its configuration cannot be read or says something impossible.

        speculators keeps the sizes of the decoder layer in a table `transformer_layer_config`.
        """
        data, layer, eagle = read_tables(directory, "eagle_config")
        if "use_aux_norm" in data:  # its older name
            data.setdefault("fc_norm", data["use_aux_norm"])
        parts = ({key: eagle[key] for key in _NESTED if key in eagle}, layer, data)
        with describing(directory, "an EAGLE head"):
            return cls(**{key: value for part in parts for key, value in part.items() if value is not None})

    @property
    def is_eagle3(self) -> bool:
        """Whether it says that the head is an EAGLE-3 one; SafeAILab's own do not all say so."""
        return "eagle3" in json.dumps(self.architectures).lower() or self.speculators_model_type in ("eagle3", "peagle")

    @property
    def named_states(self) -> int:
        """How many of the target's states an EAGLE-3 head reads; 0 where it does not say."""
        if self.use_aux_hidden_state is False:
            return 1
        ids = self.target_layer_ids or self.eagle_aux_hidden_state_layer_ids or ()
        return len(ids) or self.num_aux_hidden_states or 0

    @property
    def is_speculators(self) -> bool:
        """Whether the library `speculators` wrote it."""
        return self.speculators_model_type is not None

    def window(self, layers: int) -> int | None:
        """The newest tokens that its layers attend to, None for all; ValueError where they differ.

        A window without a list of layers, or a word that it is used, means something to speculators alone: others copy
        it from the target's configuration, and their layers ignore it.
        """
        kinds, size = self.layer_types, self.sliding_window
        if kinds is None:
            is_used = self.use_sliding_window
            if not (size is not None and (self.is_speculators if is_used is None else is_used)):
                return None
        elif not isinstance(kinds, list) or any(
            kind not in ("full_attention", "sliding_attention") or kind != kinds[0] for kind in kinds[:layers]
        ):
            raise ValueError(
                f"layer_types is {kinds!r:.60}; layers of one kind, full_attention or sliding_attention, are supported"
            )
        elif kinds[:1] != ["sliding_attention"]:
            return None
        return self.checked_window()

    def checked_window(self) -> int:
        """`sliding_window`; ValueError where it is no number of tokens, or too small."""
        size = self.sliding_window
        if type(size) is not int or size < _LEAST_WINDOW:
            raise ValueError(f"its sliding_window is {size!r:.60}; {_LEAST_WINDOW} tokens at least are supported")
        return size

    def check_supported(self) -> None:
        """ValueError for draft models that are no EAGLE heads, and for layers that are not like Llama's."""
        names = json.dumps((self.architectures, self.speculators_model_type)).lower()
        if other := next((name for part, name in _OTHERS.items() if part in names), None):
            raise ValueError(f"it is a draft model of the kind {other}; only EAGLE heads are read")
        if self.attention_chunk_size is not None:
            raise ValueError("it attends within chunks; only full attention and sliding windows are supported")
        if self.kv_lora_rank is not None:
            raise ValueError("its attention keeps a compressed cache (MLA); only Llama's layers are supported")
        # Others write "llama", or leave the target's kind, which says nothing about the head.
        if (self.is_speculators or self.target_layer_ids) and self.model_type not in (None, *_LLAMA_LIKE):
            raise ValueError(f"its layers are of the kind {self.model_type!r:.60}; only Llama's are supported")

    def rope(self) -> dict[str, Any]:
        """transformers' `rope_parameters`. The base is 10,000 unless the head says otherwise, whatever the target's is.

        ValueError for an unknown kind, and for values from which no angle can be computed.
        """
        own = self.rope_parameters or self.rope_scaling or {}
        # transformers may keep one for each kind of layer. A head has one kind; speculators takes this order.
        kinds = (own.get(kind) for kind in ("sliding_attention", "full_attention"))
        own = next((each for each in kinds if isinstance(each, dict)), own)
        table = {"rope_theta": self.rope_theta, **own}
        given = {key: value for key, value in table.items() if value is not None and key not in _OF_PICTURES}
        if "type" in given:
            given["rope_type"] = given.pop("type")
        if given.get("rope_type") == "mrope":
            given["rope_type"] = "default"
        rope = _Rope(**given)
        if missing := next((key for key in _ROPE_NEEDS.get(rope.rope_type, ()) if getattr(rope, key) is None), None):
            raise ValueError(f"its position encoding is {rope.rope_type} and has no {missing}")
        if rope.rope_type == "dynamic":
            # Its angles change with the length read so far; cached keys cannot follow. Working sets keep it in range.
            return {"rope_type": "default", "rope_theta": rope.rope_theta}
        return rope.model_dump(exclude_none=True)


def read_tables(directory: Path, name: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The config.json of the head in `directory`, its table `transformer_layer_config`, and that called `name`.

    ModelError where it cannot be read.
    """
    try:
        data = read_object(directory / "config.json")
        tables = {key: data.get(key) for key in ("transformer_layer_config", name)}
        for key, table in tables.items():
            if not isinstance(table, dict | None):
                raise ValueError(f"its {key} is not an object")
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot read the head's config.json in {directory}", why=str(error)) from error
    layer, own = (table or {} for table in tables.values())
    return data, layer, own


@contextmanager
def describing(directory: Path, what: str) -> Iterator[None]:
    """ModelError for a configuration that says something impossible of `what`."""
    try:
        yield
    except ValueError as error:
        fault = f"the head in {directory} cannot be used: its config.json does not describe {what}"
        raise ModelError(fault, why=reason(error)) from error
