"""CUDA graphs rehearsed without a GPU: what is captured is run again, and must be what a graph would repeat.

A graph repeats launches: the same operations with the same numbers over the same addresses. A capture fails where the
host reads or uploads something. Both show in the operations that PyTorch dispatches, on any device.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

from tests.helpers.pretend_device import INDEXING, READS
from tests.helpers.repeated_capture import tensors

_aten = torch.ops.aten
_HOST = READS | {_aten.lift_fresh, _aten.lift_fresh_copy}  # the last two: torch.tensor, an upload
_METHODS = {"tolist", "numpy", "cpu", "__array__"}  # on a processor, these dispatch nothing


class CaptureError(AssertionError):
    """What a capture would refuse, or a replay repeat wrongly. No RuntimeError: those make graphs fall back."""


class _OnHost(TorchFunctionMode):
    """Refuses what reads a tensor's memory from Python."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = (*args, *(kwargs or {}).values())
        name = getattr(func, "__name__", "")
        if name in _METHODS or (name == "to" and "cpu" in [each for each in given if isinstance(each, str)]):
            raise CaptureError(f"the host reads a tensor: {name}")
        return func(*args, **kwargs or {})


@dataclass
class _Recording(TorchDispatchMode):
    """The operations of one run, and the memory that they allocate."""

    steps: list[Any] = field(default_factory=list)
    made: dict[int, int] = field(default_factory=dict)
    """By storage: the number of the allocation."""
    memory: list[StorageWeakRef] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def __hash__(self) -> int:
        return id(self)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # PyTorch's compiler, through which every operation would be called

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        kind = func.overloadpacket
        if kind in _HOST or (func is _aten.repeat_interleave.Tensor and kwargs.get("output_size") is None):
            raise CaptureError(f"the host waits for the device: {func}")
        if kind in INDEXING and any(index is not None and index.dtype == torch.bool for index in args[1]):
            raise CaptureError(f"the host waits for the device: {func} with a Boolean index")
        return self.note(func, args, kwargs, func)

    def note(self, name: Any, args: Any, kwargs: Any, run: Callable[..., Any]) -> Any:
        """Run one operation and remember what it was given."""
        known = set[int]()
        self.steps.append((str(name), self._described((args, kwargs), known)))
        out = run(*args, **kwargs)
        for leaf in (out,) if isinstance(out, Tensor) else tree_leaves(out):
            if isinstance(leaf, Tensor) and (storage := leaf.untyped_storage())._cdata not in known:
                self.made[storage._cdata] = len(self.memory)
                self.memory.append(StorageWeakRef(storage))
        return out

    def _described(self, given: Any, known: set[int]) -> Any:
        """A tensor by its place: in the run's own memory, which a graph keeps, or at an address outside.

        `known` is told the storages. No `tree_map`, which takes half of the time of a test.
        """
        if isinstance(given, Tensor):
            storage = given.untyped_storage()._cdata
            known.add(storage)
            number = self.made.get(storage)
            place = ("address", given.data_ptr()) if number is None else ("allocation", number, given.storage_offset())
            return (*place, given.shape, given.stride(), given.dtype)
        if isinstance(given, list | tuple):
            return [self._described(one, known) for one in given]
        if isinstance(given, dict):
            return {name: self._described(one, known) for name, one in given.items()}
        return repr(given)


@dataclass
class Rehearsal:
    """A `Capture` without CUDA. What is computed again goes where the first result lies, as in a graph."""

    captures: int = 0
    replays: int = 0
    present: _Recording | None = None

    def __call__(self, body: Callable[[], Any], device: torch.device) -> tuple[Any, Callable[[], None]]:
        self.captures += 1
        body()  # as before a capture, which may not compile or fill caches
        first, captured = self._run(body)
        results = tensors(first)
        gc.collect()
        kept = {tensor.untyped_storage()._cdata for tensor in results}
        if left := [ref for ref in captured.memory if not ref.expired() and ref.cdata not in kept]:
            raise CaptureError(f"{len(left)} tensors outlive the capture, and are overwritten by every replay")
        addresses = [tensor.data_ptr() for tensor in results]
        for tensor in results:
            tensor.fill_(torch.nan)  # a graph computes nothing while it is captured

        def replay() -> None:
            self.replays += 1
            again, recorded = self._run(body)
            for step, (ours, theirs) in enumerate(zip(recorded.steps, captured.steps, strict=False)):
                if ours != theirs:
                    raise CaptureError(f"operation {step} was captured as {theirs} and is now {ours}")
            if len(recorded.steps) != len(captured.steps):
                raise CaptureError(
                    f"{len(captured.steps)} operations were captured, now there are {len(recorded.steps)}"
                )
            if addresses != [tensor.data_ptr() for tensor in results]:
                raise CaptureError("the results have moved")
            for old, new in zip(results, tensors(again), strict=True):
                old.copy_(new)

        return first, replay

    def opaque(self, kernel: Callable[..., Any]) -> Callable[..., Any]:
        """A kernel as one operation: what its interpreter does is not what a device would do."""

        def unseen(*args: Any, **kwargs: Any) -> Any:
            with _disable_current_modes(), torch._C.DisableTorchFunction():
                return kernel(*args, **kwargs)

        def call(*args: Any, **kwargs: Any) -> Any:
            if self.present is None:
                return kernel(*args, **kwargs)
            return self.present.note(kernel.__name__, args, kwargs, unseen)

        return call

    def _run(self, body: Callable[[], Any]) -> tuple[Any, _Recording]:
        self.present = recording = _Recording()
        try:
            with _OnHost(), recording:
                return body(), recording
        finally:
            self.present = None
