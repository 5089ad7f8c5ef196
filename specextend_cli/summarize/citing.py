"""Which sentences of a document stand behind a sentence about it: those that say it, and that the target looked at."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from specextend_cli.summarize.attribution import SentenceAttention
from specextend_cli.summarize.provenance import DocumentSentence, Provenance, SourceSpan
from specextend_cli.summarize.sentences import spans
from specextend_cli.summarize.tfidf import TfidfIndex

_FLOOR = 0.15  # of a sentence's weight of words; a passage with less does not say it
_GAIN, _GLANCE = 0.35, 0.8  # what a further passage must add, and how much it was looked at, beside the best
_SURE = 0.25  # of the attention on the whole source: enough by itself, where words differ (another language, say)
_MOST = 3  # passages of a sentence


@dataclass(frozen=True, slots=True)
class Evidence:
    """A passage by its number, how much of the sentence's words it has, and how much it was looked at, each 0 to 1.

    `looked` is relative to the passage that was looked at most; None where nobody watched.
    """

    passage: int
    lexical: float
    looked: float | None
    score: float


class Citer:
    """Finds evidence in the passages of one document. `trust` is what attention counts for, 0 to 1."""

    def __init__(self, text: str, passages: Sequence[DocumentSentence], *, trust: float = 0.4) -> None:
        self.passages = passages
        self._text = text
        self._trust = trust

    def evidence(self, sentence: str, looked: Mapping[int, float], read: range | None = None) -> list[Evidence]:
        """The passage that both witnesses like best, then such as add words that it has not; none for idle talk.

        `looked` is attention by passage, in any unit. What was not `read` for the sentence is no source of it.
        """
        rest = weights = self.index.weights(sentence)
        most = max(looked.values(), default=0.0)
        sure = [i for i, share in looked.items() if share == most > 0 and share >= _SURE * sum(looked.values())]
        trust = self._trust if most > 0 else 0.0
        found: list[Evidence] = []
        while len(found) < _MOST:
            shares = self.index.shares(rest, read)
            seen = {i: looked.get(i, 0.0) / most if most > 0 else 0.0 for i in (*shares, *sure)}
            if found:
                cited = {self.passages[one.passage].page for one in found}
                rivals = [i for i, share in shares.items() if share >= _GAIN and self.passages[i].page not in cited]
                rivals = [i for i in rivals if most == 0 or seen[i] >= _GLANCE]
            else:
                rivals = list({*sure, *(i for i, share in shares.items() if share >= _FLOOR)})
            if not rivals:
                break
            fullest = max(shares.get(i, 0.0) for i in rivals) or 1.0
            best = max(rivals, key=lambda i: ((1 - trust) * shares.get(i, 0.0) / fullest + trust * seen[i], -i))
            lexical = self.index.share(weights, best)
            score = (1 - trust) * lexical + trust * seen[best]
            found.append(Evidence(best, lexical, seen[best] if most > 0 else None, score))
            rest = self.index.missing(rest, best)
        return found

    def material(self, note: str, looks: Iterable[SentenceAttention], source: Provenance) -> Provenance:
        """What a note on `source` is made of: its sentences, each with the passages behind it."""
        looks, origins = list(looks), []
        for start, end in spans(note):
            found = self.evidence(note[start:end], attended_sentences(start, end, looks, source), source.read)
            total = sum(one.score for one in found) or 1.0
            origins.append(SourceSpan(start, end, {one.passage: one.score / total for one in found}))
        return Provenance(tuple(origins), source.read)

    @cached_property
    def index(self) -> TfidfIndex:
        """The passages by their words."""
        return TfidfIndex([self._text[passage.start : passage.end] for passage in self.passages])


def attended_sentences(
    start: int, end: int, looks: Iterable[SentenceAttention], source: Provenance
) -> dict[int, float]:
    """Attention by passage while characters [start, end) of an answer were written; `source` is what its prompt had."""
    passages: dict[int, float] = defaultdict(float)
    for look in looks:
        if look.start < end and start < look.end:
            for segment, share in look.shares.items():
                for passage, part in source.origins[segment].passages.items():
                    passages[passage] += share * part
    return passages
