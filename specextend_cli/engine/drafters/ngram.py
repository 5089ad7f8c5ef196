"""Drafting by copying: the tokens that followed an earlier occurrence of the last few tokens, in prompt or output.

Prompt lookup with four differences. A suffix automaton finds matches of any length. Several continuations of the
longest match, and of a shorter one, form one tree. Scores are acceptance probabilities learnt during decoding,
comparable with a model's. Outputs for earlier prompts are kept, because a model repeats its phrases in later ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor

from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.drafters.base import Calibration, Drafter, Kind, best_first
from specextend_cli.engine.tree import DraftTree

_BREAK = -1  # separates the outputs for different prompts; never a token
_OPENING = 4  # tokens before an output that are kept with it: they mark its beginning
_FAN = 4  # continuations per match
_LEVELS = 2  # the longest match, and the longest shorter one with other continuations
_HOPS = 32  # suffixes whose occurrences are counted; a repetitive text would have thousands


class NgramDrafter(Drafter):
    """Copies from the committed tokens, and from the last `remembered` tokens of outputs for earlier prompts.

    Its index is on the host. Calibration and memory outlive a sequence: they describe the kind of text.
    """

    name = "ngram"

    def __init__(self, *, remembered: int = 8192) -> None:
        self.remembered = remembered
        self.calibration = Calibration()
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
        self._proposed: DraftTree | None = None
        # By the node that they follow: a match's length class, 0 for the longest match, else 1; continuations.
        self._guessed: dict[int, list[tuple[Kind, list[int]]]] = {}

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
        start = automaton.match, automaton.longest[automaton.match]
        self._guessed = {}
        self._proposed = best_first(self._tokens[-1], start, self._following, shape)
        return self._proposed.best(shape.nodes)

    def _following(self, node: int, match: tuple[int, int]) -> Iterator[tuple[int, float, tuple[int, int]]]:
        """What followed a match, a state of the automaton and its length; what is guessed after a node is kept."""
        automaton, taken = self._automaton, {_BREAK}
        state, matched = match
        for level in range(_LEVELS):
            if state <= 0:
                return
            following = {token: at for token, at in automaton.following[state].items() if token not in taken}
            if following:
                newest = max(following, key=lambda token: automaton.newest[following[token]])
                counts = {token: automaton.count[at] + (token == newest) for token, at in following.items()}
                likeliest = sorted(counts, key=counts.__getitem__, reverse=True)[:_FAN]
                kind = _length_class(matched), level
                self._guessed.setdefault(node, []).append((kind, likeliest))
                trust = self.calibration.rate(kind, _expected(*kind)) / sum(counts.values())
                for token in likeliest:
                    yield token, trust * counts[token], (following[token], matched + 1)
                taken.update(likeliest)
            state = automaton.shorter[state]
            matched = automaton.longest[state]

    def _learn(self, tokens: Sequence[int]) -> None:
        """Compare the last proposal with the committed tokens, along the accepted path."""
        tree, self._proposed = self._proposed, None
        if tree is None:
            return
        numbers = {(tree.parents[node], tree.tokens[node]): node for node in range(1, len(tree))}
        node: int | None = 0
        for token in tokens:
            if node is None:
                break
            for kind, guessed in self._guessed.get(node, ()):
                self.calibration.learn(kind, token in guessed)
            node = numbers.get((node, token))


def _expected(length: int, level: int) -> float:
    """How often a match has the next token among its continuations, before any was seen: a longer one more often."""
    return 0.1 if level else 1 - 0.7 / length


def _length_class(matched: int) -> int:
    """1 to 4 unchanged; 5 for 5 or 6, 6 for 7 to 11, 7 for more."""
    return min(matched, 4 + (matched > 4) + (matched > 6) + (matched > 11))


class SuffixAutomaton:
    """Of the sequence so far (Blumer et al. 1985), grown token by token.

    It gives in constant time the longest suffix of the sequence that occurred before, and the tokens that followed it,
    how often, and most recently. A state stands for a set of positions; its transitions are the tokens that followed
    there. State 0 is the empty match, which occurs everywhere. Lists are indexed by state.
    """

    def __init__(self) -> None:
        self.following: list[dict[int, int]] = [{}]  # by token, the state of the match longer by that token
        self.longest = [0]  # tokens of the longest match with these occurrences
        self.shorter = [-1]  # the state of the match's longest suffix with more occurrences
        self.count = [0]  # occurrences
        self.newest = [0]  # tokens up to the end of the most recent one
        self.size = 0
        self._end = 0

    @property
    def match(self) -> int:
        """The state of the longest suffix of the sequence that occurred before."""
        return max(self.shorter[self._end], 0)

    def append(self, token: int) -> None:
        """Extend the sequence by one token. Amortized constant time."""
        self.size += 1
        new = self._state({}, self.size)
        at = self._end
        while at >= 0 and token not in self.following[at]:
            self.following[at][token] = new
            at = self.shorter[at]
        self.shorter[new] = 0 if at < 0 else self._split(at, token)
        self._end = new
        at = new
        for _ in range(_HOPS):
            if at <= 0:
                break
            self.count[at] += 1
            self.newest[at] = self.size
            at = self.shorter[at]

    def _split(self, at: int, token: int) -> int:
        """The state of the match at `at` followed by `token`, split from longer matches if necessary."""
        old = self.following[at][token]
        if self.longest[old] == self.longest[at] + 1:
            return old
        part = self._state(dict(self.following[old]), self.longest[at] + 1)
        self.count[part], self.newest[part] = self.count[old], self.newest[old]
        self.shorter[part] = self.shorter[old]
        self.shorter[old] = part
        while at >= 0 and self.following[at].get(token) == old:
            self.following[at][token] = part
            at = self.shorter[at]
        return part

    def _state(self, following: dict[int, int], longest: int) -> int:
        self.following.append(following)
        self.longest.append(longest)
        self.shorter.append(-1)
        self.count.append(0)
        self.newest.append(0)
        return len(self.longest) - 1
