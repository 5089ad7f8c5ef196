"""transformers, imported without what a single process on one machine never calls.

Where scipy is installed, a fourth of the time in which it imports goes to torch's distributed checkpoints and to losses
that train with scipy. It asks whether these are there, since there are builds of torch without them; here it is told
that they are not. Another fourth goes to torch's compiler, which it imports for decorators that say how not to compile
something, and for a context that masks made by vmap need. There are stand-ins for these while it imports; whoever does
enter that context, or asks for anything else, gets the real one. Only a process of our own may do so: a program that
uses us as a library may want all of it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_NEEDED = ("models.auto.modeling_auto", "models.llama.modeling_llama")  # a target's, by its name; a head's
_UNUSED = ("is_torch_distributed_available", "is_scipy_available")

_COMPILER, _MASKS = "torch._dynamo", "_trace_wrapped_higher_order_op"
_DECORATORS = ("allow_in_graph", "assume_constant_result", "disable", "disallow_in_graph", "forbid_in_graph")

own_process = False
"""Whether nobody but this program runs in this process: the console script says so."""


def import_transformers() -> None:
    """What every model is made of. Later imports of it cost nothing."""
    with _without_unused() if own_process else nullcontext(), _without_compiler() if own_process else nullcontext():
        for name in _NEEDED:
            import_module(f"transformers.{name}")


@contextmanager
def _without_unused() -> Iterator[None]:
    from transformers import utils
    from transformers.utils import import_utils

    asked = [(place, name) for place in (utils, import_utils) for name in _UNUSED if hasattr(place, name)]
    before = [getattr(place, name) for place, name in asked]
    for place, name in asked:
        setattr(place, name, bool)  # called without arguments, it says False
    try:
        yield
    finally:
        for (place, name), value in zip(asked, before, strict=True):
            setattr(place, name, value)


@contextmanager
def _without_compiler() -> Iterator[None]:
    """`torch._dynamo` for whoever only decorates with it, or names `TransformGetItemToIndex`; for others, itself."""
    if _COMPILER in sys.modules:
        yield
        return
    compiler, masks = ModuleType(_COMPILER), ModuleType(f"{_COMPILER}.{_MASKS}")
    vars(compiler).update({"__path__": [], "__getattr__": _itself, _MASKS: masks}, **dict.fromkeys(_DECORATORS, _as_is))
    vars(masks).update({"__getattr__": _itself, "TransformGetItemToIndex": _transform})
    sys.modules.update({_COMPILER: compiler, f"{_COMPILER}.{_MASKS}": masks})
    modules = _Modules()
    sys.meta_path.insert(0, modules)
    try:
        yield
    finally:
        sys.meta_path.remove(modules)
        _take_back()


class _Modules(MetaPathFinder, Loader):
    """Modules of `torch._dynamo`, for whoever imports one while it is stood in for: those of the real one."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if not name.startswith(f"{_COMPILER}.") or not _stands_in():
            return None
        _take_back()
        import_module(name)
        return ModuleSpec(name, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return sys.modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """It was."""


def _stands_in() -> bool:
    return getattr(sys.modules.get(_COMPILER), "__getattr__", None) is _itself


def _take_back() -> None:
    if _stands_in():
        for name in (_COMPILER, f"{_COMPILER}.{_MASKS}"):
            sys.modules.pop(name, None)
        if "torch" in sys.modules:
            vars(sys.modules["torch"]).pop("_dynamo", None)


def _itself(name: str) -> Any:
    """What a stand-in does not have, the real one may."""
    if name.startswith("__"):
        raise AttributeError(name)
    _take_back()
    return getattr(import_module(_COMPILER), name)


def _as_is(function: Any = None, *_: Any, **__: Any) -> Any:
    """A decorator for the compiler, where nothing is compiled; with a function, or with arguments alone."""
    return _as_is if function is None else function


def _transform() -> Any:
    return import_module(f"{_COMPILER}.{_MASKS}").TransformGetItemToIndex()
