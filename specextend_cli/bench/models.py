"""The preset's models, each loaded once, and every drafter that can be made of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import torch

from specextend_cli.bench import rope
from specextend_cli.engine.config import Retrieval, Sampling, TreeShape
from specextend_cli.engine.drafters import Drafter
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.target import Target
from specextend_cli.errors import FitError, UsageError
from specextend_cli.models.load import load_model
from specextend_cli.models.preset import Preset
from specextend_cli.models.sources import ModelDirectories
from specextend_cli.models.tokens import TextEncoder
from specextend_cli.runtime.devices import device_of, dtype_of
from specextend_cli.runtime.eagle_head import load_eagle
from specextend_cli.runtime.loading import check_memory, drafter_of, end_tokens, retrieval_of, sampling_of
from specextend_cli.runtime.options import EngineOptions


class Models:
    """A preset's target, and its draft once a method asks for it. ModelError, FitError, UsageError as `load_writer`.

    `context` is the most tokens that a sequence will have, for the check of memory.
    """

    def __init__(
        self, preset: Preset, directories: ModelDirectories, choices: EngineOptions, *, context: int | None = None
    ) -> None:
        self.preset = preset
        self.directories = directories
        self.choices = choices
        self.device = device_of(choices.device)
        self.dtype = dtype_of(choices.dtype if choices.dtype != "auto" else preset.target.dtype, self.device)
        check_memory(preset, self.device, choices, context=context)
        self._loaded: dict[tuple[Path, torch.dtype], LanguageModel] = {}
        self._heads: dict[Path, EagleHead] = {}
        self.lm = self._load(directories.target, self.dtype)
        self.encoder = TextEncoder.of(directories.target)
        self.eos = end_tokens(self.lm)
        self.prefill_chunk = 1024 if self.device.type == "cpu" else 4096
        self.stretch = 1.0
        """By how much RoPE is stretched now."""

    @property
    def exact(self) -> bool:
        """Whether every lossless method must emit the very same tokens: arithmetic leaves room for ties otherwise."""
        return self.dtype == torch.float32

    @property
    def sampling(self) -> Sampling:
        """The preset's decoding."""
        return sampling_of(self.preset, self.choices)

    @property
    def retrieval(self) -> Retrieval:
        """The preset's retrieval."""
        return retrieval_of(self.preset, self.choices, lambda: self.encoder)

    @property
    def shape(self) -> TreeShape:
        """The preset's tree."""
        tree = self.preset.tree
        return TreeShape(tree.nodes, tree.depth, tree.width, tree.threshold)

    @property
    def draft(self) -> str:
        """The drafter that stands for "the draft": the preset's, if it is a model that attends.

        A preset that drafts with n-grams alone has nothing a working set could be chosen for; there it is a blend of
        n-grams and the target itself.
        """
        if self.choices.draft is not None:
            return self.choices.draft
        return "blend" if self.preset.draft.kind in ("none", "ngram") else self.preset.draft.kind

    @property
    def attending(self) -> str:
        """The preset's drafter with attention, n-grams apart: what policies and positions are measured on."""
        kinds = (self.draft, *self.preset.draft.of)
        return next((kind for kind in kinds if kind not in ("none", "ngram", "blend")), "self")

    def drafter(self, kind: str, target: Target, retrieval: Retrieval) -> Drafter:
        """A new drafter of that kind. UsageError where the preset has no model for it."""
        choices = replace(self.choices, draft=kind)
        return drafter_of(self.preset, choices, target, retrieval, self.directories.draft, self._load, self._load_head)

    @property
    def heads(self) -> list[EagleHead]:
        """The EAGLE head that the preset drafts with, if it is one."""
        directory = self.directories.draft
        return [self._load_head(directory)] if directory and self.preset.draft.model == "eagle" else []

    @cached_property
    def draft_lm(self) -> LanguageModel:
        """The preset's small language model. UsageError where it has none."""
        drafter = self.drafter("lm", Target(self.lm), Retrieval(policy="full"))
        lm: LanguageModel = drafter.lm  # type: ignore[attr-defined]  # "lm" is always drafted by an LMDrafter
        return lm

    @contextmanager
    def fitted(self, length: int) -> Iterator[bool]:
        """The target made fit for `length` positions; yields whether its RoPE had to be stretched."""
        window = self.preset.window.context
        with rope.stretched(self.lm.model, window, length) as scaled:
            self.stretch = length / window if scaled else 1.0
            try:
                yield scaled
            finally:
                self.stretch = 1.0

    def _load_head(self, path: Path) -> EagleHead:
        if path not in self._heads:
            self._heads[path] = load_eagle(path, self.lm, self.preset.name)
        return self._heads[path]

    def _load(self, path: Path, dtype: torch.dtype) -> LanguageModel:
        if (path, dtype) not in self._loaded:
            quantization = self.preset.target.quantization if path == self.directories.target else "none"
            try:
                model = load_model(
                    path, device=self.device, dtype=dtype, quantization=quantization, name=self.preset.name
                )
            except torch.OutOfMemoryError as error:
                raise FitError(f"preset {self.preset.name} does not fit into memory", why=str(error)) from error
            self._loaded[path, dtype] = LanguageModel(model)
        return self._loaded[path, dtype]


def missing_draft(models: Models) -> UsageError | None:
    """Why there is no small language model to draft with; None where there is one."""
    draft = models.preset.draft
    if "lm" in (draft.kind, *draft.of) and models.directories.draft is not None:
        return None
    return UsageError(f"preset {models.preset.name} has no draft model")
