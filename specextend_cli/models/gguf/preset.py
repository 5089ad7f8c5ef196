"""The preset of a GGUF file: drafted by n-grams, in a window that any machine has the memory for."""

from __future__ import annotations

from math import prod
from typing import Any

from specextend_cli.errors import ModelError
from specextend_cli.models.gguf.settings import read_gguf
from specextend_cli.models.gguf.source import GgufFile, gguf_file, plain_name
from specextend_cli.models.preset import Preset, Target, Window
from specextend_cli.models.preset_defaults import ANY_MACHINE, window_sizes
from specextend_cli.models.shape import Shape

_LEAST = 256  # tokens


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
