"""Drafting by copying: the tokens that followed an earlier occurrence of the last few tokens, in prompt or output.

Prompt lookup with four differences. A suffix automaton finds matches of any length. Several continuations of the
longest match, and of a shorter one, form one tree. Scores are acceptance probabilities learnt during decoding,
comparable with a model's. Outputs for earlier prompts are kept, because a model repeats its phrases in later ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from torch import Tensor

from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.drafters.base import Drafter
from specextend_cli.engine.drafters.calibration import Calibration
from specextend_cli.engine.drafters.suffix_automaton import SuffixAutomaton
from specextend_cli.engine.tree import DraftTree, root

Kind: TypeAlias = tuple[int, int]
"""Of a match: its length class (`_length_class`), and 0 for the longest match, 1 for the next shorter one."""

_BREAK = -1  # separates the outputs for different prompts; never a token
_OPENING = 4  # tokens before an output that are kept with it: they mark its beginning
_FAN = 4  # continuations per match
_LEVELS = 2  # the longest match, and the longest shorter one with other continuations


class _Guess(NamedTuple):
    """Continuations of one match: by token, its share of the match's probability, and the state after it."""

    kind: Kind
    shares: dict[int, tuple[float, int]]


@dataclass
class _Node:
    """A token of the tree; `guesses` made its children."""

    token: int
    parent: int
    score: float
    guesses: list[_Guess] = field(default_factory=list)
    children: dict[int, int] = field(default_factory=dict)


class NgramDrafter(Drafter):
    """Copies from the committed tokens, and from the last `remembered` tokens of outputs for earlier prompts.

    Its index is on the host. Calibration and memory outlive a sequence: they describe the kind of text.
    """

    name = "ngram"

    def __init__(self, *, remembered: int = 8192) -> None:
        self.remembered = remembered
        self.calibration = Calibration[Kind]()
        self._earlier: list[int] = []
        self._tokens: list[int] = []
        self._output: int | None = None  # start of the output; known at the first proposal
        self.begin(0)

    def begin(self, capacity: int) -> None:
        """See `Drafter`."""
        if self._output is not None:
            written = self._tokens[max(self._output - _OPENING, 0) :]
            self._earlier = [*self._earlier, *written, _BREAK][-self.remembered :]
        self._tokens, self._output = [], None
        self._automaton = SuffixAutomaton()
        for token in self._earlier:
            self._automaton.append(token)
        self._proposed: list[_Node] = []

    def observe(self, tokens: Sequence[int], features: Tensor | None, ids: Tensor | None = None) -> None:
        """See `Drafter`."""
        self._learn(tokens)
        self._tokens.extend(tokens)
        for token in tokens:
            self._automaton.append(token)

    def propose(self, shape: TreeShape) -> DraftTree:
        """See `Drafter`. Nodes are expanded best first."""
        if self._output is None:
            self._output = len(self._tokens) - 1  # the output's first token is observed with the prompt
        automaton = self._automaton
        nodes = [_Node(self._tokens[-1], 0, 1.0)]
        # Nodes to expand: index, state in the automaton, tokens matched, depth.
        open_nodes = [(0, automaton.match, automaton.longest[automaton.match], 0)]
        while open_nodes and len(nodes) < 2 * shape.nodes:
            best = max(range(len(open_nodes)), key=lambda i: nodes[open_nodes[i][0]].score)
            index, state, matched, depth = open_nodes.pop(best)
            if depth == shape.depth:
                continue
            for guess, length in self._guesses(state, matched):
                trust = nodes[index].score * self.calibration.rate(guess.kind, _expected(*guess.kind))
                nodes[index].guesses.append(guess)
                for token, (share, onward) in guess.shares.items():
                    if trust * share < shape.floor:
                        continue
                    nodes[index].children[token] = len(nodes)
                    open_nodes.append((len(nodes), onward, length + 1, depth + 1))
                    nodes.append(_Node(token, index, trust * share))
        self._proposed = nodes
        if len(nodes) == 1:
            return root(nodes[0].token)
        tree = DraftTree(
            [node.token for node in nodes],
            [node.parent for node in nodes],
            [node.score for node in nodes],
            [0] * len(nodes),
            forwards=0,
        )
        return tree.best(shape.nodes)

    def _guesses(self, state: int, matched: int) -> Iterator[tuple[_Guess, int]]:
        """Guesses after a match of `matched` tokens, each with the length of its match."""
        automaton, taken = self._automaton, {_BREAK}
        for level in range(_LEVELS):
            if state <= 0:
                return
            following = {token: at for token, at in automaton.following[state].items() if token not in taken}
            if following:
                newest = max(following, key=lambda token: automaton.newest[following[token]])
                counts = {token: automaton.count[at] + (token == newest) for token, at in following.items()}
                whole = sum(counts.values())
                likeliest = sorted(counts, key=counts.__getitem__, reverse=True)[:_FAN]
                yield (
                    _Guess(
                        (_length_class(matched), level),
                        {token: (counts[token] / whole, following[token]) for token in likeliest},
                    ),
                    matched,
                )
                taken.update(likeliest)
            state = automaton.shorter[state]
            matched = automaton.longest[state]

    def _learn(self, tokens: Sequence[int]) -> None:
        """Compare the last proposal with the committed tokens, along the accepted path."""
        node = self._proposed[0] if self._proposed else None
        for token in tokens:
            if node is None:
                break
            for guess in node.guesses:
                self.calibration.learn(guess.kind, token in guess.shares)
            child = node.children.get(token)
            node = None if child is None else self._proposed[child]
        self._proposed = []


def _expected(length: int, level: int) -> float:
    """How often a match has the next token among its continuations, before any was seen: a longer one more often."""
    return 0.1 if level else 1 - 0.7 / length


def _length_class(matched: int) -> int:
    """1 to 4 unchanged; 5 for 5 or 6, 6 for 7 to 11, 7 for more."""
    return min(matched, 4 + (matched > 4) + (matched > 6) + (matched > 11))
