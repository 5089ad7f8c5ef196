"""Step times after a prompt: verification by nodes, drafting and the choice of a working set by its size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TypeAlias

import torch

from specextend_cli.bench.prefilled import read
from specextend_cli.bench.roofline import seconds
from specextend_cli.engine.acceptance import accept
from specextend_cli.engine.config import Sampling, TreeShape
from specextend_cli.engine.drafters.model import ModelDrafter
from specextend_cli.engine.sampling import Sampler
from specextend_cli.engine.target import Target
from specextend_cli.engine.tree import DraftTree, root

Times: TypeAlias = dict[int, list[float]]  # seconds of every round, by nodes or by tokens of a working set


@dataclass(frozen=True)
class Plan:
    """Trees of these `nodes`, and drafts of `shape` over `working` sets of these sizes, in rounds.

    Every round measures all sizes, so that a slow moment affects all alike.
    """

    nodes: Sequence[int]
    working: Sequence[int]
    shape: TreeShape
    rounds: int
    prefill_chunk: int
    sampling: Sampling = field(default_factory=Sampling)

    @property
    def room(self) -> int:
        """Cache rows needed after the prompt: a token a draft, and the largest tree."""
        return (self.rounds + 2) * len(self.working) + max(*self.nodes, self.shape.nodes) + 1


@dataclass
class Steps:
    """Measurements after one prompt, by `measure`."""

    target: Target
    drafter: ModelDrafter
    plan: Plan
    verifying: Times = field(default_factory=lambda: defaultdict(list))
    drafting: Times = field(default_factory=lambda: defaultdict(list))
    choosing: Times = field(default_factory=lambda: defaultdict(list))

    @property
    def plain(self) -> float:
        """Seconds of a plain step."""
        return median(self.verifying[1])

    @torch.inference_mode()
    def measure(self, prompt: Sequence[int]) -> Iterator[int]:
        """Read the prompt and time every round; yields the number of rounds done."""
        target, drafter, plan = self.target, self.drafter, self.plan
        yield 0
        out = read(target, prompt, plan.prefill_chunk, room=plan.room, drafter=drafter)
        sampler = Sampler(plan.sampling, prompt, target.lm.device)
        last = int(sampler.choose(out.logits))
        sampler.commit([last])
        drafter.observe([last], None)
        drafter.retrieve(target.attention_from([-1]))
        trees = [_binary(prompt, nodes) for nodes in plan.nodes]
        for number in range(plan.rounds + 1):  # the first warms up
            yield number
            for tree in trees:
                self._verify(tree, sampler)
            for size in plan.working:
                last = self._draft(last, size)
            if number == 0:
                for times in (self.verifying, self.drafting, self.choosing):
                    times.clear()

    def _verify(self, tree: DraftTree, sampler: Sampler) -> None:
        """Time a step as in `decode`, after another of as many nodes, so that caches are as in decoding.

        The accepted nodes are rolled back.
        """

        def step() -> None:
            self.target.cache.rollback()
            accept(tree, sampler.choose(self.target.verify(tree).logits, tree))

        step()
        self._time(self.verifying, len(tree), step)
        self.target.cache.rollback()

    def _draft(self, last: int, size: int) -> int:
        """A plain step after `last`, a choice of `size` tokens and a draft over them; returns the next token.

        The choice does not affect the time, so the tokens are spread evenly.
        """
        target, drafter, device = self.target, self.drafter, self.target.lm.device
        out = target.verify(root(last), features=drafter.feature_layers, record=True)
        token = int(out.logits[0].argmax())
        target.keep([0])
        length = drafter.working.read
        chosen = torch.linspace(0, length - 1, min(size, length), device=device).long().unique()
        shape = replace(self.plan.shape, threshold=0.0)  # every level is grown: all sizes run as many forwards

        def choose() -> None:
            target.attention_from([0])
            drafter.working.show(chosen)

        self._time(self.choosing, size, choose)
        self._time(self.drafting, size, lambda: drafter.propose(shape))
        drafter.observe([token], out.features)
        return token

    def _time(self, times: Times, size: int, call: Callable[[], object]) -> None:
        times[size].append(seconds(call, self.target.lm.device))


def _binary(tokens: Sequence[int], nodes: int) -> DraftTree:
    """A binary tree of the prompt's tokens."""
    parents = [max(0, (node - 1) // 2) for node in range(nodes)]
    return DraftTree([tokens[node % len(tokens)] for node in range(nodes)], parents, [1.0] * nodes)
