"""Conversion of GGUF files to transformers' layout, without torch: bf16 safetensors, config, tokenizer, chat template.

transformers dequantizes a GGUF in Python at every load; a converted model is memory-mapped. Weights are converted a few
million numbers at a time. Those of four bits keep their codes beside the full weights (see `models/four_bit.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
from gguf import dequantize

from specextend_cli.errors import ModelError, cause
from specextend_cli.models.checkpoint import reason
from specextend_cli.models.four_bit import FILE, PARTS, ROWS, FourBit, group_of, to_bf16
from specextend_cli.models.gguf.families import Family, Table, config_of, family, layout
from specextend_cli.models.gguf.file import Gguf, GgufTensor
from specextend_cli.models.gguf.tokenizer import special_ids, tokenizer_config, tokenizer_of
from specextend_cli.models.store import Progress, silent

_AT_ONCE = 1 << 22  # numbers
_IGNORED = ("rope_freqs.weight",)  # is in the configuration
_TOWERS = ("v.", "a.", "mm.")  # what reads images and sound; ollama keeps it in the language model's file
_ITEM_BYTES = {"U8": 1, "BF16": 2}


def read_gguf(file: Path) -> tuple[Gguf, dict[str, Any], Table]:
    """The file, its config.json, and its tensors: GGUF's name -> transformers' name and shape.

    ModelError: it is absent, damaged, or of a kind that is not supported.
    """
    with _readable(file):
        try:
            model = Gguf.read(file)
        except OSError as error:
            raise ModelError(f"cannot read {file}", why=cause(error), fix="correct its path") from error
        config = config_of(model)
        table = layout(family(model), config)
        for name, (_, shape) in table.items():
            if name not in model.tensors:
                raise ValueError(f"it lacks the tensor {name}")
            if (found := model.tensors[name].shape) != shape:
                raise ValueError(f"its {name} has the shape {found} instead of {shape}")
        extra = sorted(model.tensors.keys() - table.keys() - set(_IGNORED))
        if extra := [name for name in extra if not name.startswith(_TOWERS)]:
            raise ValueError(f"its tensor {extra[0]!r:.60} has no place in a {config['model_type']} model")
    return model, config, table


def converted_size(file: Path) -> int:
    """Bytes of the converted weights; ModelError as `read_gguf`."""
    model, _, table = read_gguf(file)
    numbers = sum(int(np.prod(shape)) for _, shape in table.values())
    tensors = [model.tensors[name] for name in table]
    coded = (_parts(tensor) * tensor.rows * (tensor.columns // 2 + 4 * _groups(tensor)) for tensor in tensors)
    return 2 * numbers + sum(coded)


def convert(file: Path, into: Path, *, progress: Progress = silent) -> None:
    """Write the model of the GGUF `file` into the directory `into`, in transformers' layout.

    ModelError as `read_gguf`, or a number is not finite.
    """
    model, config, table = read_gguf(file)
    with _readable(file):
        tokenizer = tokenizer_of(model.facts)
        settings = tokenizer_config(model.facts, config["max_position_embeddings"])
        _write_weights(model, family(model), config, table, into, progress)
    _write_json(into / "config.json", config)
    _write_json(into / "generation_config.json", special_ids(model.facts))
    tokenizer.save(str(into / "tokenizer.json"))
    _write_json(into / "tokenizer_config.json", settings)


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    try:
        yield
    except (ValueError, LookupError, TypeError, ArithmeticError, AttributeError, NotImplementedError) as error:
        raise ModelError(
            f"cannot convert {file.name}",
            why=f"it is not a GGUF that this program reads: {reason(error)}",
            fix="fetch it again if it is damaged; docs/models.md says which are read",
        ) from error


def _write_weights(
    model: Gguf, own: Family, config: dict[str, Any], table: Table, into: Path, progress: Progress
) -> None:
    full: Table = {name: ("BF16", shape) for name, shape in table.values()}
    four: Table = {}
    codes = {theirs: _code_names(theirs, ours, model.tensors[theirs], config) for theirs, (ours, _) in table.items()}
    for theirs, names in codes.items():
        rows, columns = model.tensors[theirs].shape[0], model.tensors[theirs].columns
        for name in names:
            four[f"{name}.codes"] = ("U8", (rows, columns // 2))
            four[f"{name}.scales"] = ("BF16", (rows, _groups(model.tensors[theirs]), 2))
    done = 0
    with ExitStack() as files:
        weights = files.enter_context(TensorFile(into / "model.safetensors", full))
        packed = files.enter_context(TensorFile(into / FILE, four)) if four else None
        for theirs, (ours, _) in table.items():
            for full_rows, parts in _blocks(model.tensors[theirs], _order(theirs, own, config)):
                shift = own.gemma and theirs.endswith("norm.weight")
                bits = to_bf16(full_rows - 1 if shift else full_rows)
                weights.append(ours, bits)
                for name, part in zip(codes[theirs], parts, strict=False):
                    assert packed is not None
                    packed.append(f"{name}.codes", part.packed())
                    packed.append(f"{name}.scales", to_bf16(part.scales))
                done += bits.nbytes
                progress("converting", done, weights.size)


def _code_names(theirs: str, ours: str, tensor: GgufTensor, config: dict[str, Any]) -> list[str]:
    """Names of the codes that are kept of a tensor."""
    if theirs == "token_embd.weight":  # the codes of a tied embedding are used by the output head alone
        ours = "lm_head.weight" if config["tie_word_embeddings"] else ""
    return [ours, f"{ours}.low"][: _parts(tensor)] if ours else []


def _parts(tensor: GgufTensor) -> int:
    """How many matrices of codes the tensor is the sum of, 0 where the kernels do not take it."""
    return PARTS.get(tensor.kind.name, 0) if len(tensor.shape) == 2 and tensor.rows % ROWS == 0 else 0


def _groups(tensor: GgufTensor) -> int:
    """Of a row's columns, that share a scale."""
    return tensor.columns // group_of(tensor.kind)


def _order(theirs: str, own: Family, config: dict[str, Any]) -> npt.NDArray[np.int64] | None:
    """In which order rows are read; None as they are.

    llama.cpp interleaves the two halves of each head of q and k, which RoPE rotates; in transformers one half follows
    the other.
    """
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    part = theirs.split(".")[-2]
    if not own.permuted or part not in heads:
        return None
    rows = np.arange(heads[part] * config["head_dim"])
    return rows.reshape(heads[part], -1, 2).swapaxes(1, 2).reshape(-1)


def _blocks(
    tensor: GgufTensor, order: npt.NDArray[np.int64] | None
) -> Iterator[tuple[npt.NDArray[np.float32], tuple[FourBit, ...]]]:
    """Some rows of the tensor after the other, dequantized, and the codes that they are the sum of."""
    raw = tensor.raw()
    if len(tensor.shape) == 1 and order is not None:  # a bias, whose numbers are rows
        raw = raw.reshape(len(order), -1)
    step = max(1, _AT_ONCE // tensor.columns)
    for first in range(0, len(raw), step):
        rows = np.asarray(raw[first : first + step] if order is None else raw[order[first : first + step]])
        if _parts(tensor):
            parts = FourBit.read(tensor.kind, rows)
            yield np.sum([part.full() for part in parts], axis=0, dtype=np.float32), parts
        else:
            yield np.asarray(dequantize(rows, tensor.kind), np.float32), ()


def _write_json(file: Path, data: dict[str, Any]) -> None:
    file.write_text(json.dumps(data, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


class TensorFile:
    """A safetensors file, written a few rows at a time: the library's own writer needs all tensors in memory.

    `tensors`: name -> type ("U8", or "BF16" as bit patterns) and shape. A context manager.

    Rows are appended to each tensor, in any order of the tensors; ValueError at the end where some are missing.
    """

    def __init__(self, file: Path, tensors: Mapping[str, tuple[str, tuple[int, ...]]]) -> None:
        header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
        self.size = 0
        """Bytes of all tensors."""
        for name, (kind, shape) in tensors.items():
            start, self.size = self.size, self.size + _ITEM_BYTES[kind] * int(np.prod(shape))
            header[name] = {"dtype": kind, "shape": shape, "data_offsets": [start, self.size]}
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        self._open = {name: entry["data_offsets"] for name, entry in header.items() if name in tensors}
        self._start = 8 + len(text)
        self._out = file.open("wb")
        self._out.write(len(text).to_bytes(8, "little") + text)

    def append(self, name: str, rows: npt.NDArray[Any]) -> None:
        """Write the next rows of that tensor."""
        left, data = self._open[name], rows.astype(rows.dtype.newbyteorder("<"), copy=False).tobytes()
        if left[0] + len(data) > left[1]:
            raise ValueError(f"{name} has more rows than were announced")
        self._out.seek(self._start + left[0])
        self._out.write(data)
        left[0] += len(data)

    def __enter__(self) -> TensorFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._out.close()
        if kind is None and (missing := [name for name, (done, end) in self._open.items() if done != end]):
            raise ValueError(f"{missing[0]} lacks rows")
