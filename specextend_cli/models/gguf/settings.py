"""What is made of a GGUF file: a preset, and its settings: configuration, tokenizer, template in transformers' layout.

Weights stay in it: the directory of settings names the GGUF file. They take seconds, for a large vocabulary, and are
kept.
"""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

from specextend_cli.errors import ModelError
from specextend_cli.models.checkpoint import usable
from specextend_cli.models.gguf.families import Table, config_of, family, layout
from specextend_cli.models.gguf.file import Gguf
from specextend_cli.models.gguf.source import GgufFile, gguf_file, parts, plain_name
from specextend_cli.models.gguf.tokenizer import tokenizer_config, tokenizer_of
from specextend_cli.models.preset import ANY_MACHINE, Preset, Target, Window, window_sizes
from specextend_cli.models.shape import Shape

_LEAST = 256  # tokens of a window
_IGNORED = ("rope_freqs.weight", "v.", "a.", "mm.")
"""What names begin with of tensors that are in the configuration, or read images and sound (in ollama's files)."""


def read_gguf(file: Path) -> tuple[Gguf, dict[str, Any], Table]:
    """The file, its config.json, and its tensors: GGUF's name -> transformers' name and shape.

    ModelError: it is absent, damaged, or of a kind that is not supported.
    """
    with readable(file):
        return _read(file, tuple((part, part.stat().st_size, part.stat().st_mtime_ns) for part in parts(file)))


@lru_cache(maxsize=1)  # a run asks more than once, and a large vocabulary takes half a second
def _read(file: Path, state: object) -> tuple[Gguf, dict[str, Any], Table]:
    """`read_gguf` of a file in that `state`; what it raises is the file's."""
    model = Gguf.read(file)
    config = config_of(model)
    table = layout(family(model), config)
    for name, (_, shape) in table.items():
        if name not in model.tensors:
            raise ValueError(f"it lacks the tensor {name}")
        if (found := model.tensors[name].shape) != shape:
            raise ValueError(f"its {name} has the shape {found} instead of {shape}")
    if extra := [name for name in model.tensors if name not in table and not name.startswith(_IGNORED)]:
        raise ValueError(f"its tensor {min(extra)!r:.60} has no place in a {config['model_type']} model")
    return model, config, table


def write_settings(file: Path, into: Path) -> None:
    """Write the settings of the GGUF `file` into the directory `into`; ModelError as `read_gguf`."""
    model, config, _ = read_gguf(file)
    with readable(file):
        tokenizer = tokenizer_of(model.facts)
        settings = tokenizer_config(model.facts)
    _write_json(into / "config.json", config)
    tokenizer.save(str(into / "tokenizer.json"))
    _write_json(into / "tokenizer_config.json", settings)


def readable(file: Path) -> AbstractContextManager[None]:
    """ModelError for what reading a file that is absent or damaged may raise: its facts are of any kind and type."""
    fix = "fetch it again if it is damaged, or correct its path; docs/models.md says which are read"
    return usable(f"cannot read {file.name}", fix=fix)


def _write_json(file: Path, data: dict[str, Any]) -> None:
    file.write_text(json.dumps(data, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def preset_for(source: GgufFile) -> Preset:
    """The preset of that file; ModelError: it is absent, damaged, or of a kind that is not supported."""
    model, config, table = read_gguf(gguf_file(source))
    if (most := config["max_position_embeddings"]) < _LEAST:
        raise ModelError(f"the model in {source} cannot summarize", why=f"it reads at most {most} tokens")
    weights = sum(prod(shape) for _, shape in table.values())
    kind = f"{config['model_type']}, {config['num_hidden_layers']} layers"
    return Preset(
        name=plain_name(source),
        title=_line(model.facts.get("general.name")) or plain_name(source),
        description=f"Made from {_line(str(source))} ({kind}), drafted by n-grams.{_caveat(model.facts)}",
        licence=_line(model.facts.get("general.license")) or "as its publisher says",
        target=Target(source=source, shape=Shape.from_config(config, weights)),
        window=Window(**window_sizes(min(ANY_MACHINE, most))),
    )


def _caveat(facts: dict[str, Any]) -> str:
    """What the file does not say of its vocabulary."""
    if facts.get("tokenizer.ggml.model") != "gpt2" or (facts.get("tokenizer.ggml.pre") or "default") != "default":
        return ""
    return " The file does not say how its vocabulary splits text: llama.cpp's default is used, and texts may be worse."


def _line(text: Any) -> str:
    """Text from a file, as one line of printable characters."""
    return "".join(c for c in str(text or "") if c.isprintable())[:120]
