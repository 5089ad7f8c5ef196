"""Drafting by copying: what followed the last few tokens when they stood in the document, or in the output, before.

Prompt lookup with three differences: several continuations go into one tree; longer matches come first; and how far a
match of each length can be trusted is learnt while decoding, so that scores are acceptance probabilities that can be
compared with a model's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.tree import DraftTree, from_lists

_PLACES = 8  # of the places where an n-gram occurred, the newest are kept


@dataclass
class Reliability:
    """How often the token after a match of m tokens was right, with a mild prior that longer matches are better."""

    longest: int
    prior: float = 4.0
    hits: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    trials: dict[int, float] = field(default_factory=lambda: defaultdict(float))

    def rate(self, m: int) -> float:
        """Probability that one of the continuations of a match of m tokens is the next token."""
        m = min(m, self.longest)
        expected = 1 - 0.7 / m
        return (self.hits[m] + self.prior * expected) / (self.trials[m] + self.prior)

    def learn(self, m: int, right: bool) -> None:
        """One match of m tokens, and whether any of its continuations was right. Old evidence fades."""
        m = min(m, self.longest)
        self.hits[m] = 0.98 * self.hits[m] + right
        self.trials[m] = 0.98 * self.trials[m] + 1


@dataclass
class _Node:
    """A guess, and the match that made its children: their length in tokens."""

    token: int
    parent: int
    score: float
    match: int = 0
    children: dict[int, int] = field(default_factory=dict)


class NgramDrafter:
    """Matches the last `longest` down to `shortest` tokens against everything committed so far.

    Its index lives on the host. Reliability outlives a sequence: it tells about the kind of text.
    """

    name = "ngram"
    feature_layers: tuple[int, ...] = ()
    retrieves = False

    def __init__(self, device: torch.device | str = "cpu", *, shortest: int = 1, longest: int = 5) -> None:
        self.device = device
        self.shortest = shortest
        self.longest = longest
        self.reliability = Reliability(longest)
        self.begin(0)

    def begin(self, capacity: int) -> None:
        """See `Drafter`."""
        self._tokens: list[int] = []
        self._places: dict[tuple[int, ...], list[int]] = {}
        self._proposed: list[_Node] = []

    def observe(self, tokens: Sequence[int], features: Tensor | None) -> None:
        """See `Drafter`."""
        self._learn(tokens)
        for token in tokens:
            self._tokens.append(token)
            end = len(self._tokens)
            for n in range(self.shortest, min(self.longest, end) + 1):
                places = self._places.setdefault(tuple(self._tokens[end - n :]), [])
                places.append(end)
                if len(places) > _PLACES:
                    del places[0]

    def propose(self, shape: TreeShape) -> DraftTree:
        """See `Drafter`. Nodes are opened best first, each by the longest match that its path has."""
        nodes = [_Node(self._tokens[-1], 0, 1.0)]
        # What follows a node: places in the sequence to copy on from, and the length of the match that led there.
        open_nodes = [(0, self._lookup(), 0)]
        while open_nodes and len(nodes) < 2 * shape.nodes:
            best = max(range(len(open_nodes)), key=lambda i: nodes[open_nodes[i][0]].score)
            index, (match, places), depth = open_nodes.pop(best)
            if not places or depth == shape.depth:
                continue
            nodes[index].match = match
            for token, onward in self._continuations(places).items():
                share = len(onward) / len(places)
                child = _Node(token, index, nodes[index].score * self.reliability.rate(match) * share)
                nodes[index].children[token] = len(nodes)
                open_nodes.append((len(nodes), (match + 1, onward), depth + 1))
                nodes.append(child)
        self._proposed = nodes
        tree = from_lists(
            [node.token for node in nodes], [node.parent for node in nodes], [node.score for node in nodes], self.device
        )
        return tree.best(shape.nodes)

    def retrieve(self, scores: Tensor) -> None:
        """An index has no attention to restrict."""

    def visible(self) -> Tensor:
        """See `Drafter`."""
        return torch.arange(len(self._tokens), device=self.device)

    def _lookup(self) -> tuple[int, list[int]]:
        """The longest match of the sequence's end, and the places right behind it, newest last."""
        end = len(self._tokens)
        for n in range(min(self.longest, end), self.shortest - 1, -1):
            places = [place for place in self._places.get(tuple(self._tokens[end - n :]), ()) if place < end]
            if places:
                return n, places
        return 0, []

    def _continuations(self, places: list[int]) -> dict[int, list[int]]:
        """Next tokens, each with the places behind it that one can copy on from."""
        following: dict[int, list[int]] = {}
        for place in places:
            if place < len(self._tokens):
                following.setdefault(self._tokens[place], []).append(place + 1)
        return following

    def _learn(self, tokens: Sequence[int]) -> None:
        """Compare the last proposal with what was committed, one match on the true path at a time."""
        node = self._proposed[0] if self._proposed else None
        for token in tokens:
            if node is None or not node.children:
                break
            self.reliability.learn(node.match, token in node.children)
            child = node.children.get(token)
            node = None if child is None else self._proposed[child]
        self._proposed = []
