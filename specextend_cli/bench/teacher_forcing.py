"""Teacher forcing: the target's and the draft's distributions before each token of a given text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from specextend_cli.engine.config import Retrieval, TreeShape
from specextend_cli.engine.drafters import Drafter
from specextend_cli.engine.retrieval import Schedule
from specextend_cli.engine.target import Target
from specextend_cli.engine.tree import root


class Forced(NamedTuple):
    """Probabilities [vocabulary] of target and draft (float32) before a token, and the token."""

    target: Tensor
    draft: Tensor
    token: int


@torch.inference_mode()
def teacher_forced(
    target: Target,
    drafter: Drafter,
    prompt: Sequence[int],
    continuation: Sequence[int],
    retrieval: Retrieval,
    prefill_chunk: int,
) -> Iterator[Forced]:
    """One `Forced` a token of `continuation` but the first, which comes from prefill and is never drafted.

    The draft's working set is chosen as `decode` chooses it: after prefill, and every few steps.
    """
    device, vocabulary = target.lm.device, target.lm.vocabulary
    whole = TreeShape(nodes=vocabulary + 1, depth=1, width=vocabulary, threshold=0.0)  # one level of every token
    target.begin(len(prompt) + len(continuation) + 1)
    drafter.begin(len(prompt) + len(continuation) + 1)
    schedule = Schedule(retrieval.every)
    for at in range(0, len(prompt), prefill_chunk):
        piece = prompt[at : at + prefill_chunk]
        out = target.prefill(torch.tensor(piece, device=device), features=drafter.feature_layers)
        drafter.observe(piece, out.features)
    drafter.observe(continuation[:1], None)
    if drafter.retrieves:
        drafter.retrieve(target.attention_from([-1]))
    for last, token in pairwise(continuation):
        tree = drafter.propose(whole)
        draft = torch.zeros(vocabulary, device=device)
        draft[tree.tokens[1:]] = tree.scores[1:].float()
        record = drafter.retrieves and schedule.due()
        out = target.verify(root(last, device), features=drafter.feature_layers, record=record)
        target.keep([0])
        drafter.observe([token], out.features)
        yield Forced(out.logits[0].float().softmax(-1), draft, token)
        if record:
            drafter.retrieve(target.attention_from([0]))
