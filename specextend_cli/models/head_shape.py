"""The sizes of an EAGLE head, in any published layout. Needs neither torch nor weights.

`HeadShape` is to a head what `Shape` is to a model: counts that follow from sizes, for memory that is estimated before
anything is fetched.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from specextend_cli.errors import ModelError
from specextend_cli.models.head_settings import claims_eagle3, nested, read_settings
from specextend_cli.models.head_values import check_values
from specextend_cli.models.weights import read_header, weight_files


class HeadShape(BaseModel):
    """A head of Llama layers. Counts are exact for EAGLE-1, EAGLE-3 and the variants in their configurations.

    `generation` 1 joins one state of the target with an embedding, 3 fuses `fused` states of `target_hidden` numbers
    (None: as wide as its own). `draft_vocab` and `embedding` are the rows of an output layer and an embedding of its
    own, 0 where it uses the target's.
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

    @classmethod
    def of(cls, directory: Path) -> HeadShape:
        """Of a head on disk, in any published layout; ModelError where its configuration lacks a size."""
        settings = read_settings(directory)
        try:
            check_values(settings)
            heads, hidden = settings["num_attention_heads"], settings["hidden_size"]
            vocab = settings["vocab_size"]
            generation: Literal[1, 3] = 3 if claims_eagle3(settings) or "draft_vocab_size" in settings else 1
            ids = nested(settings, "eagle_aux_hidden_state_layer_ids", None)
            draft_vocab = (settings.get("draft_vocab_size") or vocab) if generation == 3 else 0
            if draft_vocab == vocab and not settings.get("tie_word_embeddings") and _lacks_output(directory):
                draft_vocab = 0
            return cls(
                generation=generation,
                layers=settings.get("num_hidden_layers", 1),
                hidden=hidden,
                target_hidden=settings.get("target_hidden_size"),
                fused=len(ids) if ids else 3,
                heads=heads,
                kv_heads=settings.get("num_key_value_heads") or heads,
                head_dim=settings.get("head_dim") or hidden // heads,
                intermediate=settings["intermediate_size"],
                draft_vocab=draft_vocab,
                embedding=vocab if _holds_embedding(directory, vocab * hidden, draft_vocab == vocab) else 0,
                fc_bias=generation == 1 and settings.get("bias", True),
                qkv_bias=settings.get("qkv_bias", settings.get("attention_bias", False)),
                attention_bias=settings.get("attention_bias", False),
                mlp_bias=settings.get("mlp_bias", False),
                norm_before_fc=nested(settings, "norm_before_fc", False),
                fc_norm=nested(settings, "fc_norm", False),
            )
        except (LookupError, TypeError, ValueError, ArithmeticError) as error:
            what = f"the config.json in {directory} does not describe an EAGLE head"
            raise ModelError(what, why=str(error)) from error

    @property
    def parameters(self) -> int:
        """Number of weights of its own, what it shares with the target left out."""
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


def _lacks_output(directory: Path) -> bool:
    """Whether the tensors are named, and none is an output layer."""
    files = weight_files(directory)
    names = [name for file in files if file.suffix == ".safetensors" for name in read_header(file)]
    return bool(names) and not any(name.endswith("lm_head.weight") for name in names)


def _holds_embedding(directory: Path, size: int, has_whole_output: bool) -> bool:
    """Whether the weights hold an embedding of `size` numbers, which no configuration says.

    safetensors names its tensors. A .bin is a zip archive with one record a tensor: there the record's size tells, two
    or four bytes a number, as long as it is not the output layer's.
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
