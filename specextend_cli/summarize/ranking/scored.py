"""A document's sentences with the trees' scores, which need no model. All of it is computed once, when it is needed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from specextend_cli.documents.document import Document
from specextend_cli.summarize.ranking.candidates import Candidate, candidates
from specextend_cli.summarize.ranking.features import features
from specextend_cli.summarize.ranking.ranker import Array, Trees
from specextend_cli.summarize.ranking.selection import Selector
from specextend_cli.summarize.ranking.topics import Topics, topics


@dataclass
class ScoredSentences:
    """What an extract by the trees alone and a guided summary share."""

    document: Document
    trees: Trees

    @cached_property
    def sentences(self) -> list[Candidate]:
        """All sentences of the document."""
        return candidates(self.document)

    @cached_property
    def scores(self) -> Array:
        """The trees' score of each, [sentences]. ModelError where the trees were fitted to other features."""
        return self.trees.predict(self._features[0])

    @cached_property
    def selector(self) -> Selector:
        """What chooses among them."""
        return Selector(self.document.text, self.sentences, self.bags)

    @cached_property
    def bags(self) -> list[set[str]]:
        """Each one's terms."""
        return self._features[1]

    @cached_property
    def topics(self) -> Topics:
        """The document's headings above them, as an outline prints these."""
        return topics(self.document.text, self.sentences)

    @cached_property
    def _features(self) -> tuple[Array, list[set[str]]]:
        return features(self.document.text, self.sentences, self.document.title)
