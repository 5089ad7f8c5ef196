"""Sizes of models and EAGLE heads, from their configurations, and the memory that follows from them.

Needs neither torch nor weights: memory is estimated before anything is fetched.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from specextend_cli.errors import ModelError
from specextend_cli.models.checkpoint import read_header, read_settings, reason, weight_files
from specextend_cli.models.head_settings import HeadSettings
from specextend_cli.models.state_shape import attending_layers, state_numbers


class Shape(BaseModel):
    """A Llama-like model: grouped-query attention, gated MLP, RMS norms. Counts are exact for Llama, Mistral, Qwen2-3.

    `tied`: the output head is the embedding. `qkv_bias`: Qwen2. `qk_norm`: Qwen3. `attending` (None: all) are the
    layers with keys in the cache, `state` the numbers of a sequence's states in the others (`state_shape.py`).
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
    attending: int | None = Field(default=None, ge=0)
    state: int = Field(default=0, ge=0)

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
                attending=attending if (attending := attending_layers(config)) < config["num_hidden_layers"] else None,
                state=state_numbers(config),
            )
        except (LookupError, TypeError, ValueError, ArithmeticError) as error:
            what, fix = "the model's config.json does not describe a text model", "specextend presets list shows others"
            raise ModelError(what, why=reason(error), fix=fix) from error

    @classmethod
    def of(cls, directory: Path) -> Shape:
        """Of a model in transformers' layout."""
        return cls.from_config(read_settings(directory / "config.json"))

    @property
    def parameters(self) -> int:
        """Number of weights."""
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        attention = self.hidden * (2 * q + 2 * kv) + self.qkv_bias * (q + 2 * kv) + self.qk_norm * 2 * self.head_dim
        layer = attention + 3 * self.hidden * self.intermediate + 2 * self.hidden
        return self.layers * layer + self.hidden + self.vocab * self.hidden * (1 if self.tied else 2)

    @property
    def linear_parameters(self) -> int:
        """Number of weights in the layers' matrices, which quantization applies to."""
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return self.layers * self.hidden * (2 * q + 2 * kv + 3 * self.intermediate)

    def weight_bytes(self, item: int = 2, quantization: str = "none") -> int:
        """Bytes of the weights, `item` bytes a number; matrices in "nf4" take half a byte and a scale every 64."""
        if quantization == "none":
            return self.parameters * item
        linear = self.linear_parameters
        return (self.parameters - linear) * item + linear // 2 + 4 * linear // 64

    def kv_bytes_per_token(self, item: int = 2) -> int:
        """Bytes that one token adds to the cache: keys and values of every layer that attends."""
        return 2 * (self.layers if self.attending is None else self.attending) * self.kv_heads * self.head_dim * item

    @property
    def state_bytes(self) -> int:
        """Bytes of one sequence's states, whatever its length; they are in single precision."""
        return 4 * self.state


class HeadShape(BaseModel):
    """An EAGLE head of Llama layers. Counts are exact for EAGLE-1, EAGLE-3 and the variants in their configurations.

    `generation` 1 joins one state of the target with an embedding; 3 fuses `fused` states of width `target_hidden`
    (None: `hidden`). `draft_vocab` and `embedding` are the rows of its own output layer and embedding, 0 where it uses
    the target's.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    generation: Literal[1, 3] = 3
    layers: int = Field(default=1, gt=0)
    hidden: int = Field(gt=0)
    target_hidden: int | None = Field(default=None, gt=0)
    fused: int = Field(default=3, gt=0)
    heads: int = Field(gt=0)
    kv_heads: int = Field(gt=0)
    head_dim: int = Field(gt=0)
    intermediate: int = Field(gt=0)
    draft_vocab: int = Field(default=0, ge=0)
    embedding: int = Field(default=0, ge=0)
    fc_bias: bool = False
    qkv_bias: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    norm_before_fc: bool = False
    fc_norm: bool = False
    qk_norm: bool = False

    @classmethod
    def of(cls, directory: Path) -> HeadShape:
        """Of a head on disk; ModelError where its configuration lacks a size."""
        said = HeadSettings.read(directory)
        heads, hidden, vocab = said.num_attention_heads, said.hidden_size, said.vocab_size
        attention_bias = said.attention_bias or False
        try:
            if heads is None or hidden is None or vocab is None or said.intermediate_size is None:
                raise ValueError("it lacks hidden_size, intermediate_size, num_attention_heads or vocab_size")
            generation: Literal[1, 3] = 3 if said.is_eagle3 or said.draft_vocab_size is not None else 1
            draft_vocab = (said.draft_vocab_size or vocab) if generation == 3 else 0
            if draft_vocab == vocab and not said.tie_word_embeddings and _has(directory, "lm_head.weight") is False:
                draft_vocab = 0
            return cls(
                generation=generation,
                layers=said.num_hidden_layers or 1,
                hidden=hidden,
                target_hidden=said.target_hidden_size,
                fused=len(said.eagle_aux_hidden_state_layer_ids or ()) or 3,
                heads=heads,
                kv_heads=said.num_key_value_heads or heads,
                head_dim=said.head_dim or hidden // heads,
                intermediate=said.intermediate_size,
                draft_vocab=draft_vocab,
                embedding=vocab if _holds_embedding(directory, vocab * hidden, draft_vocab == vocab) else 0,
                fc_bias=generation == 1 and said.bias is not False,
                qkv_bias=attention_bias if said.qkv_bias is None else said.qkv_bias,
                attention_bias=attention_bias,
                mlp_bias=said.mlp_bias or False,
                norm_before_fc=said.norm_before_fc or False,
                fc_norm=said.fc_norm or False,
                qk_norm=_has(directory, "self_attn.q_norm.weight") or False,
            )
        except ValueError as error:
            what = f"the config.json in {directory} does not describe an EAGLE head"
            raise ModelError(what, why=reason(error)) from error

    @property
    def parameters(self) -> int:
        """Number of its own weights, without those shared with the target."""
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        reads = self.target_hidden or self.hidden
        joined = 2 * self.hidden if self.generation == 1 else self.fused * reads
        layer = (
            self.hidden * (2 * q + 2 * kv)
            + self.qkv_bias * (q + 2 * kv)
            + self.attention_bias * self.hidden
            + 3 * self.hidden * self.intermediate
            + self.mlp_bias * (2 * self.intermediate + self.hidden)
            + 2 * self.hidden  # norms
            + self.qk_norm * 2 * self.head_dim
        )
        # EAGLE-3's first layer reads embedding and state side by side, one norm more; EAGLE-1's has one norm less.
        first = self.hidden * (q + 2 * kv) + self.hidden if self.generation == 3 else -self.hidden
        fc = joined * self.hidden + self.fc_bias * self.hidden
        norms = (self.generation == 3) * self.hidden + self.norm_before_fc * joined + self.fc_norm * joined
        return fc + self.layers * layer + first + norms + (self.draft_vocab + self.embedding) * self.hidden

    def weight_bytes(self, item: int = 2) -> int:
        """Bytes of the weights, `item` bytes a number."""
        return self.parameters * item

    def kv_bytes_per_token(self, item: int = 2) -> int:
        """Bytes that one token adds to its cache."""
        return 2 * self.layers * self.kv_heads * self.head_dim * item


def _has(directory: Path, tensor: str) -> bool | None:
    """Whether there is a tensor whose name ends so; None where the names are not known."""
    files = weight_files(directory)
    names = [name for file in files if file.suffix == ".safetensors" for name in read_header(file)]
    return any(name.endswith(tensor) for name in names) if names else None


def _holds_embedding(directory: Path, size: int, has_whole_output: bool) -> bool:
    """Whether the weights have an embedding of `size` numbers, which configurations do not say.

    In safetensors, by the names of the tensors. A .bin is a zip archive with a record for each tensor: there by the
    records' sizes, two or four bytes a number, without the output layer's.
    """
    found = 0
    for file in weight_files(directory):
        if file.suffix == ".safetensors":
            if any(name.endswith("embed_tokens.weight") for name in read_header(file)):
                return True
        elif zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                found += sum(record.file_size in (2 * size, 4 * size) for record in archive.infolist())
    return found > has_whole_output
