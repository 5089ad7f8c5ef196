"""transformers' own functions of recurrent layers, over a chain of tokens that may be cut, or in a captured forward.

A model file of transformers calls a convolution and a scan by their names in that file, and the scan tells the state
after the last token only. Here the names lead to wrappers, which do nothing but in such forwards. Of a chain they
compute token by token, as plain decoding does, and remember the inputs, so that the state after any part of it can be
computed again. No layer is rewritten.
"""

from __future__ import annotations

import functools
import inspect
import logging
import sys
from collections.abc import Callable
from typing import Any

from torch import Tensor
from transformers import PreTrainedModel

from specextend_cli.engine.recurrent import RUNNING, RecurrentLayer

CONVOLUTION = "causal_conv1d_fn"
SCAN = "torch_chunk_gated_delta_rule"
_STEP = "torch_recurrent_gated_delta_rule"  # computes the same token by token
_OVER = ("query", "key", "value", "g", "beta")  # its arguments [b, tokens, ...]


def follow_tokens(model: PreTrainedModel) -> str | None:
    """Let the recurrent layers of the model's kind tell states within a block; why that cannot be done, in words."""
    files = {sys.modules[type(module).__module__] for module in model.modules()}
    scanning, convolving = ([file for file in files if hasattr(file, name)] for name in (SCAN, CONVOLUTION))
    for file in scanning:
        _replace(file, SCAN, functools.partial(_scan, file))
    for file in convolving:
        _replace(file, CONVOLUTION, _convolve)
    if not convolving or ("linear_attention" in model.config.layer_types and not scanning):
        return "its recurrent layers are neither gated delta nets nor short convolutions"
    return None


# Which packages transformers would like would be told in the middle of a run, once for each function.
logging.getLogger("transformers.integrations.hub_kernels").addFilter(
    lambda record: "is falling back to its reference PyTorch implementation" not in record.getMessage()
)


def _replace(file: Any, name: str, call: Callable[..., Any]) -> None:
    original = getattr(file, name)
    if getattr(original, "follows_tokens", False):
        return
    # transformers' own code, also where a package of kernels takes its place: those expect long blocks.
    stock = inspect.unwrap(original)
    known = inspect.signature(stock).parameters

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        now = RUNNING.get()
        if not now:
            return original(*args, **kwargs)
        return call(stock, now[-1], *args, **{name: value for name, value in kwargs.items() if name in known})

    wrapper.follows_tokens = True  # type: ignore[attr-defined]
    setattr(file, name, wrapper)


def _convolve(stock: Callable[..., Tensor], layer: Any, seen: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """The outputs [b, channels, n]. In a captured forward, `seen` are the rows' windows [n, channels, size]."""
    outputs = stock(seen, *args, **kwargs)
    convolved: Tensor = outputs if isinstance(layer, RecurrentLayer) else layer.convolved(outputs[..., -1])
    return convolved


def _scan(file: Any, stock: Callable[..., Any], layer: Any, *args: Any, **kwargs: Any) -> Any:
    """The outputs [1, n, ...] of the rows, and the state after them."""
    given = inspect.signature(stock).bind(*args, **kwargs).arguments
    if not isinstance(layer, RecurrentLayer):  # a captured forward has kernels for it (`cuda/stock.py`)
        return layer.scan(given)
    given["output_final_state"] = True
    given.pop("chunk_size", None)
    step = inspect.unwrap(getattr(file, _STEP))
    layer.recorded = lambda rows: step(**{**given, **{name: given[name][:, :rows] for name in _OVER}})[1]
    return step(**given)
