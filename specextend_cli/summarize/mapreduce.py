"""Map-reduce: a summary of every chunk, summaries of these until few are left, and the document's summary.

A document that fits the preset's chunk is summarized in one pass. Every token of its text is in exactly one first-level
prompt. The plan is made before any model is loaded.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from math import ceil, inf

from specextend_cli.documents.chunk import chunk
from specextend_cli.documents.document import Chunk, Document
from specextend_cli.models.preset import Preset
from specextend_cli.summarize.answers import CachedGenerator
from specextend_cli.summarize.citations import Citer, Origin, document_sentences, origin_of, summarized
from specextend_cli.summarize.events import Event, LevelWork, Method, Part, Plan, Rates, Text
from specextend_cli.summarize.layout import BRIEF, AnswerLayout
from specextend_cli.summarize.prompts import Prompt, PromptBuilder
from specextend_cli.summarize.request import (
    SHARE,
    SLACK,
    STYLE_WORDS,
    WORDS_PER_TOKEN,
    Request,
    answer_tokens,
    target_words,
)
from specextend_cli.summarize.sentences import split
from specextend_cli.summarize.words import count_words

_OVER = 0.1  # of the words asked for, which the target's sentences may take beyond them
_MOST_TOKENS = 4.0  # of a word: scripts that a tokenizer hardly knows have more
_TO_END = 24  # tokens, to end a sentence with


@dataclass(frozen=True)
class SourceText:
    """A text that a prompt summarizes, a chunk or joined summaries: first and last page, size in tokens, its chunks."""

    text: str
    pages: tuple[int, int]
    tokens: int
    origins: tuple[Origin, ...]


class _Limit:
    """What a model may still write: a number of words where one is asked for, else of a tldr two sentences."""

    def __init__(self, request: Request, words: int) -> None:
        self._exact, self._words = request.is_exact, words
        self._mark = int(request.style == "bullets")  # words besides its own
        self._sentences = BRIEF if request.style == "tldr" else inf
        self._written = 0
        self._allowed = 0.0
        self._full = False

    def open(self, part: int, parts: int) -> None:
        """A part begins, which may use what earlier ones left."""
        self._allowed = self._words * part / parts * (1 + _OVER)
        self._full = False

    def takes(self, sentence: str) -> bool:
        """Whether a sentence still has room; the first of all always has, and after one that has none, none has."""
        if not self._exact:
            self._sentences -= bool(sentence.strip())
            return self._sentences >= 0
        size = count_words(sentence) + self._mark
        self._full = self._full or (0 < self._allowed < self._written + size and self._written > 0)
        self._written += 0 if self._full else size
        return not self._full


class MapReduce:
    """One document's way through the levels, to a summary of about `words` words.

    `chunk_summaries`, after `run`, are those of the first level.
    """

    method: Method = "abstractive"

    def __init__(self, document: Document, words: int, generator: CachedGenerator, rates: Rates | None = None) -> None:
        self.document, self.words, self.generator = document, words, generator
        self.prompt_builder, self.request = generator.prompt_builder, generator.prompt_builder.request
        self.preset, self.chunk_summaries = self.prompt_builder.preset, tuple[str, ...]()
        self.plan, self.chunks = plan_work(document, self.prompt_builder, rates)

    @cached_property
    def citer(self) -> Citer:
        """Made when the document is summarized: a plan needs none."""
        return Citer(self.document, document_sentences(self.document, self.chunks))

    def run(self) -> Iterator[Event]:
        """Map every chunk, then reduce until the summary can be written by the preset's number of prompts."""
        finals = yield from self._map_and_reduce()
        yield from self._write(finals)

    def _map_and_reduce(self) -> Generator[Event, None, list[tuple[Prompt, SourceText]]]:
        """Summarize chunks, then their summaries, until few texts are left; the prompts that write the summary."""
        document, window, level = self.document, self.preset.window, 1
        parts, sources = summary_parts(self.request, self.preset), []
        for one in self.chunks:
            pages = document.pages_of(one.start, one.end) or (1,)
            text, origin = document.text[one.start : one.end], origin_of(one, self.citer.passages)
            sources.append(SourceText(text, (pages[0], pages[-1]), one.tokens, (origin,)))
        most = window.chunk_summary_tokens
        words = int(most * WORDS_PER_TOKEN * SHARE)
        while len(sources) > parts:
            answers = yield from self.generator.chunk_summaries(list(self._prompts(sources, level, words, most)))
            if level == 1:
                self.chunk_summaries = tuple(answer.text for answer in answers)
            summaries = [
                self._source(one.text, of.pages, summarized(of.origins, one.text))
                for one, of in zip(answers, sources, strict=True)
            ]
            groups = pack([summary.tokens for summary in summaries], window.chunk, parts)
            sources = [self._join([summaries[i] for i in group]) for group in groups]
            level += 1
        words, most = max(self.words // len(sources), 1), answer_tokens(self.request, self.preset) // len(sources)
        each = min(max(self.plan.tokens / max(self.plan.words, 1), 1 / WORDS_PER_TOKEN), _MOST_TOKENS)
        most = min(most, int(words * each * SLACK) + _TO_END)
        return list(zip(self._prompts(sources, level, words, most, final=True), sources, strict=True))

    def _write(self, finals: Sequence[tuple[Prompt, SourceText]]) -> Iterator[Event]:
        """The target's sentences in the style that is asked for, each with its citations."""
        limit = _Limit(self.request, self.words)
        for prompt, source in finals:
            limit.open(prompt.part.number, prompt.part.parts)
            layout = AnswerLayout(self.request.style, first=not self.citer.sentences)
            for event in self.generator.answer(prompt):
                if not isinstance(event, Text):
                    yield event
                    continue
                for sentence in split(event.delta):
                    if limit.takes(sentence):
                        for placed in layout.place(sentence):
                            yield self.citer.add(*placed, source.origins)

    def _prompts(
        self, sources: Sequence[SourceText], level: int, words: int, most: int, *, final: bool = False
    ) -> Iterator[Prompt]:
        """Prompts for about `words` words each, in at most `most` tokens, and always fewer than the source has."""
        build, template = self.prompt_builder, template_of(level, final=final)
        for number, source in enumerate(sources, 1):
            first, last = source.pages
            values = {
                "title": self.document.name,
                "words": words,
                "pages": str(first) if first == last else f"{first}-{last}",
                "part": number,
                "parts": len(sources),
                "language": "the document's language",
            }
            yield Prompt(
                Part(number, len(sources), level, source.pages, source.tokens, final),
                build.prompt(template, values, source.text),
                max(min(most, source.tokens - 1), 1),
                build.shared_prefix(template, values),
            )

    def _join(self, texts: Sequence[SourceText]) -> SourceText:
        text = "\n\n".join(one.text for one in texts).lstrip()
        origins = tuple(chain.from_iterable(one.origins for one in texts))
        return self._source(text, (texts[0].pages[0], texts[-1].pages[1]), origins)

    def _source(self, text: str, pages: tuple[int, int], origins: tuple[Origin, ...]) -> SourceText:
        return SourceText(text, pages, len(self.prompt_builder.encoder.encode(text)), origins)


def summary_parts(request: Request, preset: Preset) -> int:
    """The most prompts that write the summary: those of the preset, or as many as its words need."""
    if request.style in STYLE_WORDS:
        return 1
    # Each prompt asks for as much as it usually does: what is asked for in a few words becomes no text.
    most = preset.window.summary_parts
    return min(ceil(most * target_words(request, preset) / target_words(Request(), preset)), most)


def plan_work(
    document: Document, prompt_builder: PromptBuilder, rates: Rates | None = None
) -> tuple[Plan, tuple[Chunk, ...]]:
    """The plan, and chunks of at most the preset's size; their spans are the whole text, so no token is left out."""
    preset, request = prompt_builder.preset, prompt_builder.request
    window, parts, most = preset.window, summary_parts(request, preset), answer_tokens(request, preset)
    chunks = tuple(chunk(document, prompt_builder.encoder.encode, window.chunk))
    sizes = tuple(piece.tokens for piece in chunks)
    counts = [len(chunks)]
    while counts[-1] > parts:
        counts.append(len(pack([window.chunk_summary_tokens] * counts[-1], window.chunk, parts)))
    # The expected work, if every answer takes its room.
    left, work = sum(sizes), list[LevelWork]()
    for level, prompts in enumerate(counts, 1):
        final = level == len(counts)
        answer = most // prompts if final else window.chunk_summary_tokens
        read = left + prompts * prompt_builder.overhead(template_of(level, final=final))
        left = min(answer * prompts, left)
        work.append(LevelWork(prompts, read, left))
    name, pages = document.name, document.extraction.pages or 1
    words = count_words(document.text)
    plan = Plan(name, pages, sum(sizes), sizes, len(counts), document.unit, tuple(work), rates, words=words)
    return plan, chunks


def template_of(level: int, *, final: bool) -> str:
    """The template of the prompts of a level (see `PromptBuilder.prompt`)."""
    first, later = ("single", "reduce") if final else ("map", "merge")
    return first if level == 1 else later


def pack(sizes: Sequence[int], room: int, parts: int = 1) -> list[range]:
    """Consecutive groups of texts, about equally full: `parts` of them, or as many as `room` tokens each demand.

    Every group has at least two texts, so that a level always has fewer texts than the one before.
    """
    groups = max(min(max(-(-sum(sizes) // room), parts), len(sizes) // 2), 1)
    share = sum(sizes) / groups
    packed, start, filled = [], 0, 0
    for i, size in enumerate(sizes):
        if i - start >= 2 and len(sizes) - i >= 2 and (filled + size > room or filled + size / 2 > share):
            packed.append(range(start, i))
            start, filled = i, 0
        filled += size
    return [*packed, range(start, len(sizes))]
