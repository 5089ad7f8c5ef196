"""Which sentences make the summary: the best scores, without repetition, for a given number of words.

Maximal marginal relevance (Carbonell and Goldstein, 1998): a sentence's score less its likeness to what is taken
already. A sentence that speaks of the one before is taken with it or not at all. What a document has as its own summary
comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specextend_cli.summarize.ranking.candidates import Candidate, decides, words_told
from specextend_cli.summarize.ranking.own_summary import OwnSummary, own_summary
from specextend_cli.summarize.ranking.readable import asks, beside_the_text, is_whole, printed
from specextend_cli.summarize.ranking.recurring import RecurringPairs
from specextend_cli.summarize.ranking.wording import wording
from specextend_cli.summarize.words import beginning, count_words, language_of

_OWN = 1e3  # standard deviations of the scores that a sentence of the own summary gains: more than any other has
_REDUNDANCY = 1.0  # that a sentence loses whose words are all taken already
_QUESTION = 2.0  # that a question loses which is no request: it says nothing without its answer
_QUOTED = 4.0  # that a sentence loses which a mail quotes: the sender's own come first
_METHOD = 1.0  # that a sentence loses which says how something was found out
_REFERENCE = 0.5  # that a sentence loses which speaks of what stands elsewhere ("this optimization", "Figure 3")
_CONCLUSION = 0.5  # that a finding, a decision or a request gains
_RECOMMENDATION = 2.0  # that the best recommendation gains, where a summary has room for one beside the rest
_ROOM = 150  # words
_BESIDE = 0.5  # that a sentence gains beside one of its paragraph that is taken: the two hang together
_LENGTH = 0.25  # that a sentence gains for each standard deviation of the logarithm of its words
_RECURRING = (40, 0.25), (300, 1.0)  # words of a summary, and what a sentence gains for each one of the recurring pairs
_REPEATED = 1e6  # that it loses if it is taken already word for word: it is taken again where nothing else is left
_NEAR = 0.1  # of the words wanted: how far the sum may be from it
_CHAIN = 2  # sentences before one, at most, that are taken because of it
_CUT = 4  # words at least that are left of a sentence that is cut
_TOLD = 8  # words at least of a sentence of a conversation, without names and fillers: shorter ones answer and joke


@dataclass(frozen=True, slots=True)
class Choice:
    """A sentence by its number, and its text as it is printed."""

    sentence: int
    text: str


class Selector:
    """The sentences of one document that can be printed; in a conversation, those that tell something."""

    def __init__(
        self, text: str, found: Sequence[Candidate], bags: Sequence[set[str]], *, conversation: bool = False
    ) -> None:
        self._text, self._found, self._bags = text, found, bags
        self.language = language_of(text)
        """The code of the document's language."""
        own = wording(self.language)
        self._lines = [printed(text[one.start : one.end], self.language, listed=one.kind == "item") for one in found]
        beside = beside_the_text(self._lines, found, self.language)
        self._whole = [
            one.kind in ("prose", "item")
            and not out
            and is_whole(line, self.language)
            and (not conversation or words_told(line) >= _TOLD)
            for one, line, out in zip(found, self._lines, beside, strict=True)
        ]
        # Only of whole sentences, which have few words: the time of the rules is not linear in their length.
        whole = [line if ok else "" for line, ok in zip(self._lines, self._whole, strict=True)]
        method = _found(own.method.search, whole)
        concludes = (_found(own.concludes.search, whole) | _found(decides, whole)) & ~method
        questions, refers = _found(asks, whole) & ~concludes, _found(own.refers.search, whole)
        self._by_words = _CONCLUSION * concludes - _QUESTION * questions - _METHOD * method - _REFERENCE * refers
        self._by_words -= _QUOTED * np.array([one.is_quoted for one in found], bool)
        self._recommends = [i for i, line in enumerate(whole) if own.advises.search(line)]
        self._leans = _found(own.leans.match, whole)
        self._before = [self._chain(i) for i in range(len(found))]
        self._sizes = np.array([count_words(line) for line in self._lines])
        self.usable = np.array([before is not None for before in self._before], bool)
        """Which sentences may be chosen, [sentences]."""
        # Few long sentences hang together better than many short ones.
        sizes = np.log1p(self._sizes.astype(np.float64))
        mean = sizes[self.usable].mean() if self.usable.any() else 0.0
        self._by_length = _LENGTH * (sizes - mean) / _spread(sizes[self.usable])

    @cached_property
    def own(self) -> OwnSummary | None:
        """The document's own summary."""
        sizes = np.where(self.usable, self._sizes, 0)
        return own_summary(self._text, self._found, self._bags, sizes, self.language)

    @cached_property
    def _recurring(self) -> RecurringPairs:
        return RecurringPairs(self._lines, self._sizes)

    def _chain(self, i: int) -> tuple[int, ...] | None:
        """The sentences that must stand before sentence `i`; None where it cannot be printed at all."""
        first = i
        while self._whole[first] and self._leans[first]:
            first -= 1
            if first < 0 or i - first > _CHAIN or self._found[first].block != self._found[i].block:
                return None
        return tuple(range(first, i)) if self._whole[first] else None

    def select(
        self,
        scores: NDArray[np.float32],
        words: int,
        *,
        gain: NDArray[np.float64] | None = None,
        mark: int = 0,
        most: int | None = None,
        exact: bool = False,
    ) -> list[Choice]:
        """Choices in the document's order with about `words` words; `most` of them at most.

        Beside its own words, each has `mark` more. Where an `exact` number cannot be met by whole sentences, the last
        one is cut. `scores` is [sentences], and so is `gain`: standard deviations that a sentence has besides its
        score, as far as its words are not taken already; it stands in place of what the own summary gains.
        """
        gains = self._gains(scores, words) + (self._by_length if gain is None else gain)
        worth = np.where(self.usable, scores / _spread(scores[self.usable]) + gains, -np.inf)
        if gain is None and self.own is not None:
            worth[self.own.sentences] += _OWN
        penalty = _REDUNDANCY + (0.0 if gain is None else gain)
        (few, least), (many, full) = _RECURRING
        weight = float(np.interp(words, (few, many), (least, full))) / _spread(self._recurring.worth()[self.usable])
        terms = np.array([max(len(bag), 1) for bag in self._bags])
        folded = np.array([line.casefold() for line in self._lines], object)
        sizes, like = self._sizes + mark, np.zeros(len(worth))
        taken: list[int] = []
        total = 0
        while total < words * (1 - _NEAR / 2) and (most is None or len(taken) < most):
            room = words * (1 + _NEAR) - total
            left = worth + weight * self._recurring.worth(taken) - penalty * like
            group = self._fitting(np.where(sizes <= room, left, -np.inf), taken, sizes, room)
            if not group or (left[group[-1]] < -_REPEATED / 2 and total >= words * (1 - _NEAR)):
                break  # near enough, rather than the same again
            for i in group:
                taken.append(i)
                worth[self._beside(i)] += _BESIDE
                worth[folded == folded[i]] -= _REPEATED
                worth[i] = -np.inf
                shared = np.array([len(bag & self._bags[i]) for bag in self._bags])
                like = np.maximum(like, shared / np.minimum(terms, terms[i]))
            total = int(sizes[taken].sum())
        choices = [Choice(i, self._lines[i]) for i in sorted(taken)]
        if exact and len(taken) < (most or len(worth)) and total < words * (1 - _NEAR):
            return self._cut(taken, left, sizes, words) or choices
        return choices

    def _beside(self, i: int) -> list[int]:
        """The neighbours of a sentence in its paragraph."""
        beside = (j for j in (i - 1, i + 1) if 0 <= j < len(self._found))
        return [j for j in beside if self._found[j].block == self._found[i].block]

    def _gains(self, scores: NDArray[np.float32], words: int) -> NDArray[np.float64]:
        """What each sentence gains or loses by its wording, [sentences], in standard deviations."""
        gains: NDArray[np.float64] = self._by_words.copy()
        if words >= _ROOM and (found := [i for i in self._recommends if self.usable[i]]):
            gains[max(found, key=lambda i: scores[i])] = _RECOMMENDATION
        return gains

    def lead(self, words: int) -> list[Choice]:
        """The first lines, of whatever kind, with about that number of words; the last one is cut."""
        chosen: list[Choice] = []
        for i, line in enumerate(self._lines):
            if words > 0 and any(map(str.isalnum, line)):  # no rule that is drawn between others
                chosen.append(Choice(i, beginning(line, words)))
                words -= int(self._sizes[i])
        return chosen

    def _fitting(
        self, ranked: NDArray[np.float64], taken: Sequence[int], sizes: NDArray[np.int64], room: float
    ) -> list[int]:
        """The best sentence with those that must stand before it, if there is `room` for their words."""
        for i in np.argsort(-ranked, kind="stable"):
            if ranked[i] == -np.inf:
                break
            group = [j for j in (*(self._before[i] or ()), int(i)) if j not in taken]
            if sizes[group].sum() <= room:
                return group
        return []

    def _cut(self, taken: list[int], worth: NDArray[np.float64], sizes: NDArray[np.int64], words: int) -> list[Choice]:
        """The sentences that are taken and the beginning of the best one that is left, `words` words in all.

        Rather than a scrap, a longer beginning stands in place of the sentence that was taken last.
        """
        order = [int(i) for i in np.argsort(-worth, kind="stable") if worth[i] > -np.inf]
        for kept, least in ((taken, _CUT), (taken[:-1], 2), (taken, 2)):
            room = words - int(sizes[kept].sum()) - (sizes - self._sizes)  # for each one's own words
            fits = (room >= least) & (self._sizes >= room)
            left = (i for i in order if fits[i] and set(self._before[i] or ()) <= set(kept))
            if (best := next(left, None)) is not None:
                choices = [Choice(i, self._lines[i]) for i in kept]
                choices.append(Choice(best, beginning(self._lines[best], int(room[best]))))
                return sorted(choices, key=lambda choice: choice.sentence)
        return []


def _spread(values: NDArray[Any]) -> float:
    """The standard deviation, to divide by."""
    return max(float(values.std()), 1e-6) if len(values) else 1.0


def _found(rule: Callable[[str], object], lines: Sequence[str]) -> NDArray[np.bool_]:
    """Of which lines a rule finds something, [lines]."""
    return np.array([bool(rule(line)) for line in lines], bool)
