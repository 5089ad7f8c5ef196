"""The decoding loop: prefill, then draft, verify and accept until the end. Plain decoding is the same loop."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from itertools import pairwise
from time import perf_counter

import torch
from torch import Tensor

from specextend_cli.engine.attribution import ATTRIBUTION_INTERVAL
from specextend_cli.engine.config import Retrieval, Sampling
from specextend_cli.engine.draft_gate import DraftGate
from specextend_cli.engine.drafters.base import Drafter
from specextend_cli.engine.events import DrafterFailed, Event, Finished, Prefilled, Prefilling, Retrieved, Step
from specextend_cli.engine.retrieval import Schedule
from specextend_cli.engine.sampling import Sampler
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
from specextend_cli.engine.threads import on_threads
from specextend_cli.engine.transfer import upload
from specextend_cli.engine.tree import root
from specextend_cli.engine.verify import accept


@torch.inference_mode()
def decode(
    target: Target,
    drafter: Drafter,
    prompt: Sequence[int],
    *,
    stop: Stop,
    sampling: Sampling | None = None,
    retrieval: Retrieval | None = None,
    gate: DraftGate | None = None,
    prefill_chunk: int = 1024,
    shared_prefix: int = 0,
    segment_starts: Sequence[int] = (),
    attribution_interval: int = ATTRIBUTION_INTERVAL,
) -> Iterator[Event]:
    """Continue `prompt` until `stop`, as a stream of events. ValueError for an empty prompt.

    No prefill chunk crosses the end of the first `shared_prefix` tokens. `segment_starts`, ascending positions, divide
    the prompt into segments, the last position ending the last one; every `attribution_interval` steps,
    `Step.attribution` is the attention that each segment got.

    Losslessness: for every drafter the tokens are those of plain decoding. They are the same in float32; in half
    precision, a tree's and a single token's matrix products may round differently.
    """
    if not prompt:
        raise ValueError("the prompt is empty")
    retrieval, gate = retrieval or Retrieval(), gate or DraftGate()
    sampler, schedule = Sampler(sampling or Sampling(), prompt, target.lm.device), Schedule(retrieval.every)
    attribution = _Attribution(target, segment_starts, attribution_interval)
    capacity = len(prompt) + stop.max_tokens + gate.shape.nodes + 1
    target.begin(capacity)
    drafter.begin(capacity)
    if gate.begin():
        drafter.suspend()

    started = perf_counter()
    logits = yield from _prefill(target, drafter, prompt, prefill_chunks(len(prompt), prefill_chunk, shared_prefix))
    choice = sampler.choose(logits)
    tokens = choice.tolist()
    sampler.commit(tokens, choice)
    drafter.observe(tokens, None, choice)
    yield Prefilled(len(prompt), perf_counter() - started)
    if drafter.retrieves:
        yield _retrieve(target, drafter, [-1], first=True)
    new, reason = stop(tokens)
    attended = attribution.of([-1], len(new))
    yield Step(tuple(new), len(prompt) + stop.count, 0, 0.0, 0.0, 0.0, 1, attended)

    failed = drafter.failure is not None  # and its event was emitted
    while reason is None:
        last, length = tokens[-1], target.length
        began = perf_counter()
        shape = gate.next_shape(length)
        tree = root(last)
        if shape.nodes > 1:
            tree = gate.cut(drafter.propose(shape).repaired(last, target.lm.vocabulary), length)
            if drafter.failure and not failed:
                failed = True
                yield DrafterFailed(drafter.failure)
        drafted = perf_counter()
        uses_set = drafter.is_restricted and shape.nodes > 1 and shape.forwards > 0
        choosing = uses_set and schedule.due(gate.affords_choice)
        out = target.verify(tree, features=drafter.feature_layers, record=choosing)
        choice = sampler.choose(out.logits, tree)
        path, tokens = accept(tree, choice)
        kept = target.keep(path)
        ids = choice[kept]
        sampler.commit(tokens, ids)
        drafter.observe(tokens, out.features[kept] if out.features is not None else None, ids)
        draft_seconds, verify_seconds = drafted - began, perf_counter() - drafted
        does_not_pay = gate.learn(tree, shape, path, draft_seconds, verify_seconds, length)

        new, reason = stop(tokens)
        attended, plain = attribution.of(path, len(new)), gate.costs.plain(length)
        yield Step(tuple(new), len(prompt) + stop.count, len(tree), draft_seconds, verify_seconds, plain, 1, attended)
        if choosing and reason is None:
            retrieved = _retrieve(target, drafter, path[-1:])
            gate.charge(retrieved.seconds, length)
            yield retrieved
        if does_not_pay:
            drafter.suspend()
    yield Finished(reason, stop.count)


def prefill_chunks(tokens: int, chunk: int, shared_prefix: int = 0) -> list[tuple[int, int]]:
    """(start, end) of prefill chunks of at most `chunk` tokens; none crosses the end of the shared prefix.

    Prefill boundaries affect rounding, so every reader shares them, and a prefix of several prompts can be read once.
    The last token is never part of it, because its logits are needed.
    """
    shared_prefix = min(shared_prefix, tokens - 1)
    return list(pairwise([*range(0, shared_prefix, chunk), *range(shared_prefix, tokens, chunk), tokens]))


def _prefill(
    target: Target, drafter: Drafter, prompt: Sequence[int], chunks: Sequence[tuple[int, int]]
) -> Generator[Event, None, Tensor]:
    """Let target and drafter read the prompt; returns the logits [1, vocabulary] of its last token."""
    started, logits = perf_counter(), torch.empty(0)
    for start, end in chunks:
        yield Prefilling(start, len(prompt), perf_counter() - started)
        with on_threads(target.lm.prefill_threads):
            ids = upload(prompt[start:end], target.lm.device)
            logits, features = target.prefill(ids, features=drafter.feature_layers)
            drafter.observe(prompt[start:end], features, ids)
    return logits


def _retrieve(target: Target, drafter: Drafter, path: Sequence[int], *, first: bool = False) -> Retrieved:
    """Let the drafter choose its working set by the attention of the nodes `path`, just accepted."""
    began = perf_counter()
    scores = target.attention_from(path)
    old = drafter.visible()
    drafter.retrieve(scores)
    new = drafter.visible()
    attention = scores[new if first else old].sum()
    fresh = torch.ones(len(scores), dtype=torch.bool, device=scores.device).index_fill_(0, old, False)[new].sum()
    return Retrieved(attention, new, fresh, len(scores), perf_counter() - began)


class _Attribution:
    """The attention that segments of the prompt get, at prefill and every `interval` steps."""

    def __init__(self, target: Target, starts: Sequence[int], interval: int) -> None:
        self._target, self._interval, self._steps = target, interval, 0
        self._starts = upload(starts, target.lm.device) if starts else None

    def of(self, path: Sequence[int], n: int) -> Tensor | None:
        """[n, segments] of the first n nodes just accepted; None at other steps, and without segments."""
        step, self._steps = self._steps, self._steps + 1
        if self._starts is None or step % self._interval:
            return None
        return self._target.segment_attention(path, self._starts)[:n]
