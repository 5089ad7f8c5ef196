"""Modules whose parameters are allocated and nothing else, because files hold what they will be.

Random weights take seconds for a large vocabulary. On the meta device, where transformers builds a model before it
reads it, they take none, but torch's functions for it are written in Python there and import torch's compiler to say
that it must not touch them: a sixth of the time that a run takes to start.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class Undrawn(TorchFunctionMode):
    """While it is entered, `torch.nn.init` leaves tensors as they are, and `torch.arange` is never on "meta"."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if getattr(function, "__module__", None) == "torch.nn.init":
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        if function is torch.arange and str(kwargs.get("device")) == "meta":
            kwargs["device"] = "cpu"
        return function(*args, **kwargs)
