"""Plain decoding of many prompts in a batch: a step emits one token of each, at about the cost of one.

The batch has a fixed number of slots; a sequence that ends makes room for the next prompt (continuous batching, Orca,
OSDI 2022). Sequences in slots differ in length; rows after a sequence's end are masked.
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
from specextend_cli.engine.cost_model import CostModel
from specextend_cli.engine.decode import prefill_chunks
from specextend_cli.engine.events import Finished, Prefilled, Prefilling, Reason, Step
from specextend_cli.engine.forward import ForwardInput
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.sampling import Sampler
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.threads import on_threads
from specextend_cli.engine.transfer import upload


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """One prompt to continue. A prompt equal to that of the request before it is read only once.

    No prefill chunk crosses the end of the first `shared_prefix` tokens. They are reused when the request before begins
    with the same ones; prefill boundaries affect rounding, so they are the same in either case. `segment_starts` divide
    the prompt into segments for `Step.attribution`, as in `decode`.
    """

    prompt: Sequence[int]
    stop: Stop
    sampling: Sampling = field(default_factory=Sampling)
    segment_starts: Sequence[int] = ()
    shared_prefix: int = 0


@dataclass(frozen=True, slots=True)
class States:
    """The target's features [n, sum of the layers' widths] at the next n tokens of a sequence."""

    states: Tensor


_FEWEST = 4  # sequences that are started even if prefill takes long: with fewer, a batch gains little
BatchEvent: TypeAlias = Prefilling | Prefilled | States | Step | Finished


@torch.inference_mode()
def decode_batch(
    lm: LanguageModel,
    requests: Sequence[BatchRequest],
    *,
    slots: int,
    prefill_chunk: int = 1024,
    features: Sequence[int] = (),
    costs: CostModel | None = None,
    attribution_layers: Collection[int] = (),
    attribution_interval: int = ATTRIBUTION_INTERVAL,
    patience: float = inf,
) -> Iterator[tuple[int, BatchEvent]]:
    """Continue every request until its own end, `slots` at a time; events come with the request's number.

    `features` names hidden states (see `LanguageModel.forward`) that are emitted as `States`: the prompt's during
    prefill (once for equal consecutive prompts), then those of every emitted token but the last. `costs` learns from
    steps with a single sequence and gives the cost of plain steps. Requests with segments get `Step.attribution`, the
    attention in `attribution_layers`, every `attribution_interval` steps. After four prompts, no more are read while
    prefill has taken `patience` seconds since a sequence ended, so that the first results are not delayed for long.
    Tokens are those of plain decoding, up to rounding between a batch's and a single row's matrix products. ValueError
    for an empty prompt.
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
    reading = 0.0  # seconds of prefill since a sequence ended
    while waiting or live:
        while waiting and len(live) < slots and (reading < patience or len(live) < _FEWEST):
            number, request = waiting.popleft()
            for event in reader.read(request.prompt, request.shared_prefix):
                if isinstance(event, Prefilled):
                    reading += event.seconds
                yield number, event
            began = _Sequence(number, request, lm.device)
            choice = began.sampler.choose(reader.logits)
            yield number, began.emit(int(choice), choice)
            if began.reason:
                yield number, Finished(began.reason, began.stop.count)
            else:
                cache.add(reader.cache, reader.prompts)
                live.append(began)
        if not live:
            continue
        started = perf_counter()
        steps += 1
        measured = steps % attribution_interval == 0 and any(len(one.segment_starts) for one in live)
        recorder = AttentionRecorder(attribution_layers, cache.longest + 1) if measured else None
        logits, states = _step(lm, cache, live, features, recorder)
        choice = torch.cat([one.sampler.choose(logits[slot : slot + 1]) for slot, one in enumerate(live)])
        tokens = choice.tolist()  # the only read of the step, whatever the batch's size
        batch_size, seconds = len(live), perf_counter() - started
        if batch_size == 1:
            costs.learn(1, cache.longest, seconds)
        for slot in reversed(range(len(live))):  # a dropped slot is refilled by the last one, which is done
            one = live[slot]
            if states is not None:
                yield one.number, States(states[slot : slot + 1])
            attribution = None
            if recorder is not None and len(one.segment_starts):
                attribution = segment_attention(recorder.attention[slot : slot + 1], one.segment_starts)
            plain = costs.plain(cache.longest)
            ids = choice[slot : slot + 1]
            yield one.number, one.emit(tokens[slot], ids, seconds / batch_size, plain, batch_size, attribution)
            if one.reason:
                reading = 0.0
                yield one.number, Finished(one.reason, one.stop.count)
                cache.drop(slot)
                live[slot] = live[-1]
                live.pop()


def slots_for(lm: LanguageModel, tokens: int, memory: int) -> int:
    """The number of sequences of `tokens` tokens that fit into `memory` bytes; at least one."""
    probe = lm.new_cache(1)
    return max(memory // (probe.nbytes // probe.capacity * max(tokens, 1)), 1)


class _Reader:
    """Reads prompts one by one, in prefill chunks; a prefix that it has just read is kept."""

    def __init__(self, lm: LanguageModel, chunk: int, features: Sequence[int]) -> None:
        self.lm, self.chunk, self.features = lm, chunk, features
        self.cache = lm.new_cache(0)
        self.logits = torch.empty(0)
        self.prompts = 0  # that were read so far
        self._known: tuple[list[int], int] = ([], 0)

    def read(self, prompt: Sequence[int], shared_prefix: int) -> Iterator[BatchEvent]:
        shared_prefix = min(shared_prefix, len(prompt) - 1)
        asked = list(prompt), shared_prefix
        if asked == self._known:
            return
        (known, boundary), self._known = self._known, ([], 0)
        self.prompts += 1
        # With features, the states of the whole prompt are wanted; a cache that grows loses its rows.
        same = boundary == shared_prefix and known[:shared_prefix] == list(prompt[:shared_prefix])
        kept = shared_prefix if same and not self.features and self.cache.capacity >= len(prompt) else 0
        if kept:
            self.cache.rollback(kept)
        else:
            self.cache.begin(len(prompt))
        started = perf_counter()
        tokens = upload(prompt, self.lm.device)
        positions = torch.arange(len(prompt), device=self.lm.device)
        for start, end in prefill_chunks(len(prompt), self.chunk, shared_prefix):
            if start < kept:
                continue
            yield Prefilling(start, len(prompt), perf_counter() - started)
            at = slice(start, end)
            with on_threads(self.lm.prefill_threads):
                out = self.lm.forward(tokens[at], positions[at], self.cache, logits_to_keep=1, features=self.features)
            self.cache.commit()
            if out.features is not None:
                yield States(out.features)
            self.logits = out.logits
        self._known = asked
        yield Prefilled(len(prompt), perf_counter() - started)


class _Sequence:
    """One request in a slot."""

    def __init__(self, number: int, request: BatchRequest, device: torch.device) -> None:
        self.number = number
        self.stop = request.stop
        self.prompt = len(request.prompt)
        self.segment_starts = upload(request.segment_starts, device)
        self.sampler = Sampler(request.sampling, request.prompt, device)
        self.last = -1
        self.reason: Reason | None = None

    def emit(
        self,
        token: int,
        ids: Tensor,
        seconds: float = 0.0,
        plain: float = 0.0,
        batch_size: int = 1,
        attribution: Tensor | None = None,
    ) -> Step:
        """Append the token that was chosen; `ids` [1] is the same on the device."""
        nodes = 0 if self.last < 0 else 1
        self.last = token
        self.sampler.commit([token], ids)
        new, self.reason = self.stop([token])
        return Step(tuple(new), self.prompt + self.stop.count, nodes, 0.0, seconds, plain, batch_size, attribution)


def _step(
    lm: LanguageModel,
    cache: BatchedKVCache,
    live: Sequence[_Sequence],
    features: Sequence[int],
    recorder: AttentionRecorder | None,
) -> tuple[Tensor, Tensor | None]:
    """Feed every sequence its last token: logits [live, vocabulary] and the features [live, widths] or None."""
    tokens = upload([one.last for one in live], lm.device)[:, None]
    context = ForwardContext(BatchedAttention(recorder), cache.mask())
    out = lm.run(ForwardInput(tokens, cache.lengths[:, None], cache, context, feature_layers=tuple(features)))
    cache.grow()
    return out.logits[:, 0], None if out.features is None else out.features[:, 0]
