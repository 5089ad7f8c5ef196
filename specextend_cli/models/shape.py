"""Sizes of models, stated by a preset or counted in files, and the memory that follows from them.

Needs neither torch nor weights: memory is estimated before anything is fetched.
"""

from __future__ import annotations

import re
from math import prod
from pathlib import Path
from typing import Any

from pydantic import Field

from specextend_cli.errors import ModelError
from specextend_cli.models.checkpoint import checked_weights, read_object, weight_files
from specextend_cli.models.source_kinds import Table

_LAYER_MATRIX = re.compile(r"(^|\.)layers\.\d+\.(?!.*\.experts\.).*weight$")
_UNLIKE = ("text_config", "per_layer_config", "global_head_dim", "linear_num_value_heads", "conv_L_cache")
"""Keys of configurations with layers of several kinds, or a text model as a part: only a preset has their sizes."""

HEADROOM = 0.92
"""The share of a device's memory that a preset may need; the rest is for the driver and fragmentation."""
GRAPHS = 256 << 20
"""Bytes that CUDA graphs of a pair keep. Counted by shapes they are 70 to 730 MB; headroom has the rest."""
PREFILL = 1024
"""Tokens of the smallest prefill step, which bound its activations."""
_ACTIVATIONS = 16  # widths of the model that a layer computes of a token: 8 to 23 in the presets, whose median it is


class Sizes(Table):
    """Of a draft: `weights` is how many numbers it has, `cached` how many a token adds to its cache of keys and values.

    An assistant adds none: it attends to its target's.
    """

    weights: int = Field(gt=0)
    cached: int = Field(default=0, ge=0)


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
    def of(cls, directory: Path) -> Shape | None:
        """Of a model on disk; None where its config.json does not say, or its layers are not all alike."""
        try:
            config = read_object(directory / "config.json")
            matrices = [sizes for name, sizes in _tensors(directory).items() if _LAYER_MATRIX.search(name)]
            linear = sum(prod(sizes) for sizes in matrices if len(sizes) == 2)
            unlike = any(key in config for key in _UNLIKE)
            return None if unlike else cls.from_config(config, count_weights(directory), linear=linear)
        except (OSError, LookupError, TypeError, ValueError, ArithmeticError):  # loading it says so
            return None

    @classmethod
    def from_config(cls, config: dict[str, Any], weights: int, *, linear: int = 0) -> Shape:
        """From a config.json of layers that all attend. LookupError, ValueError or the like: it has no such sizes."""
        heads = config.get("num_key_value_heads") or config["num_attention_heads"]
        width = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
        layers = config["num_hidden_layers"]
        hidden, vocab = config["hidden_size"], config["vocab_size"]
        cached = 2 * layers * heads * width
        return cls(weights=weights, linear=linear, cached=cached, layers=layers, hidden=hidden, vocab=vocab)

    def weight_bytes(self, item: int = 2, quantization: str = "none") -> int:
        """Bytes of the weights, `item` bytes a number; matrices in "nf4" take half a byte and a scale every 64."""
        if quantization == "none":
            return self.weights * item
        return (self.weights - self.linear) * item + self.linear // 2 + 4 * self.linear // 64

    def prefill_bytes(self, tokens: int, item: int, *, keeps_states: bool) -> int:
        """Activations of a prefill step of so many tokens in one layer; with all layers' states where a draft reads."""
        return tokens * item * self.hidden * (_ACTIVATIONS + (self.layers + 1 if keeps_states else 0))


def count_weights(directory: Path) -> int:
    """Numbers in the files of weights of a directory; of files without their sizes, of two bytes each."""
    by_size = sum(file.stat().st_size for file in weight_files(directory)) // 2
    return sum(map(prod, _tensors(directory).values())) or max(by_size, 1)


def _tensors(directory: Path) -> dict[str, tuple[int, ...]]:
    """The sizes of the tensors in safetensors files, by name; none where they are in other files, or damaged."""
    try:
        headers = checked_weights(directory, "").values()
        return {name: tuple(map(int, entry["shape"])) for header in headers for name, entry in header.items()}
    except (ModelError, LookupError, TypeError, ValueError):  # loading it says so
        return {}
