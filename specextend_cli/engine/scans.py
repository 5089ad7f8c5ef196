"""transformers' own functions of recurrent layers, over the nodes of a draft tree.

A model file of transformers calls a convolution and a scan by their names in that file. They take tokens in order, and
tell the state after the last only. Here the names lead to wrappers, which do nothing but in a forward over a tree: they
then call the same function for each level, with the state of each node's parent, and remember the inputs, so that the
state after any path can be computed again. No layer is rewritten, and projections stay one product over all nodes.
"""

from __future__ import annotations

import functools
import inspect
import logging
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor
from transformers import PreTrainedModel

from specextend_cli.engine.cache import layer_kinds
from specextend_cli.engine.recurrent import RecurrentLayer
from specextend_cli.engine.recurrent_rows import RUNNING

CONVOLUTION = "causal_conv1d_fn"


class Scan(NamedTuple):
    """How to call a recurrence for a block of tokens.

    `over` are its arguments [b, tokens, ...]; `state` the argument with the state before; `wanted` that which asks for
    the state after, its second result. `step` computes the same token by token, by default the function itself, called
    with `fixed`.
    """

    over: tuple[str, ...]
    state: str
    wanted: str
    step: str | None = None
    fixed: tuple[tuple[str, int], ...] = ()


def _delta(step: str) -> Scan:
    return Scan(("query", "key", "value", "g", "beta"), "initial_state", "output_final_state", step)


SCANS = {
    "torch_chunk_gated_delta_rule": _delta("torch_recurrent_gated_delta_rule"),
    "chunk_kimi_delta_attention": _delta("recurrent_kimi_delta_attention"),
    "mamba2_chunk_scan": Scan(
        ("hidden_states", "dt", "B", "C"), "initial_states", "return_final_states", fixed=(("chunk_size", 1),)
    ),
}
"""By their names in transformers' model files."""


def follow_trees(model: PreTrainedModel) -> str | None:
    """Let the recurrent layers of the model's kind compute trees; why that cannot be done, in words."""
    # Told once for each function by its logger, in the middle of a run; `-v` says what such models run by.
    logging.getLogger("transformers.integrations.hub_kernels").addFilter(_is_no_advice)
    names = set(getattr(model.config, "layer_types", None) or ())
    files = {sys.modules[type(module).__module__] for module in model.modules()}
    for file in files:
        found = [name for name in SCANS if hasattr(file, name)]
        for name in found:
            _replace(file, name, functools.partial(_scan, SCANS[name], file))
        if hasattr(file, CONVOLUTION):
            _replace(file, CONVOLUTION, _convolve)
    has = {name for file in files for name in (*SCANS, CONVOLUTION) if hasattr(file, name)}
    if any(kind.recurs for kind in layer_kinds(model.config)) and CONVOLUTION not in has:
        return "its recurrent layers do not compute by a function that is known here"
    if names & {"linear_attention", "hybrid"} and not has & SCANS.keys():
        return "its recurrent layers cannot go on from a state with several tokens"
    return None


def _is_no_advice(record: logging.LogRecord) -> bool:
    return "is falling back to its reference PyTorch implementation" not in record.getMessage()


def _replace(file: Any, name: str, call: Callable[..., Any]) -> None:
    original = getattr(file, name)
    if getattr(original, "follows_trees", False):
        return

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        rows = RUNNING.get()
        if rows is None or rows.layer is None:
            return original(*args, **kwargs)
        return call(original, rows.layer, *args, **kwargs)

    wrapper.follows_trees = True  # type: ignore[attr-defined]
    setattr(file, name, wrapper)


def _torch_path(function: Callable[..., Any]) -> Callable[..., Any]:
    """transformers' own code, also where a package of kernels takes its place: those expect long blocks."""
    innermost: Callable[..., Any] = inspect.unwrap(function)
    return innermost


def _convolve(original: Callable[..., Tensor], layer: Any, windows: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Of the rows' windows [n, channels, size] (see `RecurrentLayer.update_conv_state`): outputs [1, channels, n]."""
    kwargs = {name: value for name, value in kwargs.items() if name in _parameters(original)}
    outputs: Tensor = layer.convolved(_torch_path(original)(windows, *args, **kwargs)[..., -1])
    return outputs


def _scan(spec: Scan, file: Any, original: Callable[..., Any], layer: Any, *args: Any, **kwargs: Any) -> Any:
    """The outputs [1, n, ...] of the tree's rows, level by level, and a state that nobody reads."""
    known = _parameters(original)
    bound = inspect.signature(_torch_path(original)).bind(
        *args, **{name: value for name, value in kwargs.items() if name in known}
    )
    if not isinstance(layer, RecurrentLayer):  # a captured forward has kernels for it (`cuda/placed_states.py`)
        return layer.scan(bound.arguments)
    step = _torch_path(getattr(file, spec.step) if spec.step else original)
    given = {**bound.arguments, **dict(spec.fixed), spec.wanted: True}
    given.pop("kwargs", None)
    if spec.step:
        given.pop("chunk_size", None)
    over = {name: given.pop(name) for name in spec.over}

    def run(inputs: dict[str, Tensor], state: Tensor | None) -> tuple[Tensor, Tensor]:
        out: tuple[Tensor, Tensor] = step(**{**given, **inputs, spec.state: state})
        return out

    outputs, level = None, layer.level.get(0)
    for rows, parents, _ in layer.rows.levels:
        state = level
        if level is not None and not len(level) == len(rows) == 1:
            state = level.index_select(0, parents)
        part, level = run({name: value[0].index_select(0, rows)[:, None] for name, value in over.items()}, state)
        if outputs is None:
            outputs = part.new_empty(1, layer.rows.count, *part.shape[2:])
        outputs[0].index_copy_(0, rows, part[:, 0])
    assert outputs is not None
    assert level is not None
    layer.level[0] = level

    def along(path: Tensor, state: Tensor | None) -> Tensor:
        return run({name: value.index_select(1, path) for name, value in over.items()}, state)[1]

    layer.recorded[0] = along
    return outputs, level


@functools.cache
def _parameters(function: Callable[..., Any]) -> frozenset[str]:
    return frozenset(inspect.signature(_torch_path(function)).parameters)
