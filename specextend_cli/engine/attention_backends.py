"""The attention back ends by name, each declared once: options, `check_attention` and "auto" follow from `BACKENDS`.

Importing this module does not import torch, so that options can name back ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    import torch

    from specextend_cli.engine.attention.function import Backend


@dataclass(frozen=True)
class AttentionBackend:
    """`make` imports the back end. `device` is the kind of device it runs on, None: any.

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


def _from(module: str, name: str) -> Any:
    """Something of a module in `attention/`, which is imported when it is needed."""
    return getattr(import_module(f"specextend_cli.engine.attention.{module}"), name)


# Later ones are tried first.
BACKENDS: dict[str, AttentionBackend] = {
    "reference": AttentionBackend(lambda: _from("reference", "reference")),
    "torch": AttentionBackend(lambda: _from("hybrid", "hybrid"), suits=lambda device: device.type != "cpu"),
    "flash_attn": AttentionBackend(
        lambda: _from("flash_package", "flash_attn"),
        device="cuda",
        suits=lambda device: _from("flash_package", "is_best_for_prompts")(device),
        missing=lambda: "" if _from("flash_package", "is_installed")() else "flash-attn",
    ),
    "split": AttentionBackend(lambda: _from("split_kv", "split_kv"), device="cpu", suits=lambda device: True),
    "triton": AttentionBackend(
        lambda: _from("triton_tree", "triton_tree"),
        device="cuda",
        suits=lambda device: True,
        missing=lambda: "" if find_spec("triton") is not None else "triton",
        graphed=True,
    ),
}

if TYPE_CHECKING:
    Attention: TypeAlias = str
else:
    Attention = Literal[("auto", *BACKENDS)]
