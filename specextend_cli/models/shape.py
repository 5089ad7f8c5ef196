"""The sizes of a decoder-only transformer, from its configuration, and the counts that follow from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from specextend_cli.errors import ModelError
from specextend_cli.models.json_file import read_object


class Shape(BaseModel):
    """A Llama-like model: grouped-query attention, gated MLP, RMS norms. Counts are exact for Llama, Mistral, Qwen2-3.

    `tied`: the output head is the embedding. `qkv_bias`: Qwen2. `qk_norm`: Qwen3.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

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

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Shape:
        """From the contents of a config.json; ModelError where a size is missing or impossible."""
        try:
            if "text_config" in config:
                raise ValueError("it wraps a text model in one that also reads images or sound")
            heads, hidden, family = config["num_attention_heads"], config["hidden_size"], config["model_type"]
            return cls(
                layers=config["num_hidden_layers"],
                hidden=hidden,
                heads=heads,
                kv_heads=config.get("num_key_value_heads") or heads,
                head_dim=config.get("head_dim") or hidden // heads,
                intermediate=config["intermediate_size"],
                vocab=config["vocab_size"],
                tied=config.get("tie_word_embeddings", False),
                qkv_bias=family == "qwen2",
                qk_norm=family == "qwen3",
            )
        except (LookupError, TypeError, ValueError, ArithmeticError) as error:
            why = f"it has no {error}" if isinstance(error, KeyError) else str(error)
            what, fix = "the model's config.json does not describe a text model", "specextend presets list shows others"
            raise ModelError(what, why=why, fix=fix) from error

    @classmethod
    def of(cls, directory: Path) -> Shape:
        """Of a model in transformers' layout."""
        try:
            config = read_object(directory / "config.json")
        except (OSError, ValueError) as error:
            raise ModelError(f"cannot read {directory / 'config.json'}", why=str(error)) from error
        return cls.from_config(config)

    @property
    def parameters(self) -> int:
        """Number of weights."""
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        attention = self.hidden * (2 * q + 2 * kv) + self.qkv_bias * (q + 2 * kv) + self.qk_norm * 2 * self.head_dim
        layer = attention + 3 * self.hidden * self.intermediate + 2 * self.hidden
        return self.layers * layer + self.hidden + self.vocab * self.hidden * (1 if self.tied else 2)

    @property
    def linear_parameters(self) -> int:
        """Number of weights in the layers' matrices: what quantization makes smaller."""
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return self.layers * self.hidden * (2 * q + 2 * kv + 3 * self.intermediate)

    def weight_bytes(self, item: int = 2, quantization: str = "none") -> int:
        """Bytes of the weights, `item` bytes a number; matrices in "nf4" take half a byte and a scale every 64."""
        if quantization == "none":
            return self.parameters * item
        linear = self.linear_parameters
        return (self.parameters - linear) * item + linear // 2 + 4 * linear // 64

    def kv_bytes_per_token(self, item: int = 2) -> int:
        """Bytes that one token adds to the cache: keys and values of every layer."""
        return 2 * self.layers * self.kv_heads * self.head_dim * item
