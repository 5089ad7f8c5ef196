"""Counting and encoding text with a model's own vocabulary, without transformers, torch or a network.

A byte-level BPE vocabulary becomes a `tiktoken.Encoding`, where that can be shown to give the same ids; any other
tokenizer.json is given to the `tokenizers` library. Either way a document is only text: the names of special tokens
in it are spelt out, never obeyed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import tiktoken

from specextend_cli.errors import ModelError

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
# GPT-2's pattern after a split at every digit: spaces before a digit end their segment, so none stays behind for it.
_SMOLLM = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?=\p{N})|\s+(?!\S)|\s+"
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace("{1,3}", "")
_KNOWN_SPLITS = {_GPT2, _LLAMA3, _QWEN2}
"""Patterns that cover every text without gaps and mean the same to both regex engines."""
