"""The preset's models, each loaded once, and the methods made of them; RoPE stretched for long prompts."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import nn
from transformers import PreTrainedModel

from specextend_cli.bench.measure import Decoding
from specextend_cli.bench.results import Run
from specextend_cli.engine.attention import Backend
from specextend_cli.engine.attention_backends import backend_for
from specextend_cli.engine.config import Retrieval, TreeShape
from specextend_cli.engine.drafters import Drafter
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.registry import DRAFTERS
from specextend_cli.engine.target import Target
from specextend_cli.errors import FitError
from specextend_cli.models.heads import load_eagle
from specextend_cli.models.preset import Preset
from specextend_cli.models.sources import ModelDirectories
from specextend_cli.models.tokens import TextEncoder
from specextend_cli.runtime.devices import device_of, dtype_of
from specextend_cli.runtime.loading import (
    check_memory,
    drafter_of,
    end_tokens,
    load_language_model,
    prefill_step,
    retrieval_of,
    target_dtype,
)
from specextend_cli.runtime.options import Engine
from specextend_cli.runtime.runners import tree_for


@dataclass(frozen=True)
class Recipe:
    """A method of ours: its drafter and settings. `prefill` and `verify` name attention back ends."""

    drafter: Callable[[Target], Drafter]
    retrieval: Retrieval
    shape: TreeShape
    gate: bool = False
    prefill: str = "auto"
    verify: str = "auto"


External: TypeAlias = Callable[[Sequence[int], Decoding], Run]
"""Another program, which continues a prompt. Prefill ends with its first token. SpecextendError if it cannot."""

Method: TypeAlias = Recipe | External


class Models:
    """A preset's target, and its draft when a method first asks for it.

    `context`: the longest sequence in tokens, for the memory check. Raises what `load_target` raises.
    """

    def __init__(
        self, preset: Preset, directories: ModelDirectories, choices: Engine, *, context: int | None = None
    ) -> None:
        self.preset = preset
        self.directories = directories
        self.choices = choices
        self.device = device_of(choices.device)
        self.dtype = dtype_of(target_dtype(preset, choices), self.device)
        check_memory(preset, self.device, choices, context=context)
        self._load = cache(self._read)
        self._load_head = cache(lambda path: load_eagle(path, self.lm, preset.name))
        self.lm = self._load(directories.target, self.dtype)
        self.encoder = TextEncoder.of(directories.target)
        self.eos = end_tokens(self.lm)
        self.prefill_chunk = prefill_step(preset, self.device, choices)

    @property
    def retrieval(self) -> Retrieval:
        """The preset's retrieval."""
        return retrieval_of(self.preset, self.choices)

    @property
    def tree(self) -> TreeShape:
        """The bounds of `summarize`'s draft trees here."""
        return tree_for(self.lm, self.preset.tree)

    def under(self, policy: str, **changes: object) -> Retrieval:
        """The preset's retrieval under another policy."""
        return replace(self.retrieval, policy=policy, **changes)  # type: ignore[arg-type]

    @property
    def draft(self) -> str:
        """The drafter of `standard`, `streaming` and `specextend`: the preset's, if it has attention.

        For a preset that drafts with n-grams alone it is a blend of n-grams and the target itself.
        """
        return self.choices.draft or (self.preset.draft.kind if DRAFTERS[self.preset.draft.kind].attends else "blend")

    @property
    def attending(self) -> str:
        """The preset's drafter with attention, without n-grams: what retrieval settings are measured on."""
        kinds = (self.draft, *self.preset.draft.of)
        return next((kind for kind in kinds if kind != "blend" and DRAFTERS[kind].attends), "self")

    def drafter(self, kind: str, target: Target, retrieval: Retrieval) -> Drafter:
        """A new drafter of that kind. UsageError if the preset has no model for it."""
        choices = replace(self.choices, draft=kind)
        loads = self._load, self._load_head
        return drafter_of(self.preset, choices, target, retrieval, self.directories.draft, *loads)

    def recipe(self, kind: str, retrieval: Retrieval, shape: TreeShape | None = None, **settings: Any) -> Recipe:
        """A method that drafts so, in `summarize`'s tree or one of this `shape`; `settings` are further fields.

        UsageError if the preset has no model for it.
        """
        self.drafter(kind, Target(self.lm), retrieval)  # raises now, not during the runs
        shape = shape or self.tree
        return Recipe(lambda target: self.drafter(kind, target, retrieval), retrieval, shape, **settings)

    def backend(self, name: str) -> Backend:
        """The attention back end of that name; "auto" is the target's."""
        return backend_for(self.device, self.lm.attention if name == "auto" else name)

    def fitted(self, length: int) -> AbstractContextManager[bool]:
        """Make the target fit for `length` positions; the body gets whether its RoPE had to be stretched."""
        return stretched(self.lm.model, self.preset.window.context, length)

    def _read(self, path: Path, dtype: torch.dtype) -> LanguageModel:
        quantization = self.preset.target.quantization if path == self.directories.target else "none"
        return load_language_model(self.preset, quantization, self.device, path, dtype, self.choices.attention)


@contextmanager
def stretched(model: PreTrainedModel, trained: int, needed: int) -> Iterator[bool]:
    """Stretch the model's RoPE by YaRN (arXiv 2309.00071) to `needed` positions inside the block.

    The factor is needed / trained, the least that fits. Yields whether any stretching was needed. FitError if the
    model's RoPE is already scaled.
    """
    if needed <= trained:
        yield False
        return
    decoder = model.get_decoder()
    rope = dict(getattr(model.config, "rope_parameters", None) or {})
    before = getattr(decoder, "rotary_emb", None)
    if rope.get("rope_type", "default") != "default" or not isinstance(before, nn.Module):
        raise FitError(
            f"{needed:,} tokens do not fit the model's window of {trained:,}",
            why=f"its RoPE is already scaled ({rope.get('rope_type')}), and a second scaling would be a guess",
            fix="a smaller --len or --tokens",
        )
    config = copy.deepcopy(model.config)
    yarn = {"rope_type": "yarn", "factor": needed / trained, "original_max_position_embeddings": trained}
    config.rope_parameters = rope | yarn
    config.max_position_embeddings = needed
    decoder.rotary_emb = type(before)(config=config).to(model.device)
    try:
        yield True
    finally:
        decoder.rotary_emb = before
