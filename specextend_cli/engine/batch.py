"""Plain decoding of many prompts in a batch: a step emits one token of each, at about the cost of one.

The batch has a fixed number of slots; a sequence that ends makes room for the next prompt (continuous batching, Orca,
OSDI 2022). Sequences in slots differ in length; rows after a sequence's end are masked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from time import perf_counter

import torch
from torch import Tensor

from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.config import Sampling
from specextend_cli.engine.cost_model import CostModel
from specextend_cli.engine.cuda.capture import turn
from specextend_cli.engine.decode import prefill_chunks
from specextend_cli.engine.events import Accepted, Event, Finished, Prefilled, Prefilling, Reason
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.sampling import Sampler
from specextend_cli.engine.step import Step
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
from specextend_cli.engine.transfer import Download, tells_dead_devices, upload


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """One prompt to continue. A prompt equal to that of the request before it is read only once.

    Requests decoded together are sampled alike, but for their seeds.
    No prefill chunk crosses the end of the first `shared_prefix` tokens. They are reused when the request before begins
    with the same ones; prefill boundaries affect rounding, so they are the same in either case.
    """

    prompt: Sequence[int]
    stop: Stop
    sampling: Sampling = field(default_factory=Sampling)
    shared_prefix: int = 0


_FEWEST = 4  # sequences that are started even if prefill takes long: with fewer, a batch gains little


@tells_dead_devices
@torch.inference_mode()
def decode_batch(
    lm: LanguageModel,
    requests: Sequence[BatchRequest],
    *,
    slots: int,
    prefill_chunk: int = 1024,
    costs: CostModel | None = None,
    patience: float = inf,
) -> Iterator[tuple[int, Event]]:
    """Continue every request until its own end, `slots` at a time; events come with the request's number.

    `costs` learns from steps with a single sequence and gives the cost of plain steps. After four prompts, no more are
    read while prefill has taken `patience` seconds since a sequence ended, so that the first results are not delayed
    for long. Tokens are those of plain decoding, up to rounding between a batch's and a single row's matrix products.
    ValueError for an empty prompt.
    """
    if not all(request.prompt for request in requests):
        raise ValueError("a prompt is empty")
    reader = _Reader(lm, prefill_chunk)
    batch = _Batch(lm, requests, slots)
    costs = costs or CostModel()
    waiting = deque(enumerate(requests))
    reading = 0.0  # seconds of prefill since a sequence ended
    running: deque[_Running] = deque()  # steps that were launched and not read
    clock = perf_counter()
    while waiting or batch.live or running:
        while waiting and len(batch.live) < slots and (reading < patience or len(batch.live) < _FEWEST):
            number, request = waiting.popleft()
            for event in reader.read(request.prompt, request.shared_prefix):
                if isinstance(event, Prefilled):
                    reading += event.seconds
                yield number, event
            began, sampler = _Sequence(number, request), Sampler(request.sampling, lm.device)
            choice = sampler.choose(reader.logits)
            sampler.commit(choice[None])
            yield number, began.append(int(choice), 0, 0.0, 0.0, 1)
            if began.reason:
                yield number, Finished(began.reason, began.stop.count)
            else:
                batch.add(began, sampler, choice, reader.cache)
            clock = perf_counter()
        if batch.live:
            running.append(batch.launch(reader.prompts))
        if not running or (batch.live and len(running) <= batch.ahead):
            continue
        step = running.popleft()
        tokens = step.choice.tolist()  # the only read of a step, whatever the batch's size
        batch_size, seconds, clock = len(step.sequences), perf_counter() - clock, perf_counter()
        if batch_size == 1 and step.prompts == reader.prompts:  # else a prompt was read while it ran
            costs.learn(1, step.longest, seconds)
        plain = costs.plain(step.longest)
        for slot, one in enumerate(step.sequences):
            if one.reason:  # it ended while the step ran
                continue
            yield one.number, one.append(tokens[slot], 1, seconds / batch_size, plain, batch_size)
            if one.reason:
                reading = 0.0
                yield one.number, Finished(one.reason, one.stop.count)
                batch.drop(one)


def slots_for(lm: LanguageModel, tokens: int, memory: int) -> int:
    """The number of sequences of `tokens` tokens that fit into `memory` bytes; at least one."""
    probe = lm.new_cache(1)
    return max(memory // (probe.nbytes // probe.capacity * max(tokens, 1) + lm.state_bytes), 1)


class _Reader:
    """Reads prompts one by one, in prefill chunks; a prefix that it has just read is kept."""

    def __init__(self, lm: LanguageModel, chunk: int) -> None:
        self.target, self.chunk = Target(lm), chunk
        self.cache = self.target.cache
        self.logits = torch.empty(0)
        self.prompts = 0  # that were read so far
        self._known: tuple[list[int], int] = ([], 0)

    def read(self, prompt: Sequence[int], shared_prefix: int) -> Iterator[Event]:
        shared_prefix = min(shared_prefix, len(prompt) - 1)
        asked = list(prompt), shared_prefix
        if asked == self._known:
            return
        (known, boundary), self._known = self._known, ([], 0)
        self.prompts += 1
        # A cache that grows loses its rows.
        same = boundary == shared_prefix and known[:shared_prefix] == list(prompt[:shared_prefix])
        same = same and self.cache.capacity >= len(prompt) and self.cache.states.is_marked(shared_prefix)
        kept = shared_prefix if same else 0
        if kept:
            self.cache.rollback(kept)
        else:
            self.cache.begin(len(prompt))
        started = perf_counter()
        tokens = upload(prompt, self.cache.device)
        for start, end in prefill_chunks(len(prompt), self.chunk, shared_prefix):
            if start < kept:
                continue
            yield Prefilling(start, len(prompt), perf_counter() - started)
            self.logits = self.target.prefill(tokens[start:end]).logits
            if end == shared_prefix:
                self.cache.states.mark(end)
        self._known = asked
        yield Prefilled(len(prompt), perf_counter() - started)


class _Sequence:
    """One request in a slot."""

    def __init__(self, number: int, request: BatchRequest) -> None:
        self.number = number
        self.stop = request.stop
        self.prompt = len(request.prompt)
        self.reason: Reason | None = None

    def append(self, token: int, nodes: int, seconds: float, plain: float, batch_size: int) -> Accepted:
        """The next token, which a sampler has committed."""
        new, self.reason = self.stop([token])
        return Accepted(tuple(new), self.prompt + self.stop.count, nodes, 0.0, seconds, plain, batch_size)


@dataclass(frozen=True, slots=True)
class _Running:
    """A step that was launched: its sequences by slot, and what it will compute for each.

    `prompts` and `longest` are the prompts read and the longest sequence's rows at that time.
    """

    sequences: tuple[_Sequence, ...]
    prompts: int
    longest: int
    choice: Download


class _Batch:
    """The live sequences, by slot, and their next step. Tokens stay on the device from step to step.

    On a GPU, a step is launched before the one ahead of it is read: the host's work on one step's tokens then takes no
    time of the GPU. A sequence that ends has one token too many computed, which nobody sees.
    """

    def __init__(self, lm: LanguageModel, requests: Sequence[BatchRequest], slots: int) -> None:
        self.lm = lm
        self.ahead = 0 if lm.device.type == "cpu" else 1
        longest = max((len(request.prompt) + request.stop.max_tokens for request in requests), default=0)
        self.slots = lm.runner.slots(min(slots, len(requests)))
        self.cache = lm.new_cache(longest + self.ahead, slots=self.slots)
        self.live: list[_Sequence] = []
        self._sampler: Sampler  # of all live sequences
        self._tokens = torch.zeros(self.slots, dtype=torch.long, device=lm.device)  # the last one of each

    def add(self, one: _Sequence, sampler: Sampler, choice: Tensor, read: KVCache) -> None:
        """A sequence whose prompt was read, and its first token [1]."""
        self._tokens[len(self.live)] = choice[0]
        if self.live:
            self._sampler.add(sampler)
        else:
            self._sampler = sampler
        self.live.append(one)
        self.cache.add(read)

    def drop(self, one: _Sequence) -> None:
        """Free its slot; the last one moves there."""
        slot = self.live.index(one)
        self.cache.drop(slot)
        self._tokens[slot] = self._tokens[len(self.live) - 1]
        self.live[slot] = self.live[-1]
        self.live.pop()
        if self.live:
            self._sampler.drop(slot)

    def launch(self, prompts: int) -> _Running:
        """Feed every sequence its last token, and choose the next; `prompts` were read so far."""
        lm, cache, used = self.lm, self.cache, len(self.live)
        longest = cache.length
        with turn(lm.device):
            out = lm.run(Step(self._tokens[:used], cache.lengths, cache, sequences=used))
            cache.grow()
            choice = self._sampler.choose(out.logits)
            self._sampler.commit(choice[:, None])
        self._tokens[:used] = choice
        return _Running(tuple(self.live), prompts, longest, Download(choice))
