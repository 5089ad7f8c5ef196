"""A pretend accelerator: tensors that say they are on `cuda:0` and are computed on the processor.

Every operation passes a dispatch mode, which fails where CUDA would (tensors of two devices, conditions of its
attention kernels) and counts where the host waits for the device: what it reads, and what it uploads.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, ValuesView
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from specextend_cli.engine.attention.hybrid import capability, is_attention
from tests import ROOT

DEVICE = torch.device("cuda:0")
_PACKAGE = str(ROOT / "specextend_cli")
_aten = torch.ops.aten

READS = {  # The device computes how large the result is, and the host has to know; or the host reads the number.
    *(_aten.nonzero, _aten.masked_select, _aten._local_scalar_dense, _aten.equal, _aten.bincount),
    *(_aten._unique, _aten._unique2, _aten.unique_dim, _aten.unique_consecutive, _aten.unique_dim_consecutive),
}
INDEXING = {_aten.index, _aten.index_put, _aten.index_put_, _aten._index_put_impl_}  # by a mask: the same

_AT_ONCE = 64 << 10
"""Bytes that a driver takes from pageable memory without waiting for the device (CUDA's programming guide)."""
_TAKES_NUMBERS = {_aten.where, _aten.fill_, _aten.masked_fill, _aten.masked_fill_}  # beside what is pointwise
_WHOLE = {  # composites that need no closer look
    *(_aten.linear, _aten.matmul, _aten.scaled_dot_product_attention),
    *(_aten.reshape, _aten.flatten, _aten.contiguous, _aten.chunk, _aten.split),
}


class Pretend(Tensor):
    """A tensor on the pretend device; `inner` has its numbers."""

    inner: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner: Tensor) -> Pretend:
        with torch.inference_mode(False):  # a view of a tensor from without must share its version
            made = Tensor._make_wrapper_subclass(
                cls,
                inner.size(),
                strides=inner.stride(),
                storage_offset=inner.storage_offset(),
                dtype=inner.dtype,
                device=DEVICE,
            )
        made.inner = inner
        return made

    def __repr__(self, **kwargs: Any) -> str:
        return f"Pretend({self.inner!r})"

    def data_ptr(self) -> int:
        """Of its numbers, for what finds memory by its address."""
        return self.inner.data_ptr()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return PretendDevice.present.run(func, args, kwargs or {})


class PretendDevice(TorchDispatchMode):
    """`reads` and `uploads` by the place in the package that caused them; `waits` are uploads the host waits for."""

    present: PretendDevice

    def __init__(self) -> None:
        super().__init__()
        self.reads: Counter[str] = Counter()
        self.uploads: Counter[str] = Counter()
        self.waits: Counter[str] = Counter()
        self.coming: list[tuple[Tensor, Tensor]] = []
        """What the host was sent, and will read there when it has waited for it."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # PyTorch's compiler, which would have to be imported for that

    def forget(self) -> None:
        """Count from zero."""
        for counter in (self.reads, self.uploads, self.waits):
            counter.clear()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.run(func, args, kwargs or {})

    def run(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """One operation: on the processor as it is, or as the device would."""
        tensors = list(_tensors((args, kwargs.values())))
        is_here = any(isinstance(tensor, Pretend) for tensor in tensors)
        given = kwargs.get("device") or next((one for one in args if isinstance(one, torch.device)), None)
        wanted = None if given is None else torch.device(given).type
        if not is_here and wanted != "cuda":
            return func(*args, **kwargs)
        kind, way = func.overloadpacket, _way(func)
        if way == "missing":
            raise RuntimeError(f"{kind} is not there on CUDA")
        if way == "emulated":
            return _each(_wrapped, _EMULATED[kind](*args, **kwargs))
        if way == "composite":
            with self:
                return func.decompose(*args, **kwargs)
        if kind is _aten._to_copy:
            self._moves(args[0], wanted or DEVICE.type, kwargs.get("non_blocking", False))
        elif kind is _aten.copy_:
            self._moves(args[1], args[0].device.type, (*args, False)[2] or kwargs.get("non_blocking", False))
        elif kind in INDEXING:
            self._indexes(args[0], args[1], None if kind is _aten.index else args[2])
        else:
            self._checks(func, args, tensors)
            if kind in READS or (func is _aten.repeat_interleave.Tensor and kwargs.get("output_size") is None):
                _count(self.reads)
        if wanted is not None:
            kwargs = {**kwargs, "device": "cpu"}
        outer = {id(tensor.inner): tensor for tensor in tensors if isinstance(tensor, Pretend)}
        out = func(*_each(_inner, args), **{name: _each(_inner, value) for name, value in kwargs.items()})
        if wanted == "cpu" and kwargs.get("non_blocking"):
            self.coming.append((torch.full_like(out, -1), out))
            return self.coming[-1][0]
        if wanted == "cpu" or (kind is _aten.copy_ and not isinstance(args[0], Pretend)):
            return args[0] if kind is _aten.copy_ else out

        def back(leaf: Any) -> Any:
            if id(leaf) not in outer:
                return _wrapped(leaf)
            known = outer[id(leaf)]
            assert known.shape == leaf.shape, f"{func} has resized a tensor, which nobody here can follow"
            return known

        return _each(back, out)

    def _moves(self, source: Tensor, to: str, is_asynchronous: bool) -> None:
        if isinstance(source, Pretend) and to == "cpu":
            if not is_asynchronous:
                _count(self.reads)
        elif not isinstance(source, Pretend) and to == "cuda" and source.numel():
            _count(self.uploads)
            if not is_asynchronous or source.nbytes > _AT_ONCE:
                _count(self.waits)

    def _indexes(self, source: Tensor, indices: Sequence[Tensor | None], values: Tensor | None) -> None:
        """Indices may lie on the host; Boolean ones are counted, unless one number is put in all their places."""
        given = [index for index in indices if index is not None]
        if not isinstance(source, Pretend) or (values is not None and not isinstance(values, Pretend) and values.dim()):
            _refuse()
        fills = values is not None and values.numel() == 1 and all(index.dtype == torch.bool for index in given)
        for index in given:
            if not isinstance(index, Pretend):
                _count(self.uploads)
                _count(self.waits)
            elif index.dtype in (torch.bool, torch.uint8) and not fills:
                _count(self.reads)

    def _checks(self, func: Any, args: Any, tensors: Sequence[Tensor]) -> None:
        """Numbers of the host, as tensors without dimensions, may be combined with tensors of the device."""
        others = [tensor for tensor in tensors if not isinstance(tensor, Pretend)]
        if not others:
            return
        takes_numbers = torch.Tag.pointwise in func.tags or func.overloadpacket in _TAKES_NUMBERS
        in_place = func._schema.is_mutable and not isinstance(args[0], Pretend)
        if not takes_numbers or in_place or any(tensor.dim() for tensor in others):
            _refuse(str(func))
        if func.overloadpacket is _aten.where:  # it copies them; other operations hand them to their kernels
            _count(self.uploads, len(others))
            _count(self.waits, len(others))


class _Event:
    """Whoever waits for it has what the host was sent before, and not yet waited for."""

    def __init__(self) -> None:
        self._before, PretendDevice.present.coming = PretendDevice.present.coming, []

    def synchronize(self) -> None:
        _count(PretendDevice.present.reads)
        for seen, sent in self._before:
            seen.copy_(sent)


@contextmanager
def pretend_device(memory: int = 80 << 30) -> Iterator[PretendDevice]:
    """`cuda:0`, with so many free bytes, for the block and for threads that are started in it."""
    device = PretendDevice.present = PretendDevice()
    run = threading.Thread.run

    def run_there(thread: threading.Thread) -> None:
        with _lifting_later(), _PythonSide(), device:
            run(thread)

    answers = {
        "_lazy_init": None,
        "is_available": True,
        "device_count": 1,
        "set_device": None,
        "mem_get_info": (memory, memory),
        "synchronize": None,
        "current_stream": SimpleNamespace(record_event=_Event),
        "get_device_name": "a pretend device",
        "get_device_properties": SimpleNamespace(
            major=8, minor=9, total_memory=memory, multi_processor_count=8, shared_memory_per_block_optin=96 << 10
        ),
        "reset_peak_memory_stats": None,
        **dict.fromkeys(("max_memory_allocated", "memory_allocated", "memory_reserved"), 0),
    }
    with pytest.MonkeyPatch.context() as patch, _guard(), _lifting_later(), _PythonSide(), device:
        for name, answer in answers.items():
            patch.setattr(torch.cuda, name, lambda *args, answer=answer, **kwargs: answer)
        patch.setattr(torch, "Generator", _Generator)
        # A module that is moved gets new parameters, as a parameter's memory cannot move.
        patch.setattr(torch.__future__, "get_overwrite_module_params_on_conversion", lambda: True)
        patch.setattr(threading.Thread, "run", run_there)
        try:
            yield device
        finally:
            for cached in (capability, is_attention):
                cached.cache_clear()  # a real GPU may follow


class _PythonSide(TorchFunctionMode):
    """As CUDA's PyTorch would, takes "cuda" for `cuda:0`; `tolist`, which refuses subclasses, reads first."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is Tensor.cuda:
            return args[0].to(DEVICE)
        if func is Tensor.tolist:
            args = (args[0].cpu(),)
        if func is Tensor.to:
            args = tuple(map(_indexed, args))
        if "device" in kwargs:
            kwargs = {**kwargs, "device": _indexed(kwargs["device"])}
        return func(*args, **kwargs)


def _indexed(given: Any) -> Any:
    return DEVICE if isinstance(given, str | torch.device) and str(given) == "cuda" else given


@contextmanager
def _guard() -> Iterator[None]:
    """Let a PyTorch without CUDA switch to its devices, by the meta device's guard, which does nothing."""
    torch._C._ensureCUDADeviceGuardSet()  # where CUDA is, but no device
    library = ctypes.CDLL(next((Path(torch.__file__).parent / "lib").glob("libc10.*")))
    guards = (ctypes.c_void_p * 20).in_dll(library, "_ZN3c104impl26device_guard_impl_registryE")
    cuda, meta = 1, 14
    before = guards[cuda]
    guards[cuda] = before or guards[meta]
    try:
        yield
    finally:
        guards[cuda] = before


@contextmanager
def _lifting_later() -> Iterator[None]:
    """`torch.tensor(numbers, device=...)` makes a tensor on the processor and uploads it where a mode sees it."""
    before = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(True)
    try:
        yield
    finally:
        torch._C._set_only_lift_cpu_tensors(before)


class _Generator(torch.Generator):
    """One for the pretend device is the processor's."""

    def __new__(cls, device: object = "cpu") -> _Generator:
        return super().__new__(cls, "cpu")


def _flash(
    q: Tensor, k: Tensor, v: Tensor, dropout: float = 0.0, causal: bool = False, mask: bool = False, *, scale: float
) -> tuple[Any, ...]:
    """CUDA's flash kernel: out [b, h, m, d] as it lies there, log-sum-exp [b, h, m]. Half precision only."""
    _conditions(q, k, v, causal)
    if q.dtype not in (torch.float16, torch.bfloat16) or q.shape[3] % 8 or q.shape[3] > 256:
        raise RuntimeError(f"FlashAttention has no kernel for {q.dtype} and {q.shape[3]} dimensions")
    none = torch.empty(0)
    return *_attention(q, k, v, causal, scale), none, none, q.shape[2], k.shape[2], none, none, none


def _efficient(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: None,
    with_lse: bool,
    dropout: float = 0.0,
    causal: bool = False,
    *,
    scale: float,
) -> tuple[Any, ...]:
    """CUDA's memory-efficient kernel; its log-sum-exps are padded to 32 rows, with anything."""
    _conditions(q, k, v, causal)
    out, lse = _attention(q, k, v, causal, scale)
    padded = torch.nn.functional.pad(lse, (0, -lse.shape[2] % 32), value=torch.nan)
    return out, padded, torch.empty(0), torch.empty(0)


def _conditions(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> None:
    if not all(isinstance(tensor, Pretend) for tensor in (q, k, v)):
        _refuse()
    if not q.shape[:2] == k.shape[:2] == v.shape[:2] or not q.dtype == k.dtype == v.dtype:
        raise RuntimeError(f"heads or number formats differ: {q.shape} {q.dtype}, {k.shape} {k.dtype}")
    if any(tensor.stride(3) != 1 for tensor in (q, k, v)) or min(q.numel(), k.numel()) == 0:
        raise RuntimeError("the last dimension must be contiguous, and no dimension may be empty")
    if causal and q.shape[2] != k.shape[2]:
        raise RuntimeError("kernels differ in where they align a causal mask")


def _attention(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float, before: int | None = None
) -> tuple[Tensor, Tensor]:
    queries, keys, values = (tensor.inner.float() for tensor in (q, k, v))  # type: ignore[attr-defined]
    scores = queries @ keys.transpose(2, 3) * scale
    if causal:
        hidden = torch.ones(scores.shape[2:], dtype=torch.bool).triu(1 + scores.shape[3] - scores.shape[2])
        scores.masked_fill_(hidden, -torch.inf)
    if before is not None:
        hidden = torch.ones(scores.shape[2:], dtype=torch.bool).tril(scores.shape[3] - scores.shape[2] - before - 1)
        scores.masked_fill_(hidden, -torch.inf)
    out = (scores.softmax(-1) @ values).to(q.dtype)
    return out.transpose(1, 2).contiguous().transpose(1, 2), scores.logsumexp(-1)


def flash_attn_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    softmax_scale: float,
    causal: bool,
    return_attn_probs: bool = True,
    window_size: tuple[int, int] = (-1, -1),
) -> tuple[Tensor, Tensor, None]:
    """That of the flash-attn package: q [1, n, H, d]; k, v [1, T, H_kv, d] -> out, log-sum-exp [1, H, n].

    Query i sees keys from i + T - n - window_size[0] to i + T - n + window_size[1], both included; -1: all.
    """
    assert return_attn_probs
    assert q.dtype in (torch.float16, torch.bfloat16)
    group = q.shape[2] // k.shape[2]
    q, k, v = (tensor.transpose(1, 2) for tensor in (q, k, v))
    k, v = (tensor.repeat_interleave(group, 1) for tensor in (k, v))
    _conditions(q, k, v, causal=False)  # its causal mask ends with the last key
    before, after = window_size
    assert after in (-1, 0)
    out, lse = _attention(q, k, v, causal or after == 0, softmax_scale, None if before < 0 else before)
    return Pretend(out.transpose(1, 2)), Pretend(lse), None


def _flash_forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cum_q: None,
    cum_k: None,
    most_q: int,
    most_k: int,
    dropout: float,
    causal: bool,
    debug: bool,
    *,
    scale: float,
    window_size_left: int | None = None,
    window_size_right: int | None = None,
) -> tuple[Any, ...]:
    """CUDA's FlashAttention-2 by itself: rows before heads, key heads as they are, and windows."""
    window = tuple(-1 if size is None else size for size in (window_size_left, window_size_right))
    assert (most_q, most_k) == (q.shape[1], k.shape[1])
    out, lse, _ = flash_attn_func(q, k, v, softmax_scale=scale, causal=causal, window_size=window)
    none = torch.empty(0)
    return out, lse, none, none, none


def _softmax(x: Tensor, dim: int, to_float: bool) -> Tensor:
    """To float32 within the kernel, which the processor has not."""
    rows: Tensor = x.inner  # type: ignore[attr-defined]
    return (rows.float() if to_float else rows).softmax(dim)


_EMULATED: dict[Any, Callable[..., Any]] = {
    _aten._scaled_dot_product_flash_attention: _flash,
    _aten._scaled_dot_product_efficient_attention: _efficient,
    _aten._flash_attention_forward: _flash_forward,
    _aten._softmax: _softmax,
}


@cache
def _way(func: Any) -> str:
    """How an operation is run: what is composite may move tensors or read from within, and is run by its parts."""
    if "cpu" in func.name():
        return "missing"
    if func.overloadpacket in _EMULATED:
        return "emulated"
    is_composite = func.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd)
    return "composite" if is_composite and func.overloadpacket not in _WHOLE else "whole"


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple | ValuesView):
            yield from _tensors(value)


def _each(change: Callable[[Any], Any], value: Any) -> Any:
    """`value`, or what is in it, changed."""
    return [_each(change, one) for one in value] if isinstance(value, list | tuple) else change(value)


def _inner(leaf: Any) -> Any:
    return leaf.inner if isinstance(leaf, Pretend) else leaf


def _wrapped(leaf: Any) -> Any:
    return Pretend(leaf) if isinstance(leaf, Tensor) and not isinstance(leaf, Pretend) else leaf


def _refuse(what: str = "indexing") -> None:
    raise RuntimeError(f"{what}: Expected all tensors to be on the same device, but found two devices, cuda:0 and cpu")


def _count(counter: Counter[str], n: int = 1) -> None:
    counter[_addresses()] += n


def _addresses() -> str:
    """The innermost line of the package that is running, "elsewhere" if none is."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(_PACKAGE):
            return f"{name[len(_PACKAGE) + 1 :]}:{frame.f_lineno}"
        frame = frame.f_back
    return "elsewhere"
