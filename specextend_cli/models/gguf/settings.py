"""A GGUF file's configuration, tokenizer and chat template as files in transformers' layout; its weights stay in it.

The directory of these files names the GGUF file. Computing them takes seconds, for a large vocabulary; they are kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from specextend_cli.errors import ModelError, cause
from specextend_cli.models.checkpoint import reason
from specextend_cli.models.gguf.families import Table, config_of, family, layout
from specextend_cli.models.gguf.file import Gguf
from specextend_cli.models.gguf.source import parts
from specextend_cli.models.gguf.tokenizer import special_ids, tokenizer_config, tokenizer_of

_IGNORED = ("rope_freqs.weight",)  # is in the configuration
_TOWERS = ("v.", "a.", "mm.")  # what reads images and sound; ollama keeps it in the language model's file


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
    extra = sorted(model.tensors.keys() - table.keys() - set(_IGNORED))
    if extra := [name for name in extra if not name.startswith(_TOWERS)]:
        raise ValueError(f"its tensor {extra[0]!r:.60} has no place in a {config['model_type']} model")
    return model, config, table


def write_settings(file: Path, into: Path) -> None:
    """Write the settings of the GGUF `file` into the directory `into`; ModelError as `read_gguf`."""
    model, config, _ = read_gguf(file)
    with readable(file):
        tokenizer = tokenizer_of(model.facts)
        settings = tokenizer_config(model.facts, config["max_position_embeddings"])
    _write_json(into / "config.json", config)
    _write_json(into / "generation_config.json", special_ids(model.facts))
    tokenizer.save(str(into / "tokenizer.json"))
    _write_json(into / "tokenizer_config.json", settings)


@contextmanager
def readable(file: Path) -> Iterator[None]:
    """ModelError for what reading a file that is absent or damaged may raise: its facts are of any kind and type."""
    try:
        yield
    except OSError as error:
        raise ModelError(f"cannot read {file}", why=cause(error), fix="correct its path") from error
    except (ValueError, LookupError, TypeError, ArithmeticError, AttributeError, NotImplementedError) as error:
        raise ModelError(
            f"cannot read {file.name}",
            why=f"it is not a GGUF that this program reads: {reason(error)}",
            fix="fetch it again if it is damaged; docs/models.md says which are read",
        ) from error


def _write_json(file: Path, data: dict[str, Any]) -> None:
    file.write_text(json.dumps(data, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
