"""Map-reduce: a summary of every chunk, summaries of these until few are left, and the document's summary.

A document that fits the preset's chunk is summarized in one pass. Every token of its text is in exactly one first-level
prompt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

from specextend_cli.documents.document import Document
from specextend_cli.summarize.attribution import SentenceAttention
from specextend_cli.summarize.cached_generator import CachedGenerator, Prompt
from specextend_cli.summarize.events import Event, Method, Part, Plan, Text
from specextend_cli.summarize.evidence import EvidenceTracker
from specextend_cli.summarize.extractive import verbatim
from specextend_cli.summarize.formatting import QuoteLayout, formatter
from specextend_cli.summarize.planning import Work, pack
from specextend_cli.summarize.prompt_builder import PromptBuilder
from specextend_cli.summarize.provenance import Provenance, join_texts, provenance_of
from specextend_cli.summarize.request import SHARE, SLACK, WORDS_PER_TOKEN, SummarySettings
from specextend_cli.summarize.sentences import split
from specextend_cli.summarize.word_count import count_words

_OVER = 0.1  # of the words asked for, which the target's sentences may take beyond them
_MOST_TOKENS = 4.0  # of a word: scripts that a tokenizer hardly knows have more
_TO_END = 24  # tokens, to end a sentence with


@dataclass(frozen=True)
class SourceText:
    """A text that a prompt summarizes: a chunk, or chunk summaries, which were generated, joined.

    `pages` are the first and last page it is about, `tokens` its size.
    """

    text: str
    pages: tuple[int, int]
    tokens: int
    provenance: Provenance


class _WordLimit:
    """Words that the target may still write where a number of them is asked for."""

    def __init__(self, words: int, mark: int) -> None:
        self._words = words
        self._mark = mark  # words of every sentence besides its own
        self._written = 0
        self._allowed = 0.0
        self._full = False

    def open(self, part: int, parts: int) -> None:
        """A part begins, which may use what earlier ones left."""
        self._allowed = self._words * part / parts * (1 + _OVER)
        self._full = False

    def takes(self, sentence: str) -> bool:
        """Whether a sentence still has room; the first of all always has, and after one that has none, none has."""
        size = count_words(sentence) + self._mark
        self._full = self._full or (0 < self._allowed < self._written + size and self._written > 0)
        self._written += 0 if self._full else size
        return not self._full


@dataclass
class MapReduce:
    """One document's way through the levels.

    A text that has no more words than its summary is to have is printed as it is. `method` says, after `run`, which of
    these was done, and `chunk_summaries` are those of the first level.
    """

    document: Document
    work: Work
    settings: SummarySettings
    prompt_builder: PromptBuilder
    generator: CachedGenerator
    evidence: EvidenceTracker
    chunk_summaries: tuple[str, ...] = field(default=(), init=False)
    method: Method = field(default="abstractive", init=False)
    _finals: list[tuple[Prompt, SourceText]] = field(default_factory=list, init=False)

    @property
    def plan(self) -> Plan:
        """What will be done."""
        return self.work.plan

    def run(self) -> Iterator[Event]:
        """Map every chunk, then reduce until the summary can be written by the preset's number of prompts."""
        if not self.settings.request.needs_writing and self._size <= self._words:
            self.method = "verbatim"
            return self._verbatim()
        return chain(self._map_and_reduce(), self._abstractive())

    def _map_and_reduce(self) -> Iterator[Event]:
        """Summarize chunks, then their summaries, until few enough texts are left for the prompts `_finals`."""
        document, work, window = self.document, self.work, self.settings.preset.window
        citer, count = self.evidence.citer, self.prompt_builder.encoder.count
        sources = [
            SourceText(
                document.text[c.start : c.end],
                _page_range(document, c.start, c.end),
                c.tokens,
                provenance_of(c, citer.sentences),
            )
            for c in work.chunks
        ]
        most = window.chunk_summary_tokens
        words = int(most * WORDS_PER_TOKEN * SHARE)
        level = 1
        while len(sources) > self.settings.summary_parts:
            levels, template = max(work.plan.levels, level + 1), "map" if level == 1 else "merge"
            prompts = [
                self._prompt(template, source, self._part(i, sources, level, levels), words, most)
                for i, source in enumerate(sources)
            ]
            yield self.generator.level(prompts)
            answers = yield from self.generator.chunk_summaries(prompts)
            summaries = [
                SourceText(
                    answer.text,
                    source.pages,
                    count(answer.text),
                    citer.provenance(answer.text, answer.attention, source.provenance),
                )
                for answer, source in zip(answers, sources, strict=True)
            ]
            if level == 1:
                self.chunk_summaries = tuple(summary.text for summary in summaries)
            groups = pack([summary.tokens for summary in summaries], window.chunk, self.settings.summary_parts)
            sources = [self._join([summaries[i] for i in group]) for group in groups]
            level += 1
        template = "single" if level == 1 else "reduce"
        for i, source in enumerate(sources):
            prompt = self._final_prompt(template, source, self._part(i, sources, level, level, final=True))
            self._finals.append((prompt, source))
        yield self.generator.level([prompt for prompt, _ in self._finals])

    def _abstractive(self) -> Iterator[Event]:
        """The target's sentences in the style that is asked for, each with its evidence."""
        request = self.settings.request
        limit = _WordLimit(self._words, QuoteLayout(request.style).mark)
        for prompt, source in self._finals:
            number, parts = prompt.part.number, prompt.part.parts
            limit.open(number, parts)
            form = formatter(request.style, number, parts, brief=not request.exact)
            gap = form.gap if self.evidence.sentences else ""
            attention: list[SentenceAttention] = []
            begin = end = 0  # of what was written since the last formatted sentence
            for event in self.generator.answer(prompt):
                if not isinstance(event, Text):
                    yield event
                    continue
                attention += event.attention
                for sentence in split(event.delta):
                    end += len(sentence)
                    if request.exact and not limit.takes(sentence):
                        continue
                    if delta := form.feed(sentence):
                        yield Text(gap + delta, True)
                        yield from self.evidence.add(gap + delta, (begin, end), attention, source.provenance)
                        gap, begin = "", end

    def _verbatim(self) -> Iterator[Event]:
        document, chunks = self.document, self.work.chunks
        for number, c in enumerate(chunks, 1):
            yield Part(number, len(chunks), 1, 1, _page_range(document, c.start, c.end), c.tokens, True)
        yield from verbatim(document, self.evidence, self.settings.request.style, self._size)

    def _part(self, i: int, sources: Sequence[SourceText], level: int, levels: int, *, final: bool = False) -> Part:
        return Part(i + 1, len(sources), level, levels, sources[i].pages, sources[i].tokens, final)

    def _final_prompt(self, template: str, source: SourceText, part: Part) -> Prompt:
        words, most = max(self._words // part.parts, 1), self.settings.summary_tokens // part.parts
        each = min(max(self.work.plan.tokens / self._size, 1 / WORDS_PER_TOKEN), _MOST_TOKENS)
        tokens = min(most, int(words * each * SLACK) + _TO_END)
        return self._prompt(template, source, part, words, tokens, streamed=True)

    def _prompt(
        self, template: str, source: SourceText, part: Part, words: int, tokens: int, *, streamed: bool = False
    ) -> Prompt:
        """A prompt for about `words` words, in at most `tokens` tokens, and always fewer than its source has."""
        first, last = source.pages
        values = {
            "title": self.document.name,
            "words": words,
            "pages": str(first) if first == last else f"{first}-{last}",
            "part": part.number,
            "parts": part.parts,
            "language": "the document's language",
        }
        build, limit = self.prompt_builder, min(tokens, self.settings.max_tokens or tokens)
        return Prompt(
            part,
            build.prompt(template, values, source.text),
            max(min(limit, source.tokens - 1), 1),
            build.segment_starts(template, values, source.text, [span.start for span in source.provenance.spans]),
            build.shared_prefix(template, values),
            streamed,
        )

    @cached_property
    def _size(self) -> int:
        """The document's words; one at least."""
        return max(count_words(self.document.text), 1)

    @cached_property
    def _words(self) -> int:
        """How many words the summary is to have."""
        return self.settings.bounded_words(self._size, self.plan.tokens)

    def _join(self, texts: Sequence[SourceText]) -> SourceText:
        text, provenance = join_texts(((one.text, one.provenance) for one in texts), "\n\n")
        pages = (texts[0].pages[0], texts[-1].pages[1])
        return SourceText(text, pages, self.prompt_builder.encoder.count(text), provenance)


def _page_range(document: Document, start: int, end: int) -> tuple[int, int]:
    pages = document.pages_of(start, end) or (1,)
    return pages[0], pages[-1]
