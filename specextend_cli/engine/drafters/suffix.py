"""A suffix automaton of the sequence so far (Blumer et al. 1985), grown token by token.

It answers in constant time what the drafter asks at every step: how long is the longest end of the sequence that
occurred before, and what followed there, how often, and last of all. Its states are sets of places; the transitions of
a state are the tokens that followed at them.
"""

from __future__ import annotations

_HOPS = 32  # suffixes of the end whose places are counted; in a text that goes in circles there would be thousands


class SuffixAutomaton:
    """State 0 is the empty match, whose places are everywhere. Arrays are indexed by state."""

    def __init__(self) -> None:
        self.following: list[dict[int, int]] = [{}]  # by token, the state of the match that is longer by it
        self.longest = [0]  # tokens of the longest match that has these places
        self.shorter = [-1]  # the state of the longest end of the match that has more places
        self.count = [0]  # places
        self.newest = [0]  # tokens up to the newest of them
        self.size = 0
        self._end = 0

    @property
    def match(self) -> int:
        """The state of the longest end of the sequence that occurred before."""
        return max(self.shorter[self._end], 0)

    def append(self, token: int) -> None:
        """The sequence is one token longer. Amortized constant time."""
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
        """The state of exactly the match at `at` with `token` behind it, parted from longer ones if need be."""
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
