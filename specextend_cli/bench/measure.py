"""One run of one of our methods over one prompt, and whether its tokens are plain decoding's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from time import perf_counter

import torch

from specextend_cli.bench.prefilled import Prefilled, read
from specextend_cli.bench.results import Divergence, Run
from specextend_cli.bench.statistics import first_difference
from specextend_cli.engine.config import Retrieval, Sampling
from specextend_cli.engine.decode import decode
from specextend_cli.engine.draft_gate import DraftGate
from specextend_cli.engine.drafters import Drafter
from specextend_cli.engine.events import Accepted, Event, Retrieved
from specextend_cli.engine.events import Prefilled as PrefilledEvent
from specextend_cli.engine.sampling import Sampler
from specextend_cli.engine.stop import Stop


@dataclass(frozen=True, slots=True)
class Decoding:
    """Settings that all methods of a benchmark share."""

    sampling: Sampling
    tokens: int
    eos: frozenset[int]
    prefill_chunk: int


def measured(
    target: Prefilled,
    drafter: Drafter,
    prompt: Sequence[int],
    decoding: Decoding,
    retrieval: Retrieval,
    gate: DraftGate,
) -> Iterator[Event | Run]:
    """Decode once; yields the engine's events, and last what was measured.

    Prefill time is that of the target's real reading, plus whatever the drafter read.
    """
    stop, sampling, chunk = Stop(decoding.tokens, decoding.eos), decoding.sampling, decoding.prefill_chunk
    seconds, prefill_seconds = 0.0, 0.0
    steps, retrieved = list[Accepted](), list[Retrieved]()
    began = perf_counter()
    for event in decode(
        target, drafter, prompt, stop=stop, sampling=sampling, retrieval=retrieval, gate=gate, prefill_chunk=chunk
    ):
        seconds += perf_counter() - began
        if isinstance(event, PrefilledEvent):
            prefill_seconds, seconds = seconds - target.spent_seconds + target.read_seconds, 0.0
        elif isinstance(event, Accepted):
            steps.append(event)
        elif isinstance(event, Retrieved):
            retrieved.append(event)
        yield event
        began = perf_counter()  # what the caller does with the event does not count
    verified = [step for step in steps if step.nodes]
    yield Run(
        tokens=tuple(token for step in steps for token in step.tokens),
        prefill_seconds=prefill_seconds,
        decode_seconds=seconds,
        accepted=tuple(step.accepted for step in verified),
        nodes=tuple(step.nodes for step in verified),
        hit=fmean(event.hit for event in retrieved) if retrieved else None,
    )


TOLERANCE = 1.0
"""The largest gap, in logits, that rounding may reverse in half precision.

A bfloat16 number has eight significant bits, so logits between 16 and 32 are 1/8 apart; a tree's matrix products
round otherwise than a single token's in every layer, and eight such steps leave room for the layers' errors to add up.
A wrong implementation reverses gaps of any size; the typical gap is several logits.
"""


def divergence(
    target: Prefilled, prompt: Sequence[int], plain: Sequence[int], other: Sequence[int], decoding: Decoding
) -> Divergence | None:
    """The first difference of `other` from `plain`, plain decoding's continuation of `prompt`; None if equal."""
    index = first_difference(plain, other)
    if index is None:
        return None
    return Divergence(index, gap(target, prompt, plain, index, decoding) if index < len(plain) else None)


@torch.inference_mode()
def gap(target: Prefilled, prompt: Sequence[int], plain: Sequence[int], index: int, decoding: Decoding) -> float:
    """The difference of the two best choices for token `index`, after `prompt` and `plain[:index]`.

    In logits, penalties included; for sampling, in logarithms of the scores that the sampler compares.
    """
    logits = read(target, prompt, decoding.prefill_chunk, room=len(plain) + 1)
    sampler = Sampler(decoding.sampling, target.lm.device)
    if index:
        # The tokens before it, in one forward instead of one by one.
        before = torch.tensor(plain[:index], device=target.lm.device)
        logits = target.prefill(before).logits
        sampler.commit(before[None])
    best = sampler.ranking(logits)[0].topk(2).values
    if not decoding.sampling.greedy:
        best = best.log()
    return float(best[0] - best[1])


def is_wrong(found: Divergence | None, *, exact: bool) -> bool:
    """True if a lossless method's divergence cannot be rounding."""
    return found is not None and (exact or found.gap is None or found.gap > TOLERANCE)
