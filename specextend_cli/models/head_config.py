"""The config.json of an EAGLE head, whichever program wrote it, read as a `HeadConfig`.

SafeAILab (EAGLE-1, -2, -3), AngelSlim, SpecForge, speculators and DeepSpec name the same tensors and sizes differently,
and leave different things out. Types and ranges are checked: read loosely, `"norm_output": "false"` would be true. What
contradicts the tensors is refused: a head loaded wrongly would draft at random. Needs neither torch nor weights.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from specextend_cli.engine.head_config import HeadConfig
from specextend_cli.models.checkpoint import read_object, usable

Size: TypeAlias = Annotated[int, Field(gt=0, lt=1 << 31)]
Layers: TypeAlias = list[Annotated[int, Field(ge=0)]]
Shapes: TypeAlias = Mapping[str, Sequence[int]]
"""Of tensors by their names here."""

_FITTING = "use the head that was trained for this target, in a published EAGLE or EAGLE-3 layout, not quantized"
_TABLES = ("transformer_layer_config", "eagle_config")
_ROPE_NEEDS = {
    "default": (),
    "linear": ("factor",),
    "yarn": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
}
_LLAMA_LIKE = ("llama", "mistral", "qwen2", "qwen3")
_MOST_LAYERS = 8  # a head of more would be a model
_OTHERS = ("dflash", "dspark", "domino", "medusa", "mtp", "mlp_speculator", "peagle")
"""Parts of the names of draft models that are no EAGLE heads."""
ASSISTANTS = ("gemma4_assistant", "gemma4_unified_assistant")
"""Values of `model_type` of assistant models, which are none either."""
_RENAMED = (
    (re.compile(r"^(model|eagle_module)\."), ""),
    (re.compile(r"^midlayer\."), "layers.0."),
    (re.compile(r"^embed_tokens\."), "embedding."),
    (re.compile(r"^d2t$"), "draft_to_target"),
)
_LAYER = re.compile(r"layers\.(\d{1,3})\.")


class PublishedHead(BaseModel):
    """What the configuration says; None where it says nothing. Keys that do not matter here are ignored."""

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)

    architectures: Any = None
    speculators_model_type: Any = None
    model_type: Any = None
    layer_types: list[Literal["full_attention", "sliding_attention"]] | None = None
    attention_chunk_size: None = None
    rope_parameters: dict[str, Any] | None = None
    rope_scaling: dict[str, Any] | None = None
    rope_theta: Any = None
    partial_rotary_factor: Any = None
    hidden_size: Size
    target_hidden_size: Size | None = None
    intermediate_size: Size
    num_attention_heads: Size
    num_key_value_heads: Size | None = None
    num_hidden_layers: Size | None = None
    head_dim: Size | None = None
    vocab_size: Size
    draft_vocab_size: Size | None = None
    max_position_embeddings: Size | None = None
    rms_norm_eps: float | None = Field(default=None, gt=0, lt=1)
    hidden_act: Literal["silu"] | None = None
    norm_before_residual: bool | None = None
    norm_before_fc: bool | None = None
    fc_norm: bool | None = None
    norm_output: bool | None = None
    tie_word_embeddings: bool | None = None
    bias: bool | None = None
    qkv_bias: bool | None = None
    eagle_aux_hidden_state_layer_ids: Layers | None = None
    target_layer_ids: Layers | None = None
    use_aux_hidden_state: bool | None = None
    logit_scale: float | None = Field(default=None, ge=1, le=1)
    feeds_normed: bool | None = None

    @classmethod
    def read(cls, directory: Path) -> PublishedHead:
        """Of the head in `directory`; ModelError where its configuration cannot be read or says something impossible.

        speculators keeps the sizes of the decoder layer in a table `transformer_layer_config`; some programs write into
        a table `eagle_config` what others have at the top.
        """
        with usable(f"cannot read the head's config.json in {directory}"):
            data = read_object(directory / "config.json")
            for name in _TABLES:
                if not isinstance(data.get(name), dict | None):
                    raise ValueError(f"its {name} is not an object")
        layer, eagle = (data.get(name) or {} for name in _TABLES)
        parts = eagle, layer, data
        with usable_head(directory):
            said = cls(**{key: value for part in parts for key, value in part.items() if value is not None})
            said._check_supported()
        return said

    def _check_supported(self) -> None:
        """ValueError for draft models that are no EAGLE heads, and for layers that are not like Llama's."""
        names = json.dumps((self.architectures, self.speculators_model_type)).lower()
        if other := next((name for name in _OTHERS if name in names), None):
            raise ValueError(f"it is a draft model of the kind {other}; only EAGLE heads are read")
        if self.use_aux_hidden_state is False:
            raise ValueError("it reads the target's last state as it is; only those that fuse states are read")
        # Others write "llama", or leave the target's kind, which says nothing about the head.
        if (self.is_speculators or self.target_layer_ids) and self.model_type not in (None, *_LLAMA_LIKE):
            raise ValueError(f"its layers are of the kind {self.model_type!r:.60}; only Llama's are supported")

    @property
    def is_speculators(self) -> bool:
        """Whether the library `speculators` wrote it."""
        return self.speculators_model_type is not None

    @property
    def cached(self) -> int:
        """Numbers that one token adds to its cache."""
        heads, width = self.num_attention_heads, self.head_dim or self.hidden_size // self.num_attention_heads
        return 2 * (self._said_layers or 1) * (self.num_key_value_heads or heads) * width

    @property
    def _said_layers(self) -> int | None:
        """Decoder layers. A configuration that says more than a head has is a copy of the target's."""
        return self.num_hidden_layers if (self.num_hidden_layers or 0) <= _MOST_LAYERS else None

    def config(self, shapes: Shapes) -> HeadConfig:
        """The head's, whose target is not known yet. ValueError where tensors and configuration contradict each other.

        What a checkpoint is, its tensors say.
        """
        hidden, heads, width = self.hidden_size, self.num_attention_heads, self.target_hidden_size or self.hidden_size
        kv_heads = self.num_key_value_heads or heads
        if hidden % heads or heads % kv_heads:
            raise ValueError(f"{hidden} numbers do not divide among {heads} heads, or these among {kv_heads} with keys")
        reads = shapes["layers.0.self_attn.q_proj.weight"][-1]
        is_third = reads == 2 * hidden
        says_third = "eagle3" in json.dumps(self.architectures).lower() or self.speculators_model_type == "eagle3"
        if says_third and not is_third:  # SafeAILab's own do not all say so
            raise ValueError(f"its first layer reads {reads} numbers, an EAGLE-3 head's reads {2 * hidden}")
        has_own = is_third and "lm_head.weight" in shapes
        if is_third and not has_own and self.tie_word_embeddings:
            raise ValueError("its output layer is its embedding, and only those with one of their own are read")
        return HeadConfig(
            generation=3 if is_third else 1,
            layers=self._layers(shapes),
            hidden=hidden,
            target_hidden=width,
            fused=shapes["fc.weight"][-1] // width if is_third else 1,
            heads=heads,
            kv_heads=kv_heads,
            head_dim=self.head_dim or hidden // heads,
            intermediate=self.intermediate_size,
            draft_vocab=(self.draft_vocab_size or self.vocab_size) if has_own else 0,
            embedding=self.vocab_size if "embedding.weight" in shapes else 0,
            eps=self.rms_norm_eps or 1e-6,
            rope=self._rope(),
            max_position=self.max_position_embeddings or 2048,
            # What is said and has no tensors is refused as they are loaded.
            fc_bias=self.bias or "fc.bias" in shapes,
            qkv_bias=self.qkv_bias or "layers.0.self_attn.q_proj.bias" in shapes,
            norm_before_fc="input_norm.weight" in shapes if self.norm_before_fc is None else self.norm_before_fc,
            fc_norm="fc_norm.0.weight" in shapes if self.fc_norm is None else self.fc_norm,
            qk_norm="layers.0.self_attn.q_norm.weight" in shapes,
        )

    def readings(self, config: HeadConfig, layers: int) -> tuple[HeadConfig, ...]:
        """`config` for a target of so many layers, in every way that it can be read; the likeliest is the first.

        `heads.probe` decides between them. ValueError where it reads states that the target has not.
        """
        return tuple(
            replace(config, feature_layers=states, feeds_normed=feed, norm_before_residual=normed)
            for states, feed, normed in product(
                self._feature_layers(config, layers), self._feeds_normed(config.fc_norm), self._norm_before_residual()
            )
        )

    def _layers(self, shapes: Shapes) -> int:
        """Decoder layers, as the tensors are numbered."""
        said, numbers = self._said_layers, {int(found[1]) for name in shapes if (found := _LAYER.match(name))}
        if numbers != set(range(len(numbers))) or len(numbers) > _MOST_LAYERS:
            raise ValueError(f"its layers are numbered {sorted(numbers)[:_MOST_LAYERS]}")
        if said not in (None, len(numbers)):
            raise ValueError(f"config.json says num_hidden_layers {said}, it has {len(numbers)}")
        return len(numbers)

    def _feature_layers(self, config: HeadConfig, layers: int) -> tuple[tuple[int, ...], ...]:
        """The states that a head reads, in every reading of its ids.

        An id is a layer's input to some trainers and its output to others, but for DeepSpec's `target_layer_ids`.
        """
        if config.generation == 1:
            return ((layers,),)
        outputs = self.target_layer_ids
        given = tuple(outputs or self.eagle_aux_hidden_state_layer_ids or ())
        if not given:
            if config.fused != 3 or layers < 3:
                raise ValueError(f"it fuses {config.fused} states of {layers} layers and does not say which")
            return (default_layers(layers),)
        if max(given) > layers - bool(outputs):
            raise ValueError(f"it reads layers {given}, the target has {layers}")
        if len(given) != config.fused:
            raise ValueError(f"it names {len(given)} layers and fuses {config.fused} states")
        shifted = tuple(i + 1 for i in given)
        if outputs:
            return (shifted,)
        if max(shifted) > layers:
            return (given,)
        # Ids of outputs begin with 1, those of inputs with 2, where the first state is that after two layers.
        return (shifted, given) if given[0] == 1 and not self.is_speculators else (given, shifted)

    def _feeds_normed(self, fc_norm: bool) -> tuple[bool, ...]:
        """EAGLE-3.1's feedback, in every reading of `norm_output`.

        It is that in speculators, and in SpecForge since September 2026 (pull request 879). SpecForge of August trained
        with the state before the norm, whatever the key says, and wrote it for the norm before lm_head (568); beside
        `fc_norm` it may also have been left out. Our own heads say it by a key of their own.
        """
        if self.feeds_normed is not None:
            return (self.feeds_normed,)
        said = self.norm_output
        if self.is_speculators or said is False or (said is None and not fc_norm):
            return (said or False,)
        return (True, False) if fc_norm and said else (False, True)

    def _norm_before_residual(self) -> tuple[bool, ...]:
        """Left out in speculators' layout it is false to speculators and true to vLLM."""
        said = self.norm_before_residual
        if said is None and self.is_speculators:
            return (True, False)
        return (said or False,)

    def _rope(self) -> dict[str, Any]:
        """transformers' `rope_parameters`. The base is 10,000 unless the head says otherwise, whatever the target's is.

        ValueError for an unknown kind, and for values from which no angle can be computed.
        """
        own = self.rope_parameters or self.rope_scaling or {}
        # transformers may keep one for each kind of layer. A head has one kind; speculators takes this order.
        kinds = (own.get(kind) for kind in ("sliding_attention", "full_attention"))
        own = next((each for each in kinds if isinstance(each, dict)), own)
        table = {"rope_theta": self.rope_theta, "partial_rotary_factor": self.partial_rotary_factor, **own}
        given = {key: value for key, value in table.items() if value is not None}
        rope = {"rope_theta": 10000.0, "rope_type": given.pop("type", "default"), **given}
        if (kind := rope["rope_type"]) not in _ROPE_NEEDS:
            raise ValueError(f"its position encoding is {kind!r:.60}, not {', '.join(_ROPE_NEEDS)}")
        if missing := next((key for key in _ROPE_NEEDS[kind] if key not in rope), None):
            raise ValueError(f"its position encoding is {kind} and has no {missing}")
        for key, value in rope.items():
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if (is_number and not 0 < value < math.inf) or not isinstance(value, (int, float, str)):
                raise ValueError(f"its position encoding says {key} {value!r:.60}")
        if rope["rope_theta"] <= 1 or rope.pop("partial_rotary_factor", 1) != 1:  # only whole heads are rotated here
            raise ValueError(f"its position encoding rotates a part of a head, or by {rope['rope_theta']}")
        return rope


def is_assistant(directory: Path) -> bool:
    """Whether the config.json there describes an assistant model."""
    try:
        return read_object(directory / "config.json").get("model_type") in ASSISTANTS
    except (OSError, ValueError):
        return False


def default_layers(layers: int) -> tuple[int, ...]:
    """The states EAGLE-3 reads where a checkpoint does not say: early, middle and late."""
    return (2, layers // 2, layers - 3)


def renamed(name: str) -> str:
    """What a published tensor is called here."""
    for pattern, new in _RENAMED:
        name = pattern.sub(new, name)
    return name


def usable_head(directory: Path) -> AbstractContextManager[None]:
    """ModelError for a head whose files say something impossible, of itself or for its target."""
    return usable(f"the head in {directory} cannot be used", fix=_FITTING)
