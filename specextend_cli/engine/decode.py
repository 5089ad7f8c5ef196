"""The decoding loop: prefill, then draft, verify and accept until the end. Plain decoding is the same loop."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from itertools import pairwise
from time import perf_counter

import torch
from torch import Tensor

from specextend_cli.engine.config import Retrieval, Sampling
from specextend_cli.engine.cuda.capture import turn
from specextend_cli.engine.draft_gate import DraftGate
from specextend_cli.engine.drafters.base import Drafter
from specextend_cli.engine.drafting import Drafting
from specextend_cli.engine.events import Accepted, Event, Finished, Prefilled, Prefilling
from specextend_cli.engine.plain import TransformersTarget
from specextend_cli.engine.sampling import Sampler
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
from specextend_cli.engine.transfer import tells_dead_devices, upload
from specextend_cli.engine.tree import accept


@tells_dead_devices
@torch.inference_mode()
def decode(
    target: Target | TransformersTarget,
    drafter: Drafter,
    prompt: Sequence[int],
    *,
    stop: Stop,
    sampling: Sampling | None = None,
    retrieval: Retrieval | None = None,
    gate: DraftGate | None = None,
    prefill_chunk: int = 1024,
    shared_prefix: int = 0,
) -> Iterator[Event]:
    """Continue `prompt` until `stop`, as a stream of events. ValueError for an empty prompt.

    No prefill chunk crosses the end of the first `shared_prefix` tokens. A target of transformers' own reads the prompt
    at once, and takes no drafter but `NoDrafter`.

    Losslessness: for every drafter the tokens are those of plain decoding. They are the same in float32; in half
    precision, a tree's and a single token's matrix products may round differently.
    """
    if not prompt:
        raise ValueError("the prompt is empty")
    sampler = Sampler(sampling or Sampling(), target.lm.device)
    drafting = Drafting(target, drafter, gate := gate or DraftGate(), retrieval or Retrieval())
    capacity = len(prompt) + stop.max_tokens + gate.shape.nodes + 1
    target.begin(capacity)
    drafting.begin(capacity)

    started = perf_counter()
    is_whole = isinstance(target, TransformersTarget)
    chunks = [(0, len(prompt))] if is_whole else prefill_chunks(len(prompt), prefill_chunk, shared_prefix)
    logits = yield from _prefill(target, drafter, prompt, chunks)
    choice = sampler.choose(logits)
    tokens = choice.tolist()
    sampler.commit(choice[None])
    drafter.observe(tokens, None, choice)
    yield Prefilled(len(prompt), perf_counter() - started)
    yield from drafting.first_events()
    new, reason = stop(tokens)
    yield Accepted(tuple(new), len(prompt) + stop.count, 0, 0.0, 0.0, 0.0)

    while reason is None:
        with turn(target.lm.device):
            tree = drafting.draft(tokens[-1])
            out = target.verify(tree, features=drafter.feature_layers, record=drafting.is_choosing)
            choice = sampler.choose(out.logits, tree)  # the target's token behind every node
            path, tokens = accept(tree, choice)  # the nodes that equal it, root first, and the token behind the last
            kept = target.commit(path)
            ids = choice[kept]
            sampler.commit(ids[None])
            drafter.observe(tokens, out.features[kept] if out.features is not None else None, ids)
            seconds = drafting.learn(path)
        new, reason = stop(tokens)
        yield Accepted(tuple(new), len(prompt) + stop.count, len(tree), *seconds)
        yield from drafting.events(path, ended=reason is not None)
    yield Finished(reason, stop.count)


def prefill_chunks(tokens: int, chunk: int, shared_prefix: int = 0) -> list[tuple[int, int]]:
    """(start, end) of prefill chunks of at most `chunk` tokens; none crosses the end of the shared prefix.

    Prefill boundaries affect rounding, so every reader shares them, and a prefix of several prompts can be read once.
    The last token is never part of it, because its logits are needed.
    """
    shared_prefix = min(shared_prefix, tokens - 1)
    return list(pairwise([*range(0, shared_prefix, chunk), *range(shared_prefix, tokens, chunk), tokens]))


def _prefill(
    target: Target | TransformersTarget, drafter: Drafter, prompt: Sequence[int], chunks: Sequence[tuple[int, int]]
) -> Generator[Event, None, Tensor]:
    """Let target and drafter read the prompt; returns the logits [1, vocabulary] of its last token."""
    started, logits = perf_counter(), torch.empty(0)
    for start, end in chunks:
        yield Prefilling(start, len(prompt), perf_counter() - started)
        ids = upload(prompt[start:end], target.lm.device)
        wanted = drafter.feature_layers if drafter.reads_prompt or end == len(prompt) else ()
        out = target.prefill(ids, features=wanted)
        drafter.observe(prompt[start:end], out.features, ids)
        logits = out.logits
    return logits
