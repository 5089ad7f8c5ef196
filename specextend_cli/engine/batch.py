"""Plain decoding of many prompts at once: every step writes one token of each, for about the price of one.

Prompts take turns in a fixed number of slots (continuous batching, Orca, OSDI 2022): one that ends makes room for the
next. Sequences in slots differ in length; what lies behind a sequence's end is masked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from time import perf_counter
from typing import TypeAlias

import torch
from torch import Tensor

from specextend_cli.engine.attention import ForwardContext
from specextend_cli.engine.attribution import ATTRIBUTION_INTERVAL, AttentionRecorder, segment_attention
from specextend_cli.engine.batched_cache import BatchedAttention, BatchedKVCache
from specextend_cli.engine.config import Sampling
from specextend_cli.engine.draft_gate import CostModel
from specextend_cli.engine.events import Finished, Looked, Prefilled, Prefilling, Reason, Step
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.prefill import prefill_chunks
from specextend_cli.engine.sampling import Sampler
from specextend_cli.engine.stop import Stop


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """One prompt to continue. A prompt equal to that of the request before it is read only once.

    Its first `shared` tokens are read by themselves, and not again if the request before begins with the same: what is
    read together decides how it is rounded, so that has to be the same whether they were read before or not. `marks`
    part the prompt in segments whose shares of attention are told, as in `decode`.
    """

    prompt: Sequence[int]
    stop: Stop
    sampling: Sampling = field(default_factory=Sampling)
    marks: Sequence[int] = ()
    shared: int = 0


@dataclass(frozen=True, slots=True)
class States:
    """The target's hidden states [n, sum of the asked layers' widths] at the next n tokens of a sequence."""

    states: Tensor


_FEWEST = 4  # sequences written together, however slowly prompts are read: fewer would lose what a batch is for

BatchEvent: TypeAlias = Prefilling | Prefilled | States | Looked | Step | Finished


@torch.inference_mode()
def decode_batch(
    lm: LanguageModel,
    requests: Sequence[BatchRequest],
    *,
    slots: int,
    prefill_chunk: int = 1024,
    features: Sequence[int] = (),
    costs: CostModel | None = None,
    look_layers: Collection[int] = (),
    look_every: int = ATTRIBUTION_INTERVAL,
    patience: float = inf,
) -> Iterator[tuple[int, BatchEvent]]:
    """Continue every request until its own end, `slots` at a time; events come with the request's number.

    `features` names hidden states (see `LanguageModel.forward`) to yield as `States`: of the prompt while it is read
    (once for equal prompts that follow each other), then of each written token but the last. `costs` learns from
    what is written alone, and says what plain steps cost. Requests with marks are told where `look_layers` looked,
    every `look_every` steps. No more prompts are read, once four were, when reading has taken `patience` seconds since
    the last sequence ended: sequences that begin together end together, and until one ends nothing is finished. Tokens
    are those of plain decoding, up to rounding between a
    batch's and a single row's matrix products. ValueError for an empty prompt.
    """
    if not all(request.prompt for request in requests):
        raise ValueError("a prompt is empty")
    reader = _Reader(lm, prefill_chunk, features)
    capacity = max((len(request.prompt) + request.stop.max_tokens for request in requests), default=0)
    costs = costs or CostModel()
    cache = BatchedKVCache(lm.config, reader.cache, min(slots, len(requests)), capacity)
    waiting = deque(enumerate(requests))
    live: list[_Sequence] = []
    steps = 0
    reading = 0.0  # seconds, since a sequence ended
    while waiting or live:
        while waiting and len(live) < slots and (reading < patience or len(live) < _FEWEST):
            number, request = waiting.popleft()
            for event in reader.read(request.prompt, request.shared):
                if isinstance(event, Prefilled):
                    reading += event.seconds
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
        lm.governor.begin_step()
        started = perf_counter()
        steps += 1
        looking = steps % look_every == 0 and any(len(one.marks) for one in live)
        gaze = AttentionRecorder(look_layers) if looking else None
        logits, states = _step(lm, cache, live, features, gaze)
        together, seconds = len(live), perf_counter() - started
        lm.governor.end_step(together, seconds)
        if together == 1:
            costs.learn(1, cache.longest, seconds)
        for slot in reversed(range(len(live))):  # a slot that is dropped takes the last one, which had its turn
            one = live[slot]
            if states is not None:
                yield one.number, States(states[slot : slot + 1])
            if gaze is not None and len(one.marks):
                yield one.number, Looked(segment_attention(gaze.attention[slot : slot + 1], one.marks))
            plain = costs.plain(cache.longest)
            yield one.number, one.write(logits[slot : slot + 1], seconds / together, plain, together)
            if one.reason:
                reading = 0.0
                yield one.number, Finished(one.reason, one.stop.count)
                cache.drop(slot)
                live[slot] = live[-1]
                live.pop()


def slots_for(lm: LanguageModel, tokens: int, memory: int) -> int:
    """How many sequences of `tokens` tokens fit into `memory` bytes; one at least."""
    probe = lm.new_cache(1)
    return max(memory // (probe.nbytes // probe.capacity * max(tokens, 1)), 1)


class _Reader:
    """Reads prompts one by one, each in pieces; what it has just read is not read again."""

    def __init__(self, lm: LanguageModel, chunk: int, features: Sequence[int]) -> None:
        self.lm, self.chunk, self.features = lm, chunk, features
        self.cache = lm.new_cache(0)
        self.logits = torch.empty(0)
        self._known: tuple[list[int], int] = ([], 0)

    def read(self, prompt: Sequence[int], shared: int) -> Iterator[BatchEvent]:
        shared = min(shared, len(prompt) - 1)
        known, self._known = self._known, ([], 0)
        if known == (list(prompt), shared):
            self._known = known
            return
        # Whoever wants states wants those of the whole prompt.
        same = known[1] == shared and known[0][:shared] == list(prompt[:shared])
        kept = shared if same and not self.features and self._has_room(prompt) else 0
        if kept:
            self.cache.rollback(kept)
        else:
            self.cache.begin(len(prompt))
        started = perf_counter()
        tokens = torch.tensor(prompt, device=self.lm.device)
        positions = torch.arange(len(prompt), device=self.lm.device)
        for at, end in prefill_chunks(len(prompt), self.chunk, shared):
            if at < kept:
                continue
            yield Prefilling(at, len(prompt), perf_counter() - started)
            piece = slice(at, end)
            with self.lm.governor.reading(self.lm.reading_threads):
                out = self.lm.forward(
                    tokens[piece], positions[piece], self.cache, logits_to_keep=1, features=self.features
                )
            self.cache.commit()
            if out.features is not None:
                yield States(out.features)
            self.logits = out.logits
        self._known = list(prompt), shared
        yield Prefilled(len(prompt), perf_counter() - started)

    def _has_room(self, prompt: Sequence[int]) -> bool:
        """Where the cache has to grow, what is in it goes."""
        return self.cache.capacity >= len(prompt)


class _Sequence:
    """One request that lives in a slot."""

    def __init__(self, number: int, request: BatchRequest, device: torch.device) -> None:
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
    cache: BatchedKVCache,
    live: Sequence[_Sequence],
    features: Sequence[int],
    gaze: AttentionRecorder | None,
) -> tuple[Tensor, Tensor | None]:
    """Feed every sequence its last token: logits [used, vocabulary] and the asked states [used, widths]."""
    out = lm.model(
        input_ids=torch.tensor([[one.last] for one in live], device=lm.device),
        position_ids=cache.lengths[:, None],
        past_key_values=cache,
        use_cache=True,
        output_hidden_states=bool(features),
        this_pass=ForwardContext(BatchedAttention(cache.mask(lm.dtype), gaze)),
    )
    cache.grow()
    states = torch.cat([out.hidden_states[i][:, 0] for i in features], -1) if features else None
    return out.logits[:, 0], states
