"""The weights of a GGUF file, read into transformers' modules as they are: no other file is made of them.

On processors with the native library matrices of four to eight bits stay so (`engine/packed.py`): their blocks are
packed by threads. Everything else is dequantized. Either way some million numbers are read at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from gguf import dequantize
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.initialization import no_init_weights

from specextend_cli.engine.packed import KIND_OF_BLOCKS, ROWS, PackedEmbedding, PackedLinear, Tiles, can_pack, lay_out
from specextend_cli.models.gguf.families import Family, family
from specextend_cli.models.gguf.file import GgufTensor
from specextend_cli.models.gguf.settings import read_gguf, readable

_AT_ONCE = 1 << 22  # numbers


def load_gguf(file: Path, config: Any, *, device: torch.device, dtype: torch.dtype) -> PreTrainedModel:
    """The model of a GGUF file on `device`; `config` is that of its settings.

    ModelError: the file is absent, damaged, of a kind that is not supported, or a number is not finite.
    """
    found, said, table = read_gguf(file)
    with no_init_weights():  # memory that nothing is read into stays untouched
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=dtype, trust_remote_code=False)
    own, tensors = family(found), dict[str, _Tensor]()
    for theirs, (ours, _) in table.items():
        # llama.cpp's converter adds 1 to Gemma's norms, which transformers adds itself.
        shift = -1 if own.gemma and theirs.endswith("norm.weight") else 0
        tensors[ours] = _Tensor(found.tensors[theirs], _order(theirs, own, said), shift)
    with readable(file):
        _fill(model, tensors, device, dtype)
    model.to(device)  # type: ignore[arg-type]  # its decorators hide its signature
    model.eval()
    return model


@dataclass(frozen=True)
class _Tensor:
    """A tensor in a file, the order in which its rows are wanted (None: as they are), and what is added to it."""

    stored: GgufTensor
    order: npt.NDArray[np.int64] | None
    shift: int

    @property
    def can_be_packed(self) -> bool:
        """Whether it is a matrix of four to eight bits of whole tiles."""
        return len(self.stored.shape) == 2 and self.stored.kind.name in KIND_OF_BLOCKS and self.stored.rows % ROWS == 0

    def blocks(self) -> Iterator[tuple[int, npt.NDArray[np.uint8]]]:
        """Blocks of some rows after the other, whole tiles, each with the number of the first row."""
        if self.order is not None:
            raw = self.stored.blocks()
            yield 0, raw.reshape(len(self.order), -1)[self.order]  # of a bias numbers are rows
            return
        step = max(ROWS, _AT_ONCE // self.stored.columns // ROWS * ROWS)
        for first in range(0, self.stored.rows, step):
            yield first, self.stored.blocks(first, step)

    def dense(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        """All its numbers. ValueError: one is not finite."""
        parts = []
        for _, blocks in self.blocks():
            numbers = torch.from_numpy(np.asarray(dequantize(blocks, self.stored.kind), np.float32))
            if not numbers.isfinite().all():
                raise ValueError("a tensor has values that are not finite")
            parts.append((numbers + self.shift if self.shift else numbers).to(device, dtype))
        return torch.cat(parts).reshape(self.stored.shape)


def _fill(model: nn.Module, tensors: Mapping[str, _Tensor], device: torch.device, dtype: torch.dtype) -> None:
    """Set the model's parameters. LookupError, AttributeError: it has others; ValueError as `_Tensor.dense`."""
    embedding, head = "model.embed_tokens", "lm_head"
    packed = {
        name.removesuffix(".weight"): Tiles(
            KIND_OF_BLOCKS[tensor.stored.kind.name], tensor.stored.rows, tensor.stored.columns
        )
        for name, tensor in tensors.items()
        if tensor.can_be_packed and can_pack(device, dtype)
    }
    lay_out([packed[name] for name in sorted(packed, key=(embedding, head).__contains__)])  # as a step reads them
    if missing := {name for name, _ in model.named_parameters()} - {*tensors, f"{head}.weight"}:
        raise LookupError(f"parameter {min(missing)}")
    for name, tensor in tensors.items():
        path, _, kind = name.rpartition(".")
        if path in packed and kind == "weight":
            for first, blocks in tensor.blocks():
                packed[path].set_blocks(tensor.stored.kind.value, torch.from_numpy(blocks), first)
        else:
            module = model.get_submodule(path)
            module.get_parameter(kind)
            setattr(module, kind, nn.Parameter(tensor.dense(dtype, device), requires_grad=False))
    if f"{head}.weight" not in tensors:  # it is tied
        if embedding in packed:
            packed[head] = packed[embedding]
        else:
            model.get_submodule(head).weight = model.get_submodule(embedding).weight
    for path, tiles in packed.items():
        stock = model.get_submodule(path)
        if path == embedding:
            made: nn.Module = PackedEmbedding(tiles, dtype, getattr(stock, "embed_scale", None))
        else:
            made = PackedLinear(tiles, cast(nn.Linear, stock).bias, dtype)
        model.set_submodule(path, made)


def _order(theirs: str, own: Family, config: dict[str, Any]) -> npt.NDArray[np.int64] | None:
    """In which order rows are wanted; None as they are.

    llama.cpp interleaves the two halves of each head of q and k, which RoPE rotates; in transformers one half follows
    the other.
    """
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    part = theirs.split(".")[-2]
    if not own.permuted or part not in heads:
        return None
    rows = np.arange(heads[part] * config["head_dim"])
    return rows.reshape(heads[part], -1, 2).swapaxes(1, 2).reshape(-1)
