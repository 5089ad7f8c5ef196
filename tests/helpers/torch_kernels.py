"""The Triton kernels of CUDA graphs in torch, which Triton's interpreter runs too slowly for every drafter.

They find the cache as the kernels do: by the address and the distances that lie in device memory.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from copy import copy
from importlib import import_module
from math import prod
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from specextend_cli.engine.attention.reference import reference
from specextend_cli.engine.attention.softmax import PLAIN, SoftmaxOptions
from specextend_cli.engine.attention.triton_tree import Placed, Window
from specextend_cli.engine.cuda import ops
from specextend_cli.engine.cuda.body import WORDS, GraphInputs, Recurrence
from specextend_cli.engine.cuda.ops import Level
from specextend_cli.engine.decoder import Norm
from tests.helpers.pretend_device import Pretend


def replace_kernels(
    monkeypatch: pytest.MonkeyPatch, wrap: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda kernel: kernel
) -> None:
    """Let graphs compute by these. `wrap` is applied to each."""
    ours = (add_norm, rope_and_store, store, gated, attend, first_keys, best, advance, convolution_inputs, recur)
    for kernel in ours:
        monkeypatch.setattr(ops, kernel.__name__, wrap(on_host(kernel)))


def replace_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let models that say they are on a GPU attend by the reference where they would by Triton's kernel."""

    def attend(
        q: Tensor, k: Tensor, v: Tensor, scale: float, *, softmax: Any, words: Tensor | None = None, tree: int = 0
    ) -> Tensor:
        return reference(q, k, v, scale, words, softmax)

    kernels = import_module("specextend_cli.engine.attention.triton_tree")  # its package has a function of this name
    monkeypatch.setattr(kernels, "attend", attend)
    monkeypatch.setattr(kernels, "pack", Tensor.clone)


def on_host(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel, unseen by whoever watches PyTorch's operations; tensors of a pretend device are read as they are."""

    def run(*args: Any, **kwargs: Any) -> Any:
        given = [leaf for leaf in (*args, *kwargs.values()) if isinstance(leaf, Pretend)]
        with _disable_current_modes(), torch._C.DisableTorchFunction():
            out = kernel(*map(_inner, args), **{name: _inner(value) for name, value in kwargs.items()})
        return _outer(out) if given else out

    run.__name__ = kernel.__name__
    return run


def _inner(leaf: Any) -> Any:
    if isinstance(leaf, Level | GraphInputs | Norm):
        bare = copy(leaf)
        bare.__dict__.update({name: _inner(value) for name, value in vars(leaf).items()})
        return bare
    if isinstance(leaf, tuple):
        made = [_inner(one) for one in leaf]
        return type(leaf)(*made) if hasattr(leaf, "_fields") else tuple(made)
    return leaf.inner if isinstance(leaf, Pretend) else leaf


def _outer(leaf: Any) -> Any:
    if isinstance(leaf, tuple):
        return type(leaf)(*map(_outer, leaf)) if hasattr(leaf, "_fields") else tuple(map(_outer, leaf))
    return Pretend(leaf) if isinstance(leaf, Tensor) else leaf


def rows_at(place: Tensor, layer: int, sequence: int, heads: int, rows: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values [heads, rows, d] of one layer and sequence; `like` [.., d]."""
    address, by_kind, by_layer, by_sequence, by_head = place.tolist()
    d = like.shape[-1]
    size = like.element_size()

    def view(offset: int) -> Tensor:
        length = by_head * (heads - 1) + rows * d
        memory = (ctypes.c_char * (length * size)).from_address(address + offset * size)
        return torch.frombuffer(memory, dtype=like.dtype).as_strided((heads, rows, d), (by_head, d, 1))

    first = layer * by_layer + sequence * by_sequence
    return view(first), view(first + by_kind)


def add_norm(
    x: Tensor, added: Tensor | None, norm: Norm, *, factor: float = 1.0, out: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    total = x if added is None else x + (added * factor if factor != 1.0 else added)
    normed = _normed(total, norm)
    return (total, normed) if out is None else (total, out.copy_(normed))


def _normed(x: Tensor, norm: Norm) -> Tensor:
    scale = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + norm.epsilon)
    return norm.weight * (x.float() * scale).to(x.dtype)


def rope_and_store(
    qkv: Tensor,
    heads: int,
    kv_heads: int,
    turns: Tensor | None,
    norms: tuple[Norm, Norm] | None,
    place: Tensor,
    starts: Tensor,
    positions: Tensor,
    layer: int,
) -> Tensor:
    rows = len(qkv)
    q, k, v = qkv.view(rows, heads + 2 * kv_heads, -1).split((heads, kv_heads, kv_heads), 1)
    if norms is not None:
        q, k = _normed(q, norms[0]), _normed(k, norms[1])
    if turns is not None:
        half, scale = len(turns) - 1, turns[-1]
        angles = positions[:, None, None].float() * turns[:half]
        cos, sin = ((turn * scale).to(q.dtype).float() for turn in (angles.cos(), angles.sin()))

        def turned(x: Tensor) -> Tensor:
            a, b, rest = x[..., :half].float(), x[..., half : 2 * half].float(), x[..., 2 * half :]
            return torch.cat(((a * cos - b * sin).to(x.dtype), (b * cos + a * sin).to(x.dtype), rest), -1)

        q, k = turned(q), turned(k)
    b = len(starts)
    shape = b, rows // b, kv_heads, -1
    store(k.reshape(shape).transpose(1, 2), v.reshape(shape).transpose(1, 2), q[0, 0, :1], place, starts, layer)
    return q.contiguous()


def store(keys: Tensor, values: Tensor, like: Tensor, place: Tensor, starts: Tensor, layer: int) -> None:
    _, heads, n, _ = keys.shape
    like = keys[:0].to(like.dtype)
    for sequence, start in enumerate(starts.tolist()):
        memory = rows_at(place, layer, sequence, heads, start + n, like)
        for rows, new in zip(memory, (keys, values), strict=True):
            rows[:, start:] = new[sequence]


def gated(gate_up: Tensor) -> Tensor:
    gate, up = gate_up.chunk(2, -1)
    return torch.nn.functional.silu(gate) * up


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float,
    *,
    at: Placed,
    words: Tensor | None = None,
    softmax: SoftmaxOptions = PLAIN,
) -> Tensor:
    place, lengths, layer, kv_heads, window = at
    *ends, tree = lengths.tolist()
    like = q[:0].to(k.dtype)
    out = []
    for sequence, end in enumerate(ends):
        k, v = rows_at(place, layer, sequence, kv_heads, end, like)
        mask = None
        if words is not None:
            mask = _bits(words, tree)
            mask[~mask.any(1), 0] = True  # surplus rows, which nobody reads
        if window is not None:
            before = torch.ones(q.shape[2], end if mask is None else end - tree, dtype=torch.bool)
            mask = before if mask is None else torch.cat((before, mask), 1)
            mask &= torch.arange(end) >= window.first[sequence, :, None]
        keys, values = (rows[None].to(q.dtype) for rows in (k, v))
        out.append(reference(q[sequence : sequence + 1], keys, values, scale, mask, softmax))
    return torch.cat(out).transpose(1, 2).contiguous().transpose(1, 2)


def _bits(words: Tensor, tree: int) -> Tensor:
    """A mask [n, tree] of its words."""
    slots = torch.arange(tree)
    return (words[:, slots // 64] >> slots % 64 & 1).bool()


def first_keys(window: int, n: int, lengths: Tensor, words: Tensor | None) -> Window:
    """Row by row, by the positions of all keys."""
    *ends, tree = lengths.tolist()
    first = torch.empty(len(ends), n, dtype=torch.int32)
    for sequence, end in enumerate(ends):
        before = end - (1 if words is None else tree)
        mask = torch.ones(n, 1, dtype=torch.bool) if words is None else _bits(words, tree)
        for row, bits in enumerate(mask.tolist()):
            path = [slot for slot, bit in enumerate(bits) if bit] or [0]
            unseen = before + len(path) - 1 - window  # the newest position
            seen = [key for key in range(before) if key > unseen]
            seen += [before + slot for depth, slot in enumerate(path) if before + depth > unseen]
            first[sequence, row] = seen[0]
    return Window(window, first)


def best(
    logits: Tensor,
    width: int,
    most: int,
    vocabulary: Tensor | None,
    *,
    row: Tensor | None = None,
    out: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    if row is not None:
        logits = logits.index_select(0, row)
    highest, ids = logits[:, :most].float().log_softmax(-1).topk(width)
    found = highest.exp(), ids if vocabulary is None else vocabulary[ids]
    return found if out is None else (out[0].copy_(found[0]), out[1].copy_(found[1]))


def advance(level: Level, shares: Tensor, tokens: Tensor, begin: Tensor | None = None) -> None:
    held, width = level.inputs, shares.shape[1]
    assert held.words is not None
    if begin is None:
        size, slots = int(level.count), int(held.lengths[1])
        position, start = int(held.positions[0]) + 1, int(held.starts) + width
        children = (level.scores[:, None] * shares).flatten()
        parents = level.nodes.repeat_interleave(width)
        _, chosen = children.topk(width)
        words = held.words.clone()
    else:
        size, slots, position, start = 1, 0, int(begin[1]), int(begin[2])
        children, parents, chosen = shares[0].clone(), torch.zeros(width, dtype=torch.long), torch.arange(width)
        words = torch.zeros(width, WORDS, dtype=torch.long)
    at = slice(size, size + len(children))
    level.tree[0, at], level.tree[1, at] = tokens.flatten(), parents
    level.tree[2, at] = children.view(torch.int32).long()
    above = chosen // width if begin is None else torch.zeros_like(chosen)
    held.words.copy_(words[above])
    for number in range(width):
        slot = slots + number
        held.words[number, slot // 64] |= torch.tensor(1) << slot % 64
    held.tokens.copy_(tokens.flatten()[chosen])
    level.scores.copy_(children[chosen])
    level.nodes.copy_(size + chosen)
    level.above.copy_(above)
    held.positions.fill_(position)
    held.starts.fill_(start)
    held.lengths.copy_(torch.tensor([start + width, slots + width]))
    level.count.fill_(size + len(children))


def convolution_inputs(
    new: Tensor, size: int, layer: int, at: Tensor, words: Tensor | None, last: Tensor | None = None
) -> Tensor | None:
    inputs = new.transpose(1, 2).flatten(0, 1)
    rows, channels = inputs.shape
    out = new.new_empty(rows, channels, size)
    for row in range(rows) if last is None else last.tolist():
        before, target = (_state(at, which, layer, row, words, (channels, size), new) for which in (0, 2))
        out[row] = torch.cat((before, inputs[_path(row, words)].T), -1)[:, -size:]
        if words is None or last is not None:
            target.copy_(out[row])
    return out if last is None else None


def recur(
    given: Recurrence, dtype: torch.dtype, layer: int, at: Tensor, words: Tensor | None, last: Tensor | None = None
) -> Tensor | None:
    (rows, heads, width), each = given.v.shape, given.v.shape[1] // given.k.shape[1]
    q, k = (part.float().repeat_interleave(each, 1, output_size=heads) for part in (given.q, given.k))
    if given.normed:
        q, k = (part * torch.rsqrt((part * part).sum(-1, keepdim=True) + 1e-6) for part in (q, k))
    out = torch.empty(rows, heads, width, dtype=dtype)
    shape = heads, k.shape[-1], width
    for row in range(rows) if last is None else last.tolist():
        state, target = (_state(at, which, layer, row, words, shape, given.decay) for which in (1, 3))
        for node in _path(row, words):
            state = state * given.decay[node].exp()[:, None, None]
            value = (given.v[node].float() - (state * k[node][..., None]).sum(1)) * given.beta[node].float()[:, None]
            state = state + k[node][..., None] * value[:, None]
        out[row] = (state * (q[row] * given.scale)[..., None]).sum(1)
        if words is None or last is not None:
            target.copy_(state)
    return out if last is None else None


def _path(row: int, words: Tensor | None) -> list[int]:
    """The rows from the root to one; nothing for one that is in no tree."""
    if words is None:
        return [row]
    return [node for node in range(row + 1) if int(words[row, 0]) >> node & 1]


def _state(
    at: Tensor, which: int, layer: int, row: int, words: Tensor | None, shape: tuple[int, ...], like: Tensor
) -> Tensor:
    """The memory of a layer's state; `which` counts the addresses."""
    by_layer, by_sequence, *addresses = at.tolist()
    count = prod(shape)
    offset = (layer * by_layer + (row if words is None else 0) * by_sequence) * count
    size = like.element_size()
    memory = (ctypes.c_char * (count * size)).from_address(addresses[which] + offset * size)
    return torch.frombuffer(memory, dtype=like.dtype).view(shape)
