"""Building models on the meta device without initializing their weights.

transformers builds a model on the meta device before it reads the weights. Some of torch's operations on that device
import torch's compiler, which takes a fifth of a run's start. Building a model uses them in two places: random
initialization, which is skipped, and the `arange` of RoPE's angles, which is done on the processor; the angles are
computed again on the right device later. Where that fails (LongRoPE), the model is built without this.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class SkipInit(TorchFunctionMode):
    """Within, `torch.nn.init` leaves tensors on the meta device as they are, and `torch.arange` is never there.

    `anywhere`: it leaves all tensors as they are, for modules all of whose parameters are read from files.
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
