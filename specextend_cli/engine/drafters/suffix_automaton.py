"""A suffix automaton of the sequence so far (Blumer et al. 1985), grown token by token.

It gives in constant time the longest suffix of the sequence that occurred before, and the tokens that followed it, how
often, and most recently. A state stands for a set of positions; its transitions are the tokens that followed there.
"""

from __future__ import annotations

_HOPS = 32  # suffixes whose occurrences are counted; a repetitive text would have thousands


class SuffixAutomaton:
    """State 0 is the empty match, which occurs everywhere. Lists are indexed by state."""

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
