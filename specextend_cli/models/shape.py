"""Sizes of models, from their configurations, and the memory that follows from them.

Needs neither torch nor weights: memory is estimated before anything is fetched.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from specextend_cli.errors import ModelError
from specextend_cli.models.checkpoint import read_header, read_settings, reason, weight_files
from specextend_cli.models.gemma4_shape import KINDS as GEMMA_4
from specextend_cli.models.gemma4_shape import gemma4_numbers
from specextend_cli.models.source_kinds import Table
from specextend_cli.models.state_shape import attending_layers, recurrence_weights, state_numbers
from specextend_cli.models.text_part import is_wrapper, text_settings

_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
_GATED = ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text")
_QK_NORMED = ("qwen3", "qwen3_moe", "lfm2", "lfm2_moe", *_GATED)


class Shape(Table):
    """A Llama-like model: grouped-query attention, gated MLP, RMS norms.

    Counts are exact for Llama, Mistral, Qwen2-3, Qwen3.5 and LFM2. `tied`: the output head is the embedding.
    `qkv_bias`: Qwen2. `qk_norm`: Qwen3. `gated`: attention's outputs are multiplied by a gate (Qwen3.5). `experts`:
    MLPs of `intermediate` in each layer, of which `active` compute a token; 0 where there is one MLP and no router.
    `attending`: layers with keys in the cache, None for all; `state`: numbers of a sequence's states in the others;
    `recurrence`: weights of each of those in the place of attention's, 0 where that is not known (`state_shape.py`).
    `weights`, `linear` and `cached`: all weights, those in the layers' matrices, and numbers of a token in the cache,
    where layers differ (`gemma4_shape.py`); 0: they follow from the other sizes.
    """

    layers: int = Field(gt=0)
    hidden: int = Field(gt=0)
    heads: int = Field(gt=0)
    kv_heads: int = Field(gt=0)
    head_dim: int = Field(gt=0)
    intermediate: int = Field(gt=0)
    vocab: int = Field(gt=0)
    tied: bool = False
    qkv_bias: bool = False
    qk_norm: bool = False
    gated: bool = False
    experts: int = Field(default=0, ge=0)
    active: int = Field(default=1, gt=0)
    attending: int | None = Field(default=None, ge=0)
    state: int = Field(default=0, ge=0)
    recurrence: int = Field(default=0, ge=0)
    weights: int = Field(default=0, ge=0)
    linear: int = Field(default=0, ge=0)
    cached: int = Field(default=0, ge=0)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Shape:
        """From the contents of a config.json, of its text part where it has one; ModelError: no or impossible sizes."""
        try:
            config = text_settings(config)
            heads, hidden, family = config["num_attention_heads"], config["hidden_size"], config["model_type"]
            experts = next((config[key] for key in _EXPERTS if config.get(key)), 0)
            inner = config.get("moe_intermediate_size") if experts else None
            return cls(
                layers=config["num_hidden_layers"],
                hidden=hidden,
                heads=heads,
                kv_heads=config.get("num_key_value_heads") or heads,
                head_dim=config.get("head_dim") or hidden // heads,
                intermediate=inner or _intermediate(config),
                vocab=config["vocab_size"],
                tied=config.get("tie_word_embeddings", config.get("tie_embedding", family == "lfm2")),
                qkv_bias=family == "qwen2",
                qk_norm=family in _QK_NORMED,
                gated=family in _GATED,
                experts=experts,
                active=(config.get("num_experts_per_tok") or 1) if experts else 1,
                attending=attending if (attending := attending_layers(config)) < config["num_hidden_layers"] else None,
                state=state_numbers(config),
                recurrence=recurrence_weights(config),
                **(gemma4_numbers(config) if family in GEMMA_4 else {}),
            )
        except (LookupError, TypeError, ValueError, ArithmeticError) as error:
            what, fix = "the model's config.json does not describe a text model", "specextend models list shows others"
            raise ModelError(what, why=reason(error), fix=fix) from error

    @classmethod
    def of(cls, directory: Path) -> Shape:
        """Of a model in transformers' layout."""
        config = read_settings(directory / "config.json")
        shape = cls.from_config(config)
        if is_wrapper(config) and (names := tensor_names(directory)):
            tied = not any(name.endswith("lm_head.weight") for name in names)
            return shape.model_copy(update={"tied": tied})  # configurations of wrapper and text model differ
        return shape

    @property
    def attending_layers(self) -> int:
        """Layers with keys and values in the cache."""
        return self.layers if self.attending is None else self.attending

    @property
    def parameters(self) -> int:
        """Number of weights."""
        if self.weights:
            return self.weights
        mixing = self.attending_layers * self._attention + (self.layers - self.attending_layers) * self._recurrence
        return mixing + self.layers * self._rest + self.hidden + self.vocab * self.hidden * (1 if self.tied else 2)

    @property
    def prediction_parameters(self) -> int:
        """Number of weights of a multi-token prediction layer: one that attends, a matrix before it, three norms."""
        return 2 * self.hidden**2 + 3 * self.hidden + self._attention + self._rest

    @property
    def linear_parameters(self) -> int:
        """Number of weights in the layers' matrices, which quantization applies to; experts are none of these."""
        if self.linear:
            return self.linear
        mixing = self.attending_layers * self._projections + (self.layers - self.attending_layers) * self._recurrence
        return mixing + self.layers * (0 if self.experts else self._mlp)

    @property
    def active_intermediate(self) -> int:
        """Width of the MLPs that compute one token."""
        return self.active * self.intermediate

    @property
    def _projections(self) -> int:
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return self.hidden * ((3 if self.gated else 2) * q + 2 * kv)

    @property
    def _attention(self) -> int:
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return self._projections + self.qkv_bias * (q + 2 * kv) + self.qk_norm * 2 * self.head_dim

    @property
    def _recurrence(self) -> int:
        return self.recurrence or self._attention

    @property
    def _rest(self) -> int:
        """Of a layer, without what mixes tokens: its MLP or experts, and norms."""
        return self._mlp + self.experts * self.hidden + 2 * self.hidden

    @property
    def _mlp(self) -> int:
        return 3 * self.hidden * self.intermediate * max(self.experts, 1)

    def weight_bytes(self, item: int = 2, quantization: str = "none") -> int:
        """Bytes of the weights, `item` bytes a number; matrices in "nf4" take half a byte and a scale every 64."""
        if quantization == "none":
            return self.parameters * item
        linear = self.linear_parameters
        return (self.parameters - linear) * item + linear // 2 + 4 * linear // 64

    def kv_bytes_per_token(self, item: int = 2) -> int:
        """Bytes that one token adds to the cache: keys and values of every layer that attends."""
        return self.cached * item or self.attending_layers * self.layer_kv_bytes_per_token(item)

    def layer_kv_bytes_per_token(self, item: int = 2) -> int:
        """Bytes that one token adds to the cache of one layer that attends."""
        return 2 * self.kv_heads * self.head_dim * item

    @property
    def state_bytes(self) -> int:
        """Bytes of one sequence's states, whatever its length; they are in single precision."""
        return 4 * self.state


def _intermediate(config: dict[str, Any]) -> int:
    """Width of the MLPs; LFM2's configurations say one and a half times as much, before it is rounded up."""
    width = int(config.get("block_ff_dim") or config["intermediate_size"])
    if config["model_type"] != "lfm2" or not config.get("block_auto_adjust_ff_dim", True):
        return width
    width, multiple = int(2 * width / 3), config.get("block_multiple_of", 256)
    if (factor := config.get("block_ffn_dim_multiplier", 1.0)) is not None:
        width = multiple * -(-int(factor * width) // multiple)
    return width


def tensor_names(directory: Path) -> list[str]:
    """The tensors of safetensors files; none where they are not known."""
    return [name for file in weight_files(directory) if file.suffix == ".safetensors" for name in read_header(file)]
