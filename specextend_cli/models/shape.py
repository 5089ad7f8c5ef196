"""Sizes of models, stated by a preset or counted in files, and the memory that follows from them.

Needs neither torch nor weights: memory is estimated before anything is fetched.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from pydantic import Field

from specextend_cli.errors import ModelError
from specextend_cli.models.checkpoint import read_header, read_settings, reason, weight_files
from specextend_cli.models.model_config import is_wrapper, text_name, text_settings
from specextend_cli.models.source_kinds import Table

_LAYER_MATRIX = re.compile(r"(^|\.)layers\.\d+\.(?!.*\.experts\.).*weight$")
_STATEFUL = ("linear_attention", "conv")  # layers with a state of the whole sequence instead of keys


class Sizes(Table):
    """Of a draft: `weights` is how many numbers it has, `cached` how many a token adds to its cache of keys and values.

    An assistant adds none: it attends to its target's.
    """

    weights: int = Field(gt=0)
    cached: int = Field(default=0, ge=0)

    @classmethod
    def counted(cls, directory: Path, cached: int = 0) -> Sizes:
        """Of a draft on disk; what it caches follows from its configuration."""
        return cls(weights=_weights(directory, _tensors(directory)), cached=cached)


class Shape(Sizes):
    """Of a target. `linear`: weights in the layers' matrices, which quantization applies to; 0 where none are.

    `state`: numbers of one sequence's states, whatever its length, of layers that have them instead of keys.
    """

    layers: int = Field(gt=0)
    hidden: int = Field(gt=0)
    vocab: int = Field(gt=0)
    linear: int = Field(default=0, ge=0)
    state: int = Field(default=0, ge=0)

    @classmethod
    def of(cls, directory: Path) -> Shape:
        """Of a model in transformers' layout, without towers; ModelError: no or impossible sizes."""
        config, tensors = read_settings(directory / "config.json"), _tensors(directory)
        if is_wrapper(config):
            tensors = {name: sizes for name, sizes in tensors.items() if text_name(name) is not None}
        matrices = [sizes for name, sizes in tensors.items() if len(sizes) == 2 and _LAYER_MATRIX.search(name)]
        return cls.from_config(config, _weights(directory, tensors), linear=sum(map(prod, matrices)))

    @classmethod
    def from_config(cls, config: dict[str, Any], weights: int, *, linear: int = 0) -> Shape:
        """From a config.json, of its text part where it has one, and the number of weights; ModelError as `of`."""
        try:
            config = text_settings(config)
            return cls(
                weights=weights,
                linear=linear,
                cached=_cached(config),
                state=_state(config) * sum(kind in _STATEFUL for kind in _layer_types(config)),
                layers=config["num_hidden_layers"],
                hidden=config["hidden_size"],
                vocab=config["vocab_size"],
            )
        except (LookupError, TypeError, ValueError, ArithmeticError) as error:
            what, fix = "the model's config.json does not describe a text model", "specextend models list shows others"
            raise ModelError(what, why=reason(error), fix=fix) from error

    def weight_bytes(self, item: int = 2, quantization: str = "none") -> int:
        """Bytes of the weights, `item` bytes a number; matrices in "nf4" take half a byte and a scale every 64."""
        if quantization == "none":
            return self.weights * item
        return (self.weights - self.linear) * item + self.linear // 2 + 4 * self.linear // 64


def _tensors(directory: Path) -> dict[str, tuple[int, ...]]:
    """The sizes of the tensors in safetensors files, by name; none where they are in other files, or damaged."""
    try:
        headers = [read_header(file) for file in weight_files(directory) if file.suffix == ".safetensors"]
        return {name: tuple(map(int, entry["shape"])) for header in headers for name, entry in header.items()}
    except (ModelError, LookupError, TypeError, ValueError):  # loading it says so
        return {}


def _weights(directory: Path, tensors: Mapping[str, Iterable[int]]) -> int:
    """Those of the tensors; where they are not known, of two bytes each."""
    by_size = sum(file.stat().st_size for file in weight_files(directory)) // 2
    return sum(map(prod, tensors.values())) or max(by_size, 1)


def _cached(config: dict[str, Any]) -> int:
    """Numbers that a token adds: keys and values of every layer that attends to its own.

    The last `num_kv_shared_layers` of Gemma 4's attend to the keys of others.
    """
    layers = config["num_hidden_layers"] - (config.get("num_kv_shared_layers") or 0)
    types = _layer_types(config) or ["full_attention"] * layers
    attending = [(number, kind) for number, kind in enumerate(types[:layers]) if kind not in _STATEFUL]
    return sum(2 * prod(_keys(config, number, kind)) for number, kind in attending)


def _keys(config: dict[str, Any], number: int, kind: str) -> tuple[int, int]:
    """A layer's heads of keys, and their width.

    Gemma 4's layers that attend to everything may have fewer and wider ones: published configurations state both kinds,
    those that transformers saves each layer's.
    """
    heads = config.get("num_key_value_heads") or config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    if layers := config.get("per_layer_config"):
        own = {int(key): changes for key, changes in layers.items()}.get(number, {})
        return own.get("num_key_value_heads", heads), own.get("head_dim", width)
    if kind == "full_attention" and str(config["model_type"]).startswith("gemma4"):
        if config.get("attention_k_eq_v"):
            heads = config.get("num_global_key_value_heads") or heads
        width = config.get("global_head_dim", 512)
    return heads, width


def _layer_types(config: Mapping[str, Any]) -> list[str]:
    """What each layer is, as published configurations say it; [] where they do not: then all attend."""
    layers = int(config["num_hidden_layers"])
    if isinstance(types := config.get("layer_types"), list):
        return [str(kind) for kind in types[:layers]]
    if isinstance(at := config.get("full_attn_idxs"), list):  # LFM2
        return ["full_attention" if layer in at else "conv" for layer in range(layers)]
    if config.get("linear_num_value_heads") is not None:  # Qwen3-Next, Qwen3.5
        every = int(config.get("full_attention_interval") or 4)
        return ["linear_attention" if (layer + 1) % every else "full_attention" for layer in range(layers)]
    return []


def _state(config: Mapping[str, Any]) -> int:
    """Numbers in the state of one layer: of a convolution, of a gated delta net with its convolution."""
    if not isinstance(heads := config.get("linear_num_value_heads"), int):
        return int(config["hidden_size"]) * int(config.get("conv_L_cache", 3))
    key, value = int(config.get("linear_key_head_dim", 128)), int(config.get("linear_value_head_dim", 128))
    channels = 2 * int(config.get("linear_num_key_heads", heads)) * key + heads * value
    return heads * key * value + channels * int(config.get("linear_conv_kernel_dim", 4))


HEADROOM = 0.92
"""The share of a device's memory that a preset may need; the rest is for the driver and fragmentation."""

GRAPHS = 256 << 20
"""Bytes that CUDA graphs of a pair keep. Counted by shapes they are 70 to 730 MB; headroom has the rest."""
PREFILL = 1024
"""Tokens of the smallest prefill step, which bound its activations."""
_STATES = 4 * 4  # bytes a number of states, of four sequences: two that take turns, one that was read last, one more
_ACTIVATIONS = 16  # widths of the model that a layer computes of a token: 8 to 23 in the presets, whose median it is


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes, by use. `workspace` bounds the activations of a prefill step, a tree's logits, and recurrent states.

    Not `complete` where the draft's sizes are unknown until it is fetched, so that it is not counted.
    """

    weights: int
    kv: int
    draft_weights: int
    draft_kv: int
    workspace: int
    complete: bool = True

    @property
    def total(self) -> int:
        """Bytes in all."""
        return self.weights + self.kv + self.draft_weights + self.draft_kv + self.workspace

    def fits(self, memory: int) -> bool | None:
        """Whether it fits so many bytes of a device, leaving headroom. None: not known."""
        room = self.total <= HEADROOM * memory
        return room if self.complete or not room else None


@dataclass(frozen=True, slots=True)
class Footprint:
    """A pair's sizes and number formats (bytes a number); `draft` is None where there is no model, or none is known.

    The draft's working set has at most `working` tokens, a tree `nodes`. `own` says that the target drafts for itself,
    `reads_states` that the draft reads the target's.
    """

    target: Shape
    draft: Sizes | None
    working: int
    nodes: int
    quantization: str = "none"
    item: int = 2
    draft_item: int = 2
    own: bool = False
    reads_states: bool = False
    complete: bool = True

    def at(self, tokens: int) -> Estimate:
        """With a cache of so many tokens."""
        working = min(tokens, self.working)
        draft = self.draft.cached * self.draft_item * (tokens + working) if self.draft else 0
        logits = self.nodes * 2 * 4 * self.target.vocab
        return Estimate(
            weights=self.target.weight_bytes(self.item, self.quantization),
            kv=self.target.cached * self.item * tokens,
            draft_weights=self.draft.weights * self.draft_item if self.draft else 0,
            draft_kv=draft + (self.target.cached * self.item * working if self.own else 0),
            workspace=self.prefill(PREFILL) + logits + _STATES * self.target.state,
            complete=self.complete,
        )

    def prefill(self, tokens: int) -> int:
        """Activations of a prefill step of so many tokens in one layer; with all layers' states where a draft reads."""
        widths = _ACTIVATIONS + (self.target.layers + 1 if self.reads_states else 0)
        return tokens * self.item * self.target.hidden * widths
