"""Plain decoding of many prompts at once: every step writes one token of each, for about the price of one.

Prompts take turns in a fixed number of slots (continuous batching, Orca, OSDI 2022): one that ends makes room for the
next. Sequences in slots differ in length; what lies behind a sequence's end is masked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import PreTrainedConfig
from transformers.cache_utils import Cache, CacheLayerMixin

from specextend_cli.engine.attention import Backend, Pass
from specextend_cli.engine.budget import CostModel
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.config import Sampling
from specextend_cli.engine.events import Finished, Looked, Prefilled, Prefilling, Reason, Step
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.looks import LOOK_EVERY, Gaze, shares
from specextend_cli.engine.sampling import Sampler
from specextend_cli.engine.stop import Stop


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt to continue. A prompt equal to that of the request before it is read only once.

    `marks` part it in segments whose shares of attention are told, as in `decode`.
    """

    prompt: Sequence[int]
    stop: Stop
    sampling: Sampling = field(default_factory=Sampling)
    marks: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class States:
    """The target's hidden states [n, sum of the asked layers' widths] at the next n tokens of a sequence."""

    states: Tensor


class _SlotLayer(CacheLayerMixin):
    """One layer's window on the slots."""

    def __init__(self, slots: Slots, index: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.slots = slots
        self.index = index
        self.is_initialized = True

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing to do: the buffer exists."""

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Write one row behind each sequence; views [used, heads, longest, d] of all keys and values."""
        slots = self.slots
        keys, values = slots.buffer[:, self.index, : slots.used, :, : slots.longest + 1]
        keys[slots.at, :, slots.lengths] = key_states[:, :, 0]
        values[slots.at, :, slots.lengths] = value_states[:, :, 0]
        return keys, values

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Keys visible to the current forward, and their offset."""
        return self.slots.longest + query_length, 0

    def get_seq_length(self) -> int:
        """Rows of the longest sequence."""
        return self.slots.longest

    def get_max_length(self) -> int:
        """Rows there is memory for."""
        return self.slots.buffer.shape[4]


class Slots(Cache):
    """Keys and values of several sequences, [2, layers, slots, kv_heads, capacity, head_dim]; the first `used` live."""

    def __init__(self, config: PreTrainedConfig, like: KVCache, slots: int, capacity: int) -> None:
        _, layers, heads, _, head_dim = like.buffer.shape
        self.buffer = like.buffer.new_zeros(2, layers, slots, heads, capacity, head_dim)
        self.used = 0
        self.lengths = self.at = torch.empty(0, dtype=torch.long, device=like.buffer.device)
        super().__init__(layers=[_SlotLayer(self, index) for index in range(layers)])

    @property
    def longest(self) -> int:
        """Rows of the longest sequence."""
        return int(self.lengths.max()) if self.used else 0

    def add(self, read: KVCache) -> None:
        """Copy a prompt that was read elsewhere into the next slot."""
        self.buffer[:, :, self.used, :, : read.length] = read.rows(0, read.length)
        self._set([*self.lengths.tolist(), read.length])

    def drop(self, slot: int) -> None:
        """Free a slot; the last one moves there."""
        lengths = self.lengths.tolist()
        last = lengths.pop()
        if slot < len(lengths):
            self.buffer[:, :, slot, :, :last] = self.buffer[:, :, self.used - 1, :, :last]
            lengths[slot] = last
        self._set(lengths)

    def grow(self) -> None:
        """Every sequence is one row longer."""
        self.lengths = self.lengths + 1

    def mask(self, dtype: torch.dtype) -> Tensor | None:
        """Additive [used, 1, 1, longest + 1]: hides what lies behind a sequence's end. None if nothing does."""
        if int(self.lengths.min()) == self.longest:
            return None
        hidden = torch.arange(self.longest + 1, device=self.lengths.device) > self.lengths[:, None]
        return torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(hidden, -torch.inf)[
            :, None, None
        ]

    def _set(self, lengths: list[int]) -> None:
        self.used = len(lengths)
        self.lengths = torch.tensor(lengths, dtype=torch.long, device=self.buffer.device)
        self.at = torch.arange(self.used, device=self.buffer.device)


BatchEvent: TypeAlias = Prefilling | Prefilled | States | Looked | Step | Finished


@torch.inference_mode()
def decode_batch(
    lm: LanguageModel,
    requests: Sequence[Request],
    *,
    slots: int,
    prefill_chunk: int = 1024,
    features: Sequence[int] = (),
    costs: CostModel | None = None,
    look_layers: Collection[int] = (),
    look_every: int = LOOK_EVERY,
) -> Iterator[tuple[int, BatchEvent]]:
    """Continue every request until its own end, `slots` at a time; events come with the request's number.

    `features` names hidden states (see `LanguageModel.forward`) to yield as `States`: of the prompt while it is read
    (once for equal prompts that follow each other), then of each written token but the last. `costs` learns from
    what is written alone, and says what plain steps cost. Requests with marks are told where `look_layers` looked,
    every `look_every` steps. Tokens are those of plain decoding, up to rounding between a
    batch's and a single row's matrix products. ValueError for an empty prompt.
    """
    if not all(request.prompt for request in requests):
        raise ValueError("a prompt is empty")
    reader = _Reader(lm, prefill_chunk, features)
    capacity = max((len(request.prompt) + request.stop.max_tokens for request in requests), default=0)
    costs = costs or CostModel()
    cache = Slots(lm.config, reader.cache, min(slots, len(requests)), capacity)
    waiting = deque(enumerate(requests))
    live: list[_Sequence] = []
    steps = 0
    while waiting or live:
        while waiting and len(live) < slots:
            number, request = waiting.popleft()
            for event in reader.read(request.prompt):
                yield number, event
            began = _Sequence(number, request, lm.device)
            yield number, began.write(reader.logits)
            if began.reason:
                yield number, Finished(began.reason, began.stop.count)
            else:
                cache.add(reader.cache)
                live.append(began)
        if not live:
            continue
        started = perf_counter()
        steps += 1
        looking = steps % look_every == 0 and any(len(one.marks) for one in live)
        gaze = Gaze(look_layers) if looking else None
        logits, states = _step(lm, cache, live, features, gaze)
        together, seconds = len(live), perf_counter() - started
        if together == 1:
            costs.learn(1, cache.longest, seconds)
        for slot in reversed(range(len(live))):  # a slot that is dropped takes the last one, which had its turn
            one = live[slot]
            if states is not None:
                yield one.number, States(states[slot : slot + 1])
            if gaze is not None and len(one.marks):
                yield one.number, Looked(shares(gaze.attention[slot : slot + 1], one.marks))
            plain = costs.plain(cache.longest)
            yield one.number, one.write(logits[slot : slot + 1], seconds / together, plain, together)
            if one.reason:
                yield one.number, Finished(one.reason, one.stop.count)
                cache.drop(slot)
                live[slot] = live[-1]
                live.pop()


def slots_for(lm: LanguageModel, tokens: int, memory: int) -> int:
    """How many sequences of `tokens` tokens fit into `memory` bytes; one at least."""
    probe = lm.new_cache(1)
    return max(memory // (probe.nbytes // probe.capacity * max(tokens, 1)), 1)


class _Reader:
    """Reads prompts one by one, each in pieces; an equal one is not read again."""

    def __init__(self, lm: LanguageModel, chunk: int, features: Sequence[int]) -> None:
        self.lm, self.chunk, self.features = lm, chunk, features
        self.cache = lm.new_cache(0)
        self.logits = torch.empty(0)
        self._known: list[int] = []

    def read(self, prompt: Sequence[int]) -> Iterator[BatchEvent]:
        if self._known == list(prompt):
            return
        self._known = []
        self.cache.begin(len(prompt))
        started = perf_counter()
        tokens = torch.tensor(prompt, device=self.lm.device)
        positions = torch.arange(len(prompt), device=self.lm.device)
        for at in range(0, len(prompt), self.chunk):
            yield Prefilling(at, len(prompt), perf_counter() - started)
            piece = slice(at, at + self.chunk)
            out = self.lm.forward(tokens[piece], positions[piece], self.cache, logits_to_keep=1, features=self.features)
            self.cache.commit()
            if out.features is not None:
                yield States(out.features)
            self.logits = out.logits
        self._known = list(prompt)
        yield Prefilled(len(prompt), perf_counter() - started)


class _Sequence:
    """One request that lives in a slot."""

    def __init__(self, number: int, request: Request, device: torch.device) -> None:
        self.number = number
        self.stop = request.stop
        self.prompt = len(request.prompt)
        self.marks = torch.tensor(request.marks, dtype=torch.long, device=device)
        self.sampler = Sampler(request.sampling, request.prompt, device)
        self.last = -1
        self.reason: Reason | None = None

    def write(self, logits: Tensor, seconds: float = 0.0, plain: float = 0.0, together: int = 1) -> Step:
        """Choose the next token from logits [1, vocabulary]."""
        nodes = 0 if self.last < 0 else 1
        (self.last,) = self.sampler.choose(logits).tolist()
        self.sampler.commit([self.last])
        new, self.reason = self.stop([self.last])
        return Step(tuple(new), self.prompt + self.stop.count, nodes, 0.0, seconds, plain, together)


def _step(
    lm: LanguageModel,
    cache: Slots,
    live: Sequence[_Sequence],
    features: Sequence[int],
    gaze: Gaze | None,
) -> tuple[Tensor, Tensor | None]:
    """Feed every sequence its last token: logits [used, vocabulary] and the asked states [used, widths]."""
    out = lm.model(
        input_ids=torch.tensor([[one.last] for one in live], device=lm.device),
        position_ids=cache.lengths[:, None],
        past_key_values=cache,
        use_cache=True,
        output_hidden_states=bool(features),
        this_pass=Pass(_over(cache.mask(lm.dtype), gaze)),
    )
    cache.grow()
    states = torch.cat([out.hidden_states[i][:, 0] for i in features], -1) if features else None
    return out.logits[:, 0], states


def _over(mask: Tensor | None, gaze: Gaze | None) -> Backend:
    """One query a sequence; those that share a key head are folded together, so that keys are read once."""

    def attend(q: Tensor, k: Tensor, v: Tensor, scale: float, tree_mask: Tensor | None) -> Tensor:
        folded = q.reshape(*k.shape[:2], -1, q.shape[3])
        if gaze is not None:
            gaze.see(folded, k, scale, mask)
        return scaled_dot_product_attention(folded, k, v, attn_mask=mask, scale=scale).reshape(q.shape)

    return attend
