"""A faster import of transformers, without modules that a single process on one machine never uses.

A fourth of its import time goes to torch's distributed checkpoints and, where scipy, scikit-learn and torchvision are
installed, to losses and assistants that need them. transformers checks whether these are available; during the import,
the checks say no. Another fourth goes to torch's compiler, imported for decorators that disable it and for a context of
masks made by vmap. Stand-ins replace these during the import: it takes 1.2 seconds of processor time instead of 3.1.
Where something else of the compiler is asked for, the real one takes its place. This is done in the program's own
process only: a program that uses this package as a library may need all of transformers.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib import import_module
from threading import RLock
from types import ModuleType
from typing import Any

_NEEDED = {
    "transformers.models.auto.modeling_auto",  # for targets
    "transformers.models.llama.modeling_llama",  # for heads
}
_UNUSED = tuple(
    f"is_{package}_available" for package in ("torch_distributed", "scipy", "sklearn", "vision", "torchvision")
)

_COMPILER, _MASKS = "torch._dynamo", "_trace_wrapped_higher_order_op"
_DECORATORS = ("allow_in_graph", "assume_constant_result", "disable", "disallow_in_graph", "forbid_in_graph")

own_process = False
"""Whether the process is the program's own; the console script sets it."""

_turn = RLock()


def import_transformers() -> None:
    """Import the parts of transformers that every model needs, or wait until another thread has."""
    with _turn:
        if own_process and not sys.modules.keys() >= _NEEDED:
            with _quickly(), suppress(ImportError, RuntimeError):  # another version may need what is left out
                _import()
        _import()


def _import() -> None:
    for name in sorted(_NEEDED):
        import_module(name)


@contextmanager
def _quickly() -> Iterator[None]:
    # What imports make is there to stay: the collector would look through it again and again, now and later.
    gc.disable()
    try:
        with _without_unused(), _without_compiler():
            yield
    finally:
        gc.freeze()
        gc.enable()


def _without_unused() -> AbstractContextManager[None]:
    from transformers import utils
    from transformers.utils import import_utils

    from specextend_cli.engine.temporary import exchanged

    # `bool`, called without arguments, says False.
    return exchanged((at, name, bool) for at in (utils, import_utils) for name in _UNUSED if hasattr(at, name))


@contextmanager
def _without_compiler() -> Iterator[None]:
    """Replace `torch._dynamo` by a stand-in with its decorators and `TransformGetItemToIndex`."""
    if _COMPILER in sys.modules:
        yield
        return
    compiler, masks = ModuleType(_COMPILER), ModuleType(f"{_COMPILER}.{_MASKS}")
    vars(compiler).update({"__path__": [], "__getattr__": _itself, _MASKS: masks}, **dict.fromkeys(_DECORATORS, _as_is))
    vars(masks).update({"__getattr__": _itself, "TransformGetItemToIndex": _transform})
    sys.modules.update({_COMPILER: compiler, f"{_COMPILER}.{_MASKS}": masks})
    try:
        yield
    finally:
        _take_back()


def _take_back() -> None:
    if getattr(sys.modules.get(_COMPILER), "__getattr__", None) is _itself:
        for name in (_COMPILER, f"{_COMPILER}.{_MASKS}"):
            sys.modules.pop(name, None)
        if "torch" in sys.modules:
            vars(sys.modules["torch"]).pop("_dynamo", None)


def _itself(name: str) -> Any:
    """Attributes that the stand-in lacks are those of the real module."""
    if name.startswith("__"):
        raise AttributeError(name)
    _take_back()
    return getattr(import_module(_COMPILER), name)


def _as_is(function: Any = None, *_: Any, **__: Any) -> Any:
    """A decorator that does nothing, applied to a function or called with arguments."""
    return _as_is if function is None else function


def _transform() -> Any:
    return import_module(f"{_COMPILER}.{_MASKS}").TransformGetItemToIndex()
