"""A preset's models, loaded and joined: target, drafter, and the settings that belong to them."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from specextend_cli.errors import FitError, ModelError, UsageError
from specextend_cli.models.checkpoint import checked_weights
from specextend_cli.models.head_config import PublishedHead, is_assistant
from specextend_cli.models.memory import estimate, prefill_bytes
from specextend_cli.models.ngram_table import FILE, load_table
from specextend_cli.models.preset import Draft, Dtype, Preset, Quantization
from specextend_cli.models.shape import GRAPHS, HEADROOM, PREFILL
from specextend_cli.models.source_kinds import GgufSource, LocalSource, OllamaSource
from specextend_cli.models.sources import ModelDirectories as Directories
from specextend_cli.runtime.devices import check_attention, device_of, dtype_of, free_memory, make_current
from specextend_cli.runtime.options import Engine
from specextend_cli.runtime.runners import VARIABLE, are_wanted

if TYPE_CHECKING:
    import torch

    from specextend_cli.engine.config import Policy, Retrieval, Sampling
    from specextend_cli.engine.drafters import Drafter
    from specextend_cli.engine.head import EagleHead
    from specextend_cli.engine.lm import LanguageModel
    from specextend_cli.engine.plain import TransformersModel, TransformersTarget
    from specextend_cli.engine.target import Target

_GPU_STEPS = (4096, 2048)  # tokens of a prefill step


def load_target(preset: Preset, directories: Directories, options: Engine) -> Target | TransformersTarget:
    """The preset's target; errors as `writer.load_writer`.

    What the engine's forward does not run is run plainly by transformers' own: UsageError where drafts were asked for.
    """
    import torch

    from specextend_cli.engine.lm import UnsupportedModelError
    from specextend_cli.engine.plain import TransformersTarget
    from specextend_cli.engine.target import Target

    device, quantization = device_of(options.device), preset.target.quantization
    dtype = dtype_of(target_dtype(preset, options), device)
    check_memory(preset, device, options)
    try:
        lm = load_language_model(preset, quantization, device, directories.target, dtype, options.attention)
    except UnsupportedModelError as error:
        if options.draft_head is not None or options.draft not in (None, "none"):
            what = f"preset {preset.name} cannot be drafted for: it runs plainly by transformers"
            fix = "leave out --draft and --draft-head"
            raise UsageError(what, why=error.why, fix=fix) from error
        try:
            return TransformersTarget(error.model, error.why)
        except torch.OutOfMemoryError as memory:
            raise _too_large(preset, str(memory)) from memory
    needed = preset.window.context + preset.tree.depth
    if (most := _learned_positions(lm)) is not None and most < needed:
        raise UsageError(
            f"the model of preset {preset.name} has {most:,} positions",
            why=f"its window is {preset.window.context:,} tokens, and a draft tree {preset.tree.depth} deep",
            fix=f"set context = {most - preset.tree.depth} under [window], and a smaller chunk",
        )
    scored = preset.retrieval.layers
    if not all(-lm.layers <= layer < lm.layers for layer in scored):
        raise ModelError(
            f"preset {preset.name} chooses by layers {', '.join(map(str, scored))} of its target",
            why=f"it has layers 0 to {lm.layers - 1}",
            fix="name others under [retrieval]: specextend bench --experiment needle says what they find",
        )
    return Target(lm, score_layers=scored)


def _learned_positions(lm: LanguageModel) -> int | None:
    """Positions in the model's table of them (GPT-2, OPT); None where they are computed, and there is no end."""
    from torch import nn

    most = getattr(lm.config, "max_position_embeddings", None)
    tables = [module.num_embeddings for module in lm.model.modules() if isinstance(module, nn.Embedding)]
    return most if most and any(most <= rows <= most + 2 for rows in tables if rows != lm.vocabulary) else None


def target_dtype(preset: Preset, options: Engine) -> str:
    """The name of the target's number format: the preset's unless chosen."""
    return preset.target.dtype if options.dtype == "auto" else options.dtype


def load_language_model(
    preset: Preset,
    quantization: Quantization,
    device: torch.device,
    path: Path,
    dtype: torch.dtype,
    attention: str = "auto",
) -> LanguageModel:
    """A model from a directory, wrapped for the engine.

    Errors as `load_model`, `LanguageModel`, `check_attention`.
    """
    import torch

    from specextend_cli.engine import native
    from specextend_cli.engine.check import check_long
    from specextend_cli.engine.lm import LanguageModel
    from specextend_cli.models.load import load_model

    check_attention(attention, device)
    make_current(device)
    own = {source.path for source in (preset.target.source, preset.draft.source) if isinstance(source, LocalSource)}
    made = isinstance(preset.target.source, (GgufSource, OllamaSource))  # then the preset's name is no argument
    name = "" if path in own else str(preset.target.source) if made else preset.name
    # The native library's own check follows where it runs the model.
    further: dict[str, Any] = {} if device.type == "cpu" and native.is_loaded() else {"check": check_long}
    try:
        model = load_model(path, device=device, dtype=dtype, quantization=quantization, name=name)
        return LanguageModel(model, backend=attention, **further)
    except torch.OutOfMemoryError as error:
        raise _too_large(preset, str(error)) from error


def drafter_of(
    preset: Preset,
    options: Engine,
    target: Target,
    retrieval: Retrieval,
    draft: Path | None,
    load: Callable[[Path, torch.dtype], LanguageModel],
    load_head: Callable[[Path], EagleHead],
) -> Drafter:
    """The drafter that `options` or the preset names; `load` loads its model, `load_head` its head.

    UsageError: there is no such model. ModelError: its token ids mean other texts than the target's. FitError: it does
    not fit beside the target.
    """
    import torch

    from specextend_cli.engine import drafters
    from specextend_cli.models.draft_modules import load_assistant, load_mtp
    from specextend_cli.models.tokens import check_token_ids

    window = preset.draft.window

    def own(kind: str) -> Path:
        check_draft(preset, kind)
        assert draft is not None
        return draft

    def make(kind: str) -> Drafter:
        match kind:
            case "none":
                return drafters.NoDrafter()
            case "ngram":
                return drafters.NgramDrafter()
            case "table":
                return drafters.NgramTableDrafter(load_table(own("table"), target.lm.vocabulary))
            case "lm":
                lm = load(directory := own("lm"), target.lm.dtype)
                check_token_ids(directory, Path(target.lm.model.name_or_path), lm.vocabulary, target.lm.vocabulary)
                return drafters.LMDrafter(lm, target, retrieval, window=window)
            case "self":
                return drafters.LMDrafter(target.lm, target, retrieval)
            case "eagle":
                return drafters.EagleDrafter(load_head(own("eagle")), target, retrieval, window=window)
            case "mtp":
                return drafters.EagleDrafter(load_mtp(target.lm), target, retrieval, window=window)
            case "assistant":
                assistant = load_assistant(own("assistant"), target.lm, name=preset.name)
                return drafters.AssistantDrafter(assistant, target, retrieval)
            case "blend":
                sources = preset.draft.of or ("ngram", preset.draft.model or "self")
                return drafters.BlendDrafter([make(source) for source in sources])
            case _:
                raise AssertionError(f"nothing makes the drafter {kind!r}")

    try:
        return make(options.draft or preset.draft.kind)
    except torch.OutOfMemoryError as error:
        raise _too_large(preset, str(error)) from error


def with_draft(preset: Preset, options: Engine) -> Preset:
    """The preset with the draft that `options` choose. UsageError, ModelError: there is no such draft."""
    if options.draft_head is not None:
        preset = with_head(preset, options.draft_head)
    check_draft(preset, options.draft)
    return preset


def with_head(preset: Preset, directory: str | Path) -> Preset:
    """The preset, drafting with n-grams and the head (and n-gram table) in `directory` instead of its own draft.

    Its working set takes compact positions, which suit every head; an assistant's ignores that. UsageError: there is no
    such directory. ModelError: it holds no head, or a damaged one; said now, without reading its weights, not when
    everything else is loaded.
    """
    path = Path(directory).expanduser().absolute()
    if not path.is_dir():
        why = "--draft-head names a directory with a draft head: config.json beside its weights"
        fix = "fetch or train one for this model: docs/models.md"
        raise UsageError(f"there is no directory {directory}", why=why, fix=fix)
    kind = "assistant" if is_assistant(path) else "eagle"
    if kind == "eagle":
        PublishedHead.read(path)
    checked_weights(path, "")
    of = (kind, "ngram", *(["table"] if (path / FILE).exists() else []))
    draft = Draft(kind="blend", of=of, source=LocalSource(kind="local", path=path))
    retrieval = replace(preset.retrieval, positions="compact")
    return preset.model_copy(update={"draft": draft, "retrieval": retrieval})


def check_draft(preset: Preset, kind: str | None) -> None:
    """UsageError where the preset has no model for a draft of that kind; None is the preset's own."""
    from specextend_cli.engine.registry import DRAFTERS

    if kind is None or not (needs := DRAFTERS[kind].needs) or kind in preset.draft.drafters:
        return
    raise UsageError(
        f"preset {preset.name} has no {needs}",
        why=f"its draft is {preset.draft.kind!r}",
        fix=f"choose --draft ngram, {'' if kind == 'lm' else 'name a head with --draft-head DIR, '}"
        "or a preset with a draft: specextend models list",
    )


def describe(drafter: Drafter) -> str:
    """What drafts, its sources and what a head reads: "blend (eagle3 of layers 2, 16, 29 + ngram)"."""
    from specextend_cli.engine.drafters import AssistantDrafter, BlendDrafter, EagleDrafter

    if isinstance(drafter, BlendDrafter):
        return f"{drafter.name} ({' + '.join(map(describe, drafter.sources))})"
    if isinstance(drafter, EagleDrafter):
        layers = drafter.head.config.feature_layers  # the drafter's own are empty while it is suspended
        return f"{drafter.name} of layers {', '.join(map(str, layers))}"
    if isinstance(drafter, AssistantDrafter):
        return (
            f"{drafter.name} over the keys of layers {', '.join(map(str, sorted(drafter.assistant.sources.values())))}"
        )
    return drafter.name


def heads_of(drafter: Drafter) -> list[EagleHead]:
    """The EAGLE heads that draft."""
    from specextend_cli.engine.drafters import EagleDrafter, model_drafters

    return [source.head for source in model_drafters(drafter) if isinstance(source, EagleDrafter)]


def retrieval_of(preset: Preset, options: Engine) -> Retrieval:
    """What a drafter may see: the preset's unless chosen."""
    return replace(preset.retrieval, policy=cast("Policy", options.draft_attention or preset.retrieval.policy))


def sampling_of(preset: Preset, options: Engine) -> Sampling:
    """How tokens are chosen, the preset's unless chosen."""
    own = preset.decoding
    temperature = own.temperature if options.temperature is None else options.temperature
    return replace(own, temperature=temperature, seed=own.seed if options.seed is None else options.seed)


def is_exact(preset: Preset, options: Engine) -> bool:
    """Whether the target is in float32 because somebody wants it, not because the machine has nothing faster."""
    return target_dtype(preset, options) == "float32"


def check_memory(preset: Preset, device: torch.device, options: Engine, *, context: int | None = None) -> None:
    """FitError where the pair and `context` tokens (default: the preset's window) will hardly fit into what is free."""
    from specextend_cli.engine import native

    dtype = None if options.dtype == "auto" else cast(Dtype, options.dtype)
    need = estimate(preset, context=context, dtype=dtype, on_cpu=device.type == "cpu" and native.is_loaded())
    if need is None:
        return
    graphs = GRAPHS if device.type == "cuda" and are_wanted() else 0
    total = need + graphs
    if total > HEADROOM * free_memory(device):
        gc.collect()  # what was closed: models and what runs them hold each other
    if total > HEADROOM * (free := free_memory(device)):
        why = f"it needs about {total / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free on {device}"
        fits_without = graphs and need <= HEADROOM * free
        raise _too_large(preset, why, fix=f"{VARIABLE}=0 runs it without CUDA graphs" if fits_without else "")


def prefill_step(preset: Preset, device: torch.device, options: Engine) -> int:
    """Tokens of a prefill step: on a GPU the larger ones are faster, as far as half of what is free now holds them."""
    if device.type == "cpu":
        return PREFILL
    dtype, free = None if options.dtype == "auto" else cast(Dtype, options.dtype), free_memory(device)
    steps = (step for step in _GPU_STEPS if 2 * prefill_bytes(preset, step, dtype=dtype) <= free)
    return next(steps, PREFILL)


def _too_large(preset: Preset, why: str, *, fix: str = "") -> FitError:
    fix = fix or "specextend models list shows those that fit"
    return FitError(f"preset {preset.name} does not fit into memory", why=why, fix=fix)


def end_tokens(lm: LanguageModel | TransformersModel) -> frozenset[int]:
    """Tokens that end an answer, as the model's own generation settings say."""
    ends = getattr(lm.model.generation_config, "eos_token_id", None)
    ends = lm.config.eos_token_id if ends is None else ends
    if ends is None:
        why = "neither generation_config.json nor config.json has eos_token_id"
        fix = "add it to generation_config.json in the model's directory"
        raise ModelError(f"{type(lm.model).__name__} names no token that ends an answer", why=why, fix=fix)
    return frozenset([ends] if isinstance(ends, int) else ends)
