"""The decoding loop: prefill, then draft, verify, accept, until it is time to stop. Plain decoding is the same loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import perf_counter

import torch

from specextend_cli.engine.attribution import ATTRIBUTION_INTERVAL
from specextend_cli.engine.config import Retrieval, Sampling
from specextend_cli.engine.draft_gate import DraftGate
from specextend_cli.engine.drafters.base import Drafter
from specextend_cli.engine.events import DrafterFailed, Event, Finished, Looked, Prefilled, Prefilling, Retrieved, Step
from specextend_cli.engine.prefill import prefill_chunks
from specextend_cli.engine.retrieval import Trigger, spans
from specextend_cli.engine.sampling import Sampler
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
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
    budget: DraftGate | None = None,
    prefill_chunk: int = 1024,
    shared: int = 0,
    marks: Sequence[int] = (),
    look_every: int = ATTRIBUTION_INTERVAL,
) -> Iterator[Event]:
    """Continue `prompt` until `stop`, as a stream of events. ValueError for an empty prompt.

    The first `shared` tokens are read by themselves, as where they are kept for other prompts (see `pieces`).
    `marks`, ascending positions, part the prompt in segments; every `look_every` steps `Looked` tells the shares of
    attention that they got.

    Losslessness: whatever the drafter, the tokens are those of plain decoding; the same tokens in float32, and the same
    up to rounding between a tree's and a single token's matrix products in half precision.
    """
    if not prompt:
        raise ValueError("the prompt is empty")
    retrieval = retrieval or Retrieval()
    budget = budget or DraftGate()
    device, governor = target.lm.device, target.lm.governor
    sampler = Sampler(sampling or Sampling(), prompt, device)
    trigger = Trigger(retrieval)
    segments = torch.tensor(marks, device=device) if marks else None

    capacity = len(prompt) + stop.max_tokens + budget.shape.nodes + 1
    target.begin(capacity)
    drafter.begin(capacity)

    started = perf_counter()
    for at, end in prefill_chunks(len(prompt), prefill_chunk, shared):
        yield Prefilling(at, len(prompt), perf_counter() - started)
        piece = prompt[at:end]
        with governor.reading(target.lm.reading_threads):
            out = target.prefill(torch.tensor(piece, device=device), features=drafter.feature_layers)
            drafter.observe(piece, out.features)
    emitted = sampler.choose(out.logits).tolist()
    sampler.commit(emitted)
    drafter.observe(emitted, None)
    yield Prefilled(len(prompt), perf_counter() - started)
    if drafter.retrieves:
        yield _retrieve(target, drafter, [-1], first=True)

    if segments is not None:
        yield Looked(target.looks([-1], segments))
    new, reason = stop(emitted)
    yield Step(tuple(new), len(prompt) + len(new), 0, 0.0, 0.0, 0.0)
    last, steps = emitted[-1], 0
    failed = drafter.failure is not None  # and was told
    while reason is None:
        steps += 1
        length = target.length
        governor.begin_step()
        began = perf_counter()
        shape = budget.next_shape(length)
        tree = root(last, device)
        if shape.nodes > 1:
            tree = budget.cut(drafter.propose(shape).repaired(last, target.lm.vocabulary), length)
            if drafter.failure and not failed:
                failed = True
                yield DrafterFailed(drafter.failure)
        verifying = perf_counter()
        drafted = drafter.retrieves and shape.nodes > 1 and shape.forwards > 0
        recorded = drafted and trigger.could_be_due() and budget.affords_choice()
        out = target.verify(tree, features=drafter.feature_layers, record=recorded)
        verdict = accept(tree, sampler.choose(out.logits, tree))
        target.keep(verdict.path)
        sampler.commit(verdict.tokens)
        drafter.observe(verdict.tokens, out.features[verdict.path] if out.features is not None else None)
        last = verdict.tokens[-1]
        draft_seconds, verify_seconds = verifying - began, perf_counter() - verifying
        governor.end_step(len(tree), verify_seconds)
        budget.learn(tree, shape, len(verdict.tokens), draft_seconds, verify_seconds, length)

        if segments is not None and steps % look_every == 0:
            yield Looked(target.looks(verdict.path, segments))
        new, reason = stop(verdict.tokens)
        plain = budget.costs.plain(length)
        yield Step(tuple(new), len(prompt) + stop.count, len(tree), draft_seconds, verify_seconds, plain)
        if drafted and trigger.due(len(verdict.tokens), able=recorded) and reason is None:
            choice = _retrieve(target, drafter, verdict.path if retrieval.queries == "accepted" else verdict.path[-1:])
            budget.charge(choice.seconds, length)
            yield choice
    yield Finished(reason, stop.count)


def _retrieve(target: Target, drafter: Drafter, path: Sequence[int], *, first: bool = False) -> Retrieved:
    """Let the drafter choose its working set by where the target's nodes of `path`, just accepted, looked."""
    began = perf_counter()
    scores = target.attention_from(path)
    old = drafter.visible()
    drafter.retrieve(scores)
    new = drafter.visible()
    hit = float(scores[new if first else old].sum())
    was = torch.zeros(len(scores), dtype=torch.bool, device=scores.device)
    was[old] = True
    changed = int((~was[new]).sum())
    return Retrieved(min(hit, 1.0), spans(new), len(scores), changed, perf_counter() - began)
