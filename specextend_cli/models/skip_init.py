"""Models built on the meta device, where nothing is computed, without torch's compiler.

Before a model is read from its files it is built there, as transformers does. Much of what torch does on that device
is written in Python, and imports torch's compiler to say that it must not touch it: a fifth of the time that a run
takes to start. Building a model comes to that in two places. Random weights need not be drawn there, where they are no
numbers; and the numbers that RoPE's angles are computed from, before they are computed again on the right device, may
as well be real. Where an angle needs others besides (LongRoPE), that is an error, and the model is built without this.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class SkipInit(TorchFunctionMode):
    """While it is entered, tensors on the meta device are not drawn, and `torch.arange` is never there.

    `anywhere`: no tensor is drawn, whatever its device, for modules all of whose parameters are read from files.
    """

    def __init__(self, *, anywhere: bool = False) -> None:
        super().__init__()
        self._anywhere = anywhere

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if getattr(function, "__module__", None) == "torch.nn.init":
            tensor = kwargs["tensor"] if "tensor" in kwargs else args[0]
            if tensor.is_meta or self._anywhere:
                return tensor
        if function is torch.arange and str(kwargs.get("device")) == "meta":
            kwargs["device"] = "cpu"
        return function(*args, **kwargs)
