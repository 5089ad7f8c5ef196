"""transformers, imported without what a single process on one machine never calls.

Where scipy is installed, a fourth of the time in which it imports goes to torch's distributed checkpoints and to losses
that train with scipy. It asks whether these are there, since there are builds of torch without them; here it is told
that they are not. Only a process of our own may tell it so: a program that uses us as a library may want them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module

_NEEDED = ("models.auto.modeling_auto", "models.llama.modeling_llama")  # a target's, by its name; a head's
_UNUSED = ("is_torch_distributed_available", "is_scipy_available")

own_process = False
"""Whether nobody but this program runs in this process: the console script says so."""


def import_transformers() -> None:
    """What every model is made of. Later imports of it cost nothing."""
    with _without_unused() if own_process else nullcontext():
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
