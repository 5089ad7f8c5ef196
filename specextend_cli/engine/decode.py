"""The decoding loop: prefill, then draft, verify and accept until the end. Plain decoding is the same loop.

A drafter is under its gate: trees are of the size that pays, and working sets are chosen as often as it affords.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from time import perf_counter

import torch

from specextend_cli.engine.config import Retrieval, Sampling, TreeShape
from specextend_cli.engine.cuda.capture import turn
from specextend_cli.engine.draft_gate import DraftGate
from specextend_cli.engine.drafters.base import Drafter
from specextend_cli.engine.events import Accepted, DrafterFailed, Event, Finished, Prefilled, Prefilling, Retrieved
from specextend_cli.engine.plain import TransformersTarget
from specextend_cli.engine.sampling import Sampler
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
from specextend_cli.engine.transfer import tells_dead_devices, upload
from specextend_cli.engine.tree import DraftTree, accept, root


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
    gate, retrieval = gate or DraftGate(), retrieval or Retrieval()
    sampler = Sampler(sampling or Sampling(), target.lm.device)
    capacity = len(prompt) + stop.max_tokens + gate.shape.nodes + 1
    target.begin(capacity)
    drafter.begin(capacity)
    if gate.begin():
        drafter.suspend()

    started = perf_counter()
    is_whole = isinstance(target, TransformersTarget)
    chunks = [(0, len(prompt))] if is_whole else prefill_chunks(len(prompt), prefill_chunk, shared_prefix)
    for start, end in chunks:
        yield Prefilling(start, len(prompt), perf_counter() - started)
        ids = upload(prompt[start:end], target.lm.device)
        wanted = drafter.feature_layers if drafter.reads_prompt or end == len(prompt) else ()
        out = target.prefill(ids, features=wanted)
        drafter.observe(prompt[start:end], out.features, ids)
    choice = sampler.choose(out.logits)
    tokens = choice.tolist()
    sampler.commit(choice[None])
    drafter.observe(tokens, None, choice)
    yield Prefilled(len(prompt), perf_counter() - started)
    has_failed = drafter.failure is not None
    steps = 0  # with drafts since a working set was chosen
    if drafter.retrieves:
        yield _retrieve(target, drafter, -1, is_first=True)
    new, reason = stop(tokens)
    yield Accepted(tuple(new), len(prompt) + stop.count, 0, 0.0, 0.0, 0.0)

    while reason is None:
        with turn(target.lm.device):
            began, length = perf_counter(), target.length
            shape = gate.next_shape(length)
            tree = _draft(target, drafter, gate, shape) if shape.nodes > 1 else root(tokens[-1])
            drafted = perf_counter()
            uses_set = drafter.is_restricted and shape.nodes > 1 and shape.forwards > 0
            steps += uses_set
            retrieves = uses_set and 0 < retrieval.every <= steps and gate.affords_choice()
            out = target.verify(tree, features=drafter.feature_layers, record=retrieves)
            choice = sampler.choose(out.logits, tree)  # the target's token behind every node
            path, tokens = accept(tree, choice)  # the nodes that equal it, root first, and the token behind the last
            kept = target.commit(path)
            ids = choice[kept]
            sampler.commit(ids[None])
            drafter.observe(tokens, out.features[kept] if out.features is not None else None, ids)
            draft_seconds, verify_seconds = drafted - began, perf_counter() - drafted
            suspends = gate.learn(tree, shape, path, draft_seconds, verify_seconds, length)
        new, reason = stop(tokens)
        plain_seconds = gate.costs.plain(length)
        yield Accepted(tuple(new), len(prompt) + stop.count, len(tree), draft_seconds, verify_seconds, plain_seconds)
        if drafter.failure and not has_failed:
            has_failed = True
            yield DrafterFailed(drafter.failure)
        if retrieves and reason is None:
            steps = 0
            retrieved = _retrieve(target, drafter, path[-1])
            gate.charge(retrieved.seconds, length)
            yield retrieved
        if suspends:
            drafter.suspend()
    yield Finished(reason, stop.count)


def prefill_chunks(tokens: int, chunk: int, shared_prefix: int = 0) -> list[tuple[int, int]]:
    """(start, end) of prefill chunks of at most `chunk` tokens; none crosses the end of the shared prefix.

    Prefill boundaries affect rounding, so every reader shares them, and a prefix of several prompts can be read once.
    The last token is never part of it, because its logits are needed.
    """
    shared_prefix = min(shared_prefix, tokens - 1)
    return list(pairwise([*range(0, shared_prefix, chunk), *range(shared_prefix, tokens, chunk), tokens]))


def _draft(target: Target | TransformersTarget, drafter: Drafter, gate: DraftGate, shape: TreeShape) -> DraftTree:
    """The drafter's tree, as the target can follow it, cut to the nodes that pay: perhaps to the root alone."""
    proposed = drafter.propose(shape)
    if not target.follows_trees(min(len(proposed), shape.nodes)):
        proposed = proposed.chain()
    return gate.cut(proposed, target.length)


def _retrieve(target: Target | TransformersTarget, drafter: Drafter, node: int, *, is_first: bool = False) -> Retrieved:
    """Let the drafter choose its working set by the attention of the `node` that was accepted last."""
    assert isinstance(target, Target)  # no other is drafted for
    began = perf_counter()
    scores = target.attention_from(node)
    old = None if is_first else drafter.visible()
    drafter.retrieve(scores)
    new = drafter.visible()
    return Retrieved(scores[new if old is None else old].sum(), new, len(scores), perf_counter() - began)
