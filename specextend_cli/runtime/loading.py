"""A preset's models, loaded and joined: target, drafter, and the settings that belong to them."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import psutil

from specextend_cli.engine.attribution import attribution_layers
from specextend_cli.errors import FitError, ModelError, UsageError
from specextend_cli.models.memory import HEADROOM, estimate
from specextend_cli.models.preset import Dtype, LocalSource, Preset, Quantization
from specextend_cli.models.sources import ModelDirectories as Directories
from specextend_cli.models.tokens import TextEncoder
from specextend_cli.runtime.eagle_head import load_eagle
from specextend_cli.runtime.process_group import crew

if TYPE_CHECKING:
    import torch

    from specextend_cli.engine.config import Retrieval, Sampling
    from specextend_cli.engine.drafters import Drafter
    from specextend_cli.engine.head import EagleHead
    from specextend_cli.engine.lm import LanguageModel
    from specextend_cli.engine.target import Target
    from specextend_cli.engine.tensor_parallel import ProcessGroup
    from specextend_cli.summarize.text_generator import TextGenerator


@dataclass(frozen=True)
class EngineOptions:
    """What the user may ask for instead of the preset's own settings; None keeps them. `head` see `with_head`.

    `compile`: on processors, decoding runs compiled layers (see `compiling`).
    """

    draft: str | None = None
    head: str | None = None
    policy: str | None = None
    temperature: float | None = None
    seed: int | None = None
    device: str = "auto"
    dtype: str = "auto"
    compile: bool = True

    def __post_init__(self) -> None:
        if self.temperature is not None and not 0 <= self.temperature < math.inf:
            raise UsageError(f"--temperature {self.temperature} is no temperature", fix="0, which is greedy, or more")


def load_writer(preset: Preset, directories: Directories, choices: EngineOptions) -> TextGenerator:
    """Load everything. Takes seconds. ModelError, FitError, UsageError: said by what is loaded.

    Where several processes share the target, all of them load their parts of it now; drafts are this one's alone.
    """
    from specextend_cli.engine.batch import slots_for
    from specextend_cli.engine.config import TreeShape
    from specextend_cli.engine.draft_gate import DraftGate
    from specextend_cli.models.load import load_tokenizer
    from specextend_cli.summarize.text_generator import TextGenerator

    if shared := crew():
        shared.tell("load", preset, directories, choices)
    target = load_target(preset, directories, choices)
    lm, device = target.lm, target.lm.device
    retrieval = retrieval_of(preset, choices, partial(TextEncoder.of, directories.target))
    tree = preset.tree
    return TextGenerator(
        target=target,
        drafter=drafter_of(
            preset, choices, target, retrieval, directories.draft, partial(_load, preset, "none", device, None)
        ),
        tokenizer=load_tokenizer(directories.target),
        sampling=sampling_of(preset, choices),
        retrieval=retrieval,
        budget=DraftGate(TreeShape(tree.nodes, tree.depth, tree.width, tree.threshold)),
        eos=end_tokens(lm),
        prefill_chunk=1024 if device.type == "cpu" else 4096,
        # A batch's steps are no orders that other processes know.
        together=1
        if shared
        else slots_for(lm, preset.window.chunk + 2 * preset.window.note_tokens, free_memory(device) // 4),
    )


def load_target(preset: Preset, directories: Directories, choices: EngineOptions) -> Target:
    """The preset's target, or this process's part of it; errors as `load_writer`."""
    from specextend_cli.engine.target import Target

    shared = crew()
    device = device_of(choices.device)
    dtype = dtype_of(choices.dtype if choices.dtype != "auto" else preset.target.dtype, device)
    check_memory(preset, device, choices, parts=shared.size if shared else 1)
    lm = _load(preset, preset.target.quantization, device, shared, directories.target, dtype)
    scored, looked = preset.retrieval.layers, attribution_layers(lm.layers)
    if not all(-lm.layers <= layer < lm.layers for layer in scored):
        raise ModelError(
            f"preset {preset.name} chooses by layers {', '.join(map(str, scored))} of its target",
            why=f"it has layers 0 to {lm.layers - 1}",
            fix="layers under [retrieval]: specextend bench --experiment recall says which find what is hidden",
        )
    if shared and shared.rank == 0:
        from specextend_cli.engine.tensor_parallel import LeadingTarget

        return LeadingTarget(lm, shared, score_layers=scored, look_layers=looked)
    return Target(lm, score_layers=scored, look_layers=looked)


def _load(
    preset: Preset,
    quantization: Quantization,
    device: torch.device,
    shared: ProcessGroup | None,
    path: Path,
    dtype: torch.dtype,
) -> LanguageModel:
    import torch

    from specextend_cli.engine.lm import LanguageModel
    from specextend_cli.models.load import load_model

    own = {source.path for source in (preset.target.source, preset.draft.source) if isinstance(source, LocalSource)}
    name = "" if path in own else preset.name
    try:
        with shared.in_turn() if shared else nullcontext():
            model = load_model(path, device=device, dtype=dtype, quantization=quantization, name=name, crew=shared)
        return LanguageModel(model, parts=shared.size if shared else 1)
    except torch.OutOfMemoryError as error:
        raise _too_large(preset, str(error)) from error


def drafter_of(
    preset: Preset,
    choices: EngineOptions,
    target: Target,
    retrieval: Retrieval,
    draft: Path | None,
    load: Callable[[Path, torch.dtype], LanguageModel],
    load_head: Callable[[Path], EagleHead] | None = None,
) -> Drafter:
    """The drafter that `choices` or the preset names; `load` loads its model. UsageError: there is no such model.

    `load_head` stands in for loading an EAGLE head: whoever makes many drafters needs it once.
    """
    from specextend_cli.engine.drafters import BlendDrafter, EagleDrafter, LMDrafter, NgramDrafter, NoDrafter

    def own(kind: str) -> Path:
        check_draft(preset, kind)
        assert draft is not None
        return draft

    def make(kind: str) -> Drafter:
        if kind == "none":
            return NoDrafter(target.lm.device)
        if kind == "ngram":
            return NgramDrafter(target.lm.device)
        if kind == "self":
            if target.lm.parts > 1:
                raise UsageError("a target that processes share cannot draft for itself", fix="--draft ngram")
            return LMDrafter(target.lm, target, retrieval)
        if kind == "lm":
            wanted = preset.draft.dtype if choices.dtype == "auto" else choices.dtype
            dtype = dtype_of(wanted, target.lm.device) if wanted != "auto" else target.lm.dtype
            return LMDrafter(load(own(kind), dtype), target, retrieval, window=preset.draft.window)
        if kind == "eagle":
            # In the target's number format, because the two may share an embedding and an output layer.
            directory = own(kind)
            head = load_head(directory) if load_head else load_eagle(directory, target.lm, preset.name)
            return EagleDrafter(head, target, retrieval, window=preset.draft.window)
        parts = preset.draft.of or ("ngram", preset.draft.model or "self")
        return BlendDrafter([make(part) for part in parts])

    return make(choices.draft or preset.draft.kind)


def check_draft(preset: Preset, kind: str | None) -> None:
    """UsageError where the preset has no model for a draft of that kind; None is the preset's own."""
    if kind not in ("lm", "eagle") or kind == preset.draft.model:
        return
    raise UsageError(
        f"preset {preset.name} has no {'draft model' if kind == 'lm' else 'EAGLE head'}",
        why=f"its draft is {preset.draft.kind!r}",
        fix=f"choose --draft ngram, {'' if kind == 'lm' else 'name a head with --head DIR, '}"
        "or a preset with a draft: specextend presets list",
    )


def describe(drafter: Drafter) -> str:
    """What drafts, its sources and what a head reads: "blend (eagle3 of layers 2, 16, 29 + ngram)"."""
    from specextend_cli.engine.drafters import BlendDrafter, EagleDrafter

    if isinstance(drafter, BlendDrafter):
        return f"{drafter.name} ({' + '.join(map(describe, drafter.sources))})"
    if isinstance(drafter, EagleDrafter):
        return f"{drafter.name} of layers {', '.join(map(str, drafter.feature_layers))}"
    return drafter.name


def heads_of(drafter: Drafter) -> list[EagleHead]:
    """The EAGLE heads that draft."""
    from specextend_cli.engine.drafters import BlendDrafter, EagleDrafter

    sources = drafter.sources if isinstance(drafter, BlendDrafter) else (drafter,)
    return [source.head for source in sources if isinstance(source, EagleDrafter)]


def retrieval_of(preset: Preset, choices: EngineOptions, encoder: Callable[[], TextEncoder]) -> Retrieval:
    """What a drafter may see, the preset's unless chosen; the target's `encoder` knows where sentences end."""
    from specextend_cli.engine.config import Retrieval

    wanted = preset.retrieval.model_dump()
    if wanted.pop("cut") == "sentences":
        wanted["breaks"] = encoder().sentence_ends
    if choices.policy is not None:
        wanted["policy"] = choices.policy
    return Retrieval(**wanted)


def sampling_of(preset: Preset, choices: EngineOptions) -> Sampling:
    """How tokens are chosen, the preset's unless chosen."""
    from specextend_cli.engine.config import Sampling

    wanted = preset.decoding.model_dump()
    wanted["scope"] = wanted.pop("penalty_scope")
    given = {"temperature": choices.temperature, "seed": choices.seed}
    wanted.update({key: value for key, value in given.items() if value is not None})
    return Sampling(**{**wanted, "seed": wanted["seed"] or 0})


def device_of(name: str) -> torch.device:
    """The device of that name, "auto" the best there is; UsageError where torch does not see it."""
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UsageError(f"there is no device {name!r}", fix="--device auto, cpu, cuda or cuda:1") from error
    devices = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    if (device.index or 0) >= devices.get(device.type, 0):
        seen = ", ".join(f"{count} {kind}" for kind, count in devices.items())
        raise UsageError(f"device {name} is not usable here", why=f"torch sees {seen}", fix="specextend doctor")
    return device


def dtype_of(name: str, device: torch.device) -> torch.dtype:
    """bfloat16 wherever the machine multiplies it natively, float32 elsewhere."""
    import torch

    if name != "auto":
        dtype: torch.dtype = getattr(torch, name)
        return dtype
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    native = torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return torch.bfloat16 if native else torch.float32


def free_memory(device: torch.device) -> int:
    """Bytes that are free on `device` now."""
    import torch

    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)


def check_memory(
    preset: Preset, device: torch.device, choices: EngineOptions, *, context: int | None = None, parts: int = 1
) -> None:
    """FitError where the pair and `context` tokens (default: the preset's window) will hardly fit into what is free.

    Of the target, one of `parts` equal parts has to.
    """
    need = estimate(preset, context=context, dtype=None if choices.dtype == "auto" else cast(Dtype, choices.dtype))
    if need is None:
        return
    free, total = free_memory(device), need.total - (need.weights + need.kv) * (parts - 1) // parts
    if total > HEADROOM * free:
        raise _too_large(preset, f"it needs about {total / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free on {device}")


def _too_large(preset: Preset, why: str) -> FitError:
    return FitError(
        f"preset {preset.name} does not fit into memory", why=why, fix="specextend presets list shows those that fit"
    )


def end_tokens(lm: LanguageModel) -> frozenset[int]:
    """Tokens that end an answer, as the model's own generation settings say."""
    generation = lm.model.generation_config
    ends = getattr(generation, "eos_token_id", None)
    if ends is None:
        ends = lm.config.eos_token_id
    if ends is None:
        raise ModelError(
            f"{type(lm.model).__name__} names no token that ends an answer",
            why="neither generation_config.json nor config.json has eos_token_id",
            fix="add it to generation_config.json in the model's directory",
        )
    return frozenset([ends] if isinstance(ends, int) else ends)
