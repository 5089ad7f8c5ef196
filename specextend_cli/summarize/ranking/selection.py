"""Which sentences make the summary: the best scores, without repetition, for a given number of words.

Maximal marginal relevance (Carbonell and Goldstein, 1998): a sentence's score less its likeness to what is taken
already. A sentence that speaks of the one before is taken with it or not at all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from specextend_cli.summarize.ranking.boilerplate import beside_the_text
from specextend_cli.summarize.ranking.candidates import Candidate
from specextend_cli.summarize.ranking.gains import concludes, recommends, tells_method
from specextend_cli.summarize.ranking.readable import asks, is_label, is_whole, leans, printed
from specextend_cli.summarize.ranking.recurring import RecurringPairs
from specextend_cli.summarize.ranking.text_kind import words_told
from specextend_cli.summarize.text.language import language_of
from specextend_cli.summarize.text.words import beginning, count_words

_REDUNDANCY = 1.0  # standard deviations of the scores that a sentence loses whose words are all taken already
_QUESTION = 2.0  # that a question loses which is no request: it says nothing without its answer
_METHOD = 1.0  # that a sentence loses which says how something was found out
_CONCLUSION = 0.5  # that a finding, a decision or a request gains
_RECOMMENDATION = 2.0  # that the best recommendation gains, where a summary has room for one beside the rest
_BESIDE = 0.25  # that a sentence gains beside one of its paragraph that is taken: the two hang together
_ROOM = 150  # words
_OPENING = 1.0  # that the first sentence gains, in a summary of `_ROOM` words, where the document begins with it
_FIRST, _BEGINNING = 5, 20  # a document's beginning: so many lines, or one of so many
_RECURRING = 0.5  # that it gains for each standard deviation of the recurring word pairs that it adds
_LENGTH = 0.25  # that a sentence gains for each standard deviation of the logarithm of its words
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
        self._bags, self._conversation = bags, conversation
        self.language = spoken = language_of(text)
        """The code of the document's language."""
        self._lines = [printed(text[one.start : one.end], spoken, listed=one.kind == "item") for one in found]
        beside = beside_the_text(self._lines, found, spoken)
        prose = [one.kind in ("prose", "item") and not out for one, out in zip(found, beside, strict=True)]
        self._whole = [
            ok
            and is_whole(line, spoken)
            and not self._names_item(found, i)
            and (not conversation or words_told(line) >= _TOLD)
            for i, (ok, line) in enumerate(zip(prose, self._lines, strict=True))
        ]
        # Only of whole sentences, which have few words: the time of the rules is not linear in their length.
        self._concludes = np.array([self._whole[i] and concludes(line) for i, line in enumerate(self._lines)], bool)
        told = [self._whole[i] and tells_method(line) for i, line in enumerate(self._lines)]
        self._tells_method = np.array(told, bool) & ~self._concludes
        self._asks = np.array([asks(line) for line in self._lines], bool) & ~self._concludes
        self._recommends = [i for i, line in enumerate(self._lines) if self._whole[i] and recommends(line, spoken)]
        self._before = [self._chain(found, i) for i in range(len(found))]
        self._blocks = [one.block for one in found]
        self._sizes = np.array([count_words(line) for line in self._lines])
        self.usable = np.array([before is not None for before in self._before], bool)
        """Which sentences may be chosen, [sentences]."""
        self._same: dict[str, list[int]] = defaultdict(list)
        for number, line in enumerate(self._lines):
            self._same[line.casefold()].append(number)
        self._places: dict[str, list[int]] = defaultdict(list)
        for number, bag in enumerate(bags):
            for term in bag:
                self._places[term].append(number)

    @cached_property
    def _recurring(self) -> RecurringPairs:
        return RecurringPairs(self._lines, self._sizes)

    @cached_property
    def _spread_of_recurring(self) -> float:
        own = self._recurring.worth()[self.usable]
        return max(float(own.std()), 1e-6) if len(own) else 1.0

    def _names_item(self, found: Sequence[Candidate], i: int) -> bool:
        """Whether sentence `i` is the heading of the list item that it begins."""
        begins = found[i].kind == "item" and found[i].place == 0
        return begins and i + 1 < len(found) and found[i + 1].block == found[i].block and is_label(self._lines[i])

    def _chain(self, found: Sequence[Candidate], i: int) -> tuple[int, ...] | None:
        """The sentences that must stand before sentence `i`; None where it cannot be printed at all."""
        first = i
        while self._whole[first] and leans(self._lines[first], self.language):
            first -= 1
            if first < 0 or i - first > _CHAIN or found[first].block != found[i].block:
                return None
        return tuple(range(first, i)) if self._whole[first] else None

    def select(
        self,
        scores: NDArray[np.float32],
        words: int,
        *,
        gain: NDArray[np.float32] | None = None,
        mark: int = 0,
        most: int | None = None,
        exact: bool = False,
    ) -> list[Choice]:
        """Choices in the document's order with about `words` words; `most` of them at most.

        Beside its own words, each has `mark` more.

        Where an `exact` number cannot be met by whole sentences, the last one is cut. `scores` is [sentences], and so
        is `gain`: standard deviations that a sentence has besides its score, as far as its words are not taken already.
        """
        own = scores[self.usable]
        spread = float(own.std()) if len(own) else 1.0
        bonus = np.zeros(len(scores)) if gain is None else gain
        gains = self._to_act_on(scores, words) + (self._to_be_read(words) if gain is None else bonus)
        worth = np.where(self.usable, scores / max(spread, 1e-6) + gains, -np.inf)
        penalty = _REDUNDANCY + bonus
        weight = _RECURRING / self._spread_of_recurring
        terms = np.array([max(len(bag), 1) for bag in self._bags])
        like, costs = np.zeros(len(worth)), self._sizes + mark
        taken: list[int] = []
        total = 0
        while total < words * (1 - _NEAR / 2) and (most is None or len(taken) < most):
            room = words * (1 + _NEAR) - total
            left = worth + weight * self._recurring.worth(taken) - penalty * like
            ranked = np.where(costs <= room, left, -np.inf)
            group = self._fitting(ranked, taken, costs, words * (1 + _NEAR))
            for i in group:
                taken.append(i)
                worth[self._beside(i)] += _BESIDE
                worth[self._same[self._lines[i].casefold()]] -= _REPEATED
                worth[i] = -np.inf
                shared = np.zeros(len(worth))
                for term in self._bags[i]:
                    shared[self._places[term]] += 1
                like = np.maximum(like, shared / np.minimum(terms, terms[i]))
            if not group:
                break
            total = int(costs[taken].sum())
        choices = [Choice(i, self._lines[i]) for i in sorted(taken)]
        if exact and len(taken) < (most or len(worth)) and total < words * (1 - _NEAR):
            left = worth + weight * self._recurring.worth(taken) - penalty * like
            return self._cut(taken, left, costs, words) or choices
        return choices

    def _beside(self, i: int) -> list[int]:
        """The neighbours of a sentence in its paragraph."""
        beside = (j for j in (i - 1, i + 1) if 0 <= j < len(self._blocks))
        return [j for j in beside if self._blocks[j] == self._blocks[i]]

    def _to_act_on(self, scores: NDArray[np.float32], words: int) -> NDArray[np.float64]:
        """What each sentence gains because somebody may have to act on it, [sentences], in standard deviations."""
        gains: NDArray[np.float64] = _CONCLUSION * self._concludes - _QUESTION * self._asks
        gains -= _METHOD * self._tells_method
        if words >= _ROOM and (found := [i for i in self._recommends if self.usable[i]]):
            gains[max(found, key=lambda i: scores[i])] = _RECOMMENDATION
        return gains

    def _to_be_read(self, words: int) -> NDArray[np.float64]:
        """What each sentence gains so that a summary can be read by itself, [sentences], in standard deviations.

        The first sentence says what the text is about; few long sentences hang together better than many short ones.
        """
        found = np.flatnonzero(self.usable)
        if not len(found):
            return np.zeros(len(self.usable))
        sizes = np.log1p(self._sizes.astype(np.float64))
        gains: NDArray[np.float64] = _LENGTH * (sizes - sizes[found].mean()) / max(sizes[found].std(), 1e-6)
        if words >= _ROOM and not self._conversation and found[0] < max(_FIRST, len(found) // _BEGINNING):
            gains[found[0]] += _OPENING
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
        self, ranked: NDArray[np.float64], taken: Sequence[int], costs: NDArray[np.int64], most: float
    ) -> list[int]:
        """The best sentence with those that must stand before it, if all that is taken has `most` words then."""
        best = int(ranked.argmax()) if len(ranked) else 0
        if len(ranked) and ranked[best] > -np.inf and not self._before[best]:
            return [best]
        for i in np.argsort(-ranked, kind="stable"):
            if ranked[i] == -np.inf:
                break
            group = [j for j in (*(self._before[i] or ()), int(i)) if j not in taken]
            if costs[[*taken, *group]].sum() <= most:
                return group
        return []

    def _cut(self, taken: list[int], worth: NDArray[np.float64], costs: NDArray[np.int64], words: int) -> list[Choice]:
        """The sentences that are taken and the beginning of the best one that is left, `words` words in all.

        Rather than a scrap, a longer beginning stands in place of the sentence that was taken last.
        """
        order = [int(i) for i in np.argsort(-worth, kind="stable") if worth[i] > -np.inf]
        ways = [(taken, _CUT), (taken[:-1], 2), (taken, 2)]
        for kept, least in ways:
            # What is left for each one's own words.
            sizes = words - int(costs[kept].sum()) - costs + self._sizes
            fits = (sizes >= least) & (self._sizes >= sizes)
            left = (i for i in order if fits[i] and set(self._before[i] or ()) <= set(kept))
            if (best := next(left, None)) is not None:
                choices = [Choice(i, self._lines[i]) for i in kept]
                choices.append(Choice(best, beginning(self._lines[best], int(sizes[best]))))
                return sorted(choices, key=lambda choice: choice.sentence)
        return []
