"""The attention back ends by name, each declared once: options, `check_attention` and "auto" follow from `BACKENDS`.

Importing this module does not import torch, so that options can name back ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    import torch

    from specextend_cli.engine.attention.function import Backend


@dataclass(frozen=True)
class AttentionBackend:
    """`make` builds the back end, one for each model. `device` is the kind of device it runs on, None: any.

    `suits` says whether "auto" tries it on a device of that kind. `missing` names the package that it lacks here, or
    is "". CUDA graphs replay only the kernels of one that is `graphed`.
    """

    make: Callable[[], Backend]
    device: Literal["cpu", "cuda"] | None = None
    suits: Callable[[torch.device], bool] = lambda device: False
    missing: Callable[[], str] = lambda: ""
    graphed: bool = False


def preferred(device: torch.device, name: str = "auto") -> tuple[str, ...]:
    """The back ends to try on a device, the best first; only the named one if there is a name. ValueError: unknown."""
    if name == "auto":
        return tuple(
            name
            for name, declared in reversed(BACKENDS.items())
            if declared.device in (None, device.type) and declared.suits(device) and not declared.missing()
        )
    if name not in BACKENDS:
        raise ValueError(f"unknown attention back end {name!r}; there are: {', '.join(BACKENDS)}")
    return (name,)


def backend_for(device: torch.device, name: str = "auto") -> Backend:
    """The named back end, or the one to try first on a device. ValueError for an unknown name."""
    return BACKENDS[preferred(device, name)[0]].make()


def _reference() -> Backend:
    from specextend_cli.engine.attention.reference import reference

    return reference


def _torch() -> Backend:
    from specextend_cli.engine.attention.hybrid import hybrid

    return hybrid


def _flash_attn() -> Backend:
    from specextend_cli.engine.attention.flash_packages import flash_attn

    return flash_attn


def _flash_attn_is_best(device: torch.device) -> bool:
    from specextend_cli.engine.attention.flash_packages import is_best_for_prompts

    return is_best_for_prompts(device)


def _missing_flash_attn() -> str:
    from specextend_cli.engine.attention.flash_packages import installed

    return "" if installed() else "flash-attn"


def _split() -> Backend:
    from specextend_cli.engine.attention.split_kv import SplitKV

    return SplitKV()


def _triton() -> Backend:
    from specextend_cli.engine.attention.triton_tree import triton_tree

    return triton_tree


def _missing_triton() -> str:
    return "" if find_spec("triton") is not None else "triton"


# Later ones are tried first.
BACKENDS: dict[str, AttentionBackend] = {
    "reference": AttentionBackend(_reference),
    "torch": AttentionBackend(_torch, suits=lambda device: device.type != "cpu"),
    "flash_attn": AttentionBackend(_flash_attn, device="cuda", suits=_flash_attn_is_best, missing=_missing_flash_attn),
    "split": AttentionBackend(_split, device="cpu", suits=lambda device: True),
    "triton": AttentionBackend(
        _triton, device="cuda", suits=lambda device: True, missing=_missing_triton, graphed=True
    ),
}

if TYPE_CHECKING:
    Attention: TypeAlias = str
else:
    Attention = Literal[("auto", *BACKENDS)]
