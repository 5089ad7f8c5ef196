"""Decoding a tiny model with every drafter, for tests that compare its tokens with plain decoding's."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from specextend_cli.engine.batch import BatchRequest, decode_batch
from specextend_cli.engine.config import Retrieval, Sampling, TreeShape
from specextend_cli.engine.decode import decode
from specextend_cli.engine.draft_gate import DraftGate
from specextend_cli.engine.drafters import (
    BlendDrafter,
    Drafter,
    EagleDrafter,
    LMDrafter,
    NgramDrafter,
    NgramTableDrafter,
    NoDrafter,
)
from specextend_cli.engine.drafters.table import NgramTable, key_of
from specextend_cli.engine.events import Accepted, Finished
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.meter import Meter
from specextend_cli.engine.stop import Stop
from specextend_cli.engine.target import Target
from specextend_cli.engine.tree import DraftTree
from tests.engine.tiny_heads import tiny_head
from tests.engine.tiny_models import VOCABULARY, by_generate, prompt, small_draft, windowed_draft


class RandomDrafter(Drafter):
    """A deliberately bad one: well-formed trees of random tokens. Losslessness must not depend on a drafter's wits."""

    name = "random"

    def __init__(self, vocabulary: int, seed: int = 0) -> None:
        self.vocabulary = vocabulary
        self.random = random.Random(seed)
        self._last = 0

    def observe(self, tokens: Sequence[int], features: Tensor | None, ids: Tensor | None = None) -> None:
        self._last = tokens[-1]

    def propose(self, shape: TreeShape) -> DraftTree:
        tokens, parents, scores = [self._last], [0], [1.0]
        siblings: set[tuple[int, int]] = set()
        for _ in range(shape.nodes - 1):
            parent, token = self.random.randrange(len(tokens)), self.random.randrange(self.vocabulary)
            if (parent, token) not in siblings:
                siblings.add((parent, token))
                tokens.append(token)
                parents.append(parent)
                scores.append(scores[parent] * self.random.random())
        return DraftTree(tokens, parents, scores)


NEW = 32
SHAPE = TreeShape(nodes=16, depth=5, width=3, threshold=0.0)
POLICIES = ("full", "streaming", "retrieval")
WORKING_SETS = [(policy, positions) for policy in POLICIES for positions in ("absolute", "compact")]

Make = Callable[[Target, Retrieval], Drafter]
DRAFTERS: dict[str, Make] = {
    "none": lambda target, retrieval: NoDrafter(),
    "ngram": lambda target, retrieval: NgramDrafter(),
    "table": lambda target, retrieval: NgramTableDrafter(usual_table()),
    "random": lambda target, retrieval: RandomDrafter(VOCABULARY),
    "self": lambda target, retrieval: LMDrafter(target.lm, target, retrieval),
    "lm": lambda target, retrieval: LMDrafter(LanguageModel(small_draft().to(target.lm.device)), target, retrieval),
    "lm-window": lambda target, retrieval: LMDrafter(
        LanguageModel(small_draft().to(target.lm.device)), target, retrieval, window=32
    ),
    "blend": lambda target, retrieval: BlendDrafter([NgramDrafter(), LMDrafter(target.lm, target, retrieval)]),
    "eagle1": lambda target, retrieval: eagle("eagle1", target, retrieval),
    "eagle3": lambda target, retrieval: eagle("eagle3", target, retrieval),
    "eagle3-window": lambda target, retrieval: eagle("eagle3", target, retrieval, window=32),
    "eagle3.1": lambda target, retrieval: eagle("eagle3.1", target, retrieval),
    "blend-eagle": lambda target, retrieval: BlendDrafter(
        [
            eagle("eagle1", target, retrieval),
            NgramDrafter(),
            NgramTableDrafter(usual_table()),
            eagle("eagle3", target, retrieval),
        ]
    ),
}
FAMILY_DRAFTERS: dict[str, Make] = {
    **DRAFTERS,
    "lm-sliding": lambda target, retrieval: LMDrafter(LanguageModel(windowed_draft()), target, retrieval),
}


def eagle(name: str, target: Target, retrieval: Retrieval, *, window: int | None = None) -> EagleDrafter:
    """A head of the target's width, where the target is."""
    width = target.lm.config.hidden_size
    sizes = {"target_hidden": width} if name.startswith("eagle3") else {"target_hidden": width, "hidden": width}
    head = tiny_head(name, **sizes).to(target.lm.device)
    return EagleDrafter(head, target, retrieval, window=window)


def usual_table() -> NgramTable:
    """What the tiny target writes, partly: every other continuation is wrong."""
    written = [*prompt(), *by_generate(NEW)]
    pairs = list(pairwise(written))[-NEW:]
    rows = {key_of([token]): row for row, (token, _) in enumerate(pairs)}
    tokens = [[after if row % 2 else 1, 2] for row, (_, after) in enumerate(pairs)]
    return NgramTable(rows, tokens, [[0.6, 0.3]] * len(tokens))


def small(policy: str, **changes: object) -> Retrieval:
    """A working set that leaves most of a test's prompt out."""
    return Retrieval(**{"policy": policy, "chunk": 8, "top_k": 4, "recent": 16, "sinks": 2, "every": 2, **changes})


def run(
    target: Target,
    drafter: Drafter,
    tokens: Sequence[int],
    retrieval: Retrieval,
    sampling: Sampling | None = None,
    *,
    gate: DraftGate | bool = False,
    new: int = NEW,
    shape: TreeShape = SHAPE,
) -> tuple[list[int], Meter]:
    """The tokens that are decoded, and their statistics. `gate`: the usual one, none, or another."""
    out: list[int] = []
    meter = Meter()
    for event in decode(
        target,
        drafter,
        tokens,
        stop=Stop(new),
        sampling=sampling,
        retrieval=retrieval,
        gate=DraftGate(shape, enabled=gate) if isinstance(gate, bool) else gate,
        prefill_chunk=64,
    ):
        meter.add(event)
        if isinstance(event, Accepted):
            out.extend(event.tokens)
    assert isinstance(event, Finished)
    assert event.tokens == len(out)
    return out, meter


def decode_together(lm: LanguageModel, requests: Sequence[BatchRequest], slots: int) -> list[list[int]]:
    """What each request gets, of a batch of at most `slots` sequences."""
    written: list[list[int]] = [[] for _ in requests]
    for number, event in decode_batch(lm, requests, slots=slots, prefill_chunk=16):
        if isinstance(event, Accepted):
            written[number].extend(event.tokens)
    return written


def prefill_in_pieces(target: Target, drafter: Drafter, tokens: Sequence[int]) -> list[Tensor]:
    """Let both read all but the last two tokens, and observe the one before the last; the features of each piece."""
    target.begin(128)
    drafter.begin(128)
    features = []
    for at in range(0, len(tokens) - 2, 40):
        piece = tokens[at : min(at + 40, len(tokens) - 2)]
        out = target.prefill(torch.tensor(piece), features=drafter.feature_layers)
        drafter.observe(piece, out.features)
        assert out.features is not None
        features.append(out.features)
    drafter.observe(tokens[-2:-1], None)
    return features
