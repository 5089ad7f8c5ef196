"""Conversion of GGUF files to transformers' layout, without torch: bf16 safetensors, config, tokenizer, chat template.

transformers dequantizes a GGUF in Python at every load; a converted model is memory-mapped. Only files of the Llama
architecture with a byte-level BPE vocabulary are supported, as the embedded pair is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer, decoders, pre_tokenizers

from specextend_cli.errors import ModelError
from specextend_cli.models.four_bit import FILE, FourBit, to_bf16
from specextend_cli.models.sentencepiece_bpe import bpe
from specextend_cli.models.store import Progress, silent

if TYPE_CHECKING:
    from gguf import GGUFReader

_CONTROL = 3  # GGUF's token_type of special tokens
_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_ITEM_BYTES = {"U8": 1, "BF16": 2}
_OTHER_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}


def convert(file: Path, into: Path, *, progress: Progress = silent) -> None:
    """Write the model of the GGUF `file` into the directory `into`, in transformers' layout.

    ModelError: the file is no GGUF of a supported kind.
    """
    from gguf import GGUFReader

    try:
        reader = GGUFReader(file)
        facts = {name: field.contents() for name, field in reader.fields.items()}
        config = _config(facts, tied=all(tensor.name != "output.weight" for tensor in reader.tensors))
        tokenizer = _tokenizer(facts)
        shapes = {_name(one.name): ("BF16", tuple(map(int, one.shape[::-1]))) for one in reader.tensors}
        codes: dict[str, FourBit] = {}
        tensors = map(to_bf16, _tensors(reader, config, codes))
        write_safetensors(into / "model.safetensors", shapes, tensors, progress=progress)
        _write_four_bit(into / FILE, codes)
    except (ValueError, LookupError, TypeError) as error:
        raise ModelError(
            f"cannot convert {file.name}", why=f"it is not a GGUF that this program reads: {error}"
        ) from error
    _write_json(into / "config.json", config)
    _write_json(into / "generation_config.json", _token_ids(facts))
    tokenizer.save(str(into / "tokenizer.json"))
    _write_json(into / "tokenizer_config.json", _tokenizer_config(facts))


# Weights


def _name(name: str) -> str:
    """transformers' name of the tensor that GGUF calls `name`."""
    if name in _OTHER_NAMES:
        return _OTHER_NAMES[name]
    block, number, part, kind = name.split(".")
    if block != "blk" or kind != "weight" or part not in _LAYER_NAMES:
        raise ValueError(f"the tensor {name} is none of a Llama's")
    return f"model.layers.{int(number)}.{_LAYER_NAMES[part]}.weight"


def _tensors(
    reader: GGUFReader, config: dict[str, Any], four_bit: dict[str, FourBit]
) -> Iterator[npt.NDArray[np.float32]]:
    """The tensors in the file's order, dequantized, rows in transformers' order; `four_bit` gets the codes."""
    from gguf import dequantize

    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    for tensor in reader.tensors:
        part = tensor.name.split(".")[-2]
        order = partial(_unpermute, heads=heads[part]) if part in heads else np.asarray
        if parts := FourBit.read(tensor):
            ordered = [codes.rows(order) for codes in parts]
            # The codes of a tied embedding are used by the output head alone.
            name = "lm_head.weight" if part == "token_embd" else _name(tensor.name)
            if part != "token_embd" or config["tie_word_embeddings"]:
                four_bit |= dict(zip((name, f"{name}.low"), ordered, strict=False))
            yield np.sum([codes.full() for codes in ordered], axis=0, dtype=np.float32)
        else:
            yield order(np.asarray(dequantize(tensor.data, tensor.tensor_type), np.float32))


def _unpermute(array: npt.NDArray[Any], heads: int) -> npt.NDArray[Any]:
    """Undo llama.cpp's order of the rows of q and k, [heads * head_dim, hidden].

    It interleaves the two halves of each head, which RoPE rotates; in transformers one half follows the other.
    """
    rows, columns = array.shape
    return array.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def write_safetensors(
    file: Path,
    tensors: dict[str, tuple[str, tuple[int, ...]]],
    arrays: Iterator[npt.NDArray[Any]],
    *,
    progress: Progress = silent,
) -> None:
    """Write `tensors`, name -> type ("U8", or "BF16" as bit patterns) and shape, with `arrays` in the same order.

    safetensors' own writer needs all tensors in memory, and its interface for numpy has no bfloat16.
    """
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    total = 0
    for name, (kind, shape) in tensors.items():
        start, total = total, total + _ITEM_BYTES[kind] * int(np.prod(shape))
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [start, total]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    done = 0
    with file.open("wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for (name, (_, shape)), array in zip(tensors.items(), arrays, strict=True):
            if array.shape != shape:
                raise ValueError(f"{name} has the shape {array.shape} instead of {shape}")
            done += out.write(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
            progress("converting", done, total)


def _write_four_bit(file: Path, weights: dict[str, FourBit]) -> None:
    tensors: dict[str, tuple[str, tuple[int, ...]]] = {}
    arrays: list[npt.NDArray[Any]] = []
    for name, weight in weights.items():
        for part, kind, array in (("codes", "U8", weight.packed()), ("scales", "BF16", to_bf16(weight.scales))):
            tensors[f"{name}.{part}"] = (kind, array.shape)
            arrays.append(array)
    if weights:
        write_safetensors(file, tensors, iter(arrays))


# Configuration and tokenizer


def _config(facts: dict[str, Any], *, tied: bool) -> dict[str, Any]:
    if (architecture := facts["general.architecture"]) != "llama":
        raise ValueError(f"its architecture is {architecture}, not llama")
    heads, hidden = facts["llama.attention.head_count"], facts["llama.embedding_length"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "bfloat16",
        "hidden_act": "silu",
        "hidden_size": hidden,
        "intermediate_size": facts["llama.feed_forward_length"],
        "max_position_embeddings": facts["llama.context_length"],
        "num_attention_heads": heads,
        "num_hidden_layers": facts["llama.block_count"],
        "num_key_value_heads": facts.get("llama.attention.head_count_kv", heads),
        "head_dim": facts.get("llama.rope.dimension_count", hidden // heads),
        # Stored in single precision: 1e-5 comes back as 9.999999747378752e-06.
        "rms_norm_eps": float(f"{facts['llama.attention.layer_norm_rms_epsilon']:.6g}"),
        "rope_parameters": {"rope_type": "default", "rope_theta": facts.get("llama.rope.freq_base", 10000.0)},
        "tie_word_embeddings": tied,
        "vocab_size": len(facts["tokenizer.ggml.tokens"]),
        **_token_ids(facts),
    }


def _token_ids(facts: dict[str, Any]) -> dict[str, int]:
    names = {"bos": "bos", "eos": "eos", "padding": "pad"}
    ids = {ours: facts.get(f"tokenizer.ggml.{theirs}_token_id") for theirs, ours in names.items()}
    return {f"{name}_token_id": number for name, number in ids.items() if number is not None}


def _tokenizer(facts: dict[str, Any]) -> Tokenizer:
    """Byte-level BPE, its pre-tokenizer by GGUF's name for it.

    There is no unknown token: the few bytes outside the vocabulary (control characters, unassigned planes) are
    dropped, as in the original tokenizer.
    """
    if (kind := facts["tokenizer.ggml.model"]) != "gpt2":
        raise ValueError(f"its vocabulary is of the kind {kind}, not byte-level BPE")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    known = {
        "gpt-2": byte_level,
        "smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level]),
    }
    if (pre := facts["tokenizer.ggml.pre"]) not in known:
        raise ValueError(f"its pre-tokenizer is {pre}, not {' or '.join(known)}")
    tokens, types = facts["tokenizer.ggml.tokens"], facts["tokenizer.ggml.token_type"]
    tokenizer = bpe(
        {token: number for number, token in enumerate(tokens)},
        [(left, right) for left, right in (merge.split(" ") for merge in facts["tokenizer.ggml.merges"])],
        special=[token for token, type_ in zip(tokens, types, strict=True) if type_ == _CONTROL],
    )
    tokenizer.pre_tokenizer, tokenizer.decoder = known[pre], decoders.ByteLevel()
    return tokenizer


def _tokenizer_config(facts: dict[str, Any]) -> dict[str, Any]:
    tokens = facts["tokenizer.ggml.tokens"]
    named = {key.removesuffix("_id"): tokens[number] for key, number in _token_ids(facts).items()}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": facts["llama.context_length"],
        "clean_up_tokenization_spaces": False,
        "chat_template": facts.get("tokenizer.chat_template", ""),
        **named,
    }


def _write_json(file: Path, data: dict[str, Any]) -> None:
    file.write_text(json.dumps(data, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
