"""The target's answers to prompts: stored ones of earlier runs, else generated now; bad ones are retried."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from specextend_cli.models.checkpoint import weight_files
from specextend_cli.models.preset import Preset
from specextend_cli.runtime.options import Engine
from specextend_cli.summarize.cache import GenerationCache, key
from specextend_cli.summarize.events import ChunkSummarized, Event, Flaw, Retried, Text
from specextend_cli.summarize.prompts import Prompt, PromptBuilder
from specextend_cli.summarize.words import words

if TYPE_CHECKING:
    from specextend_cli.summarize.writer import TextGenerator

_ATTEMPTS = 3
_MIN_BATCH = 3  # texts; fewer are drafted for, one after the other: that is as fast, and can be watched
_JUDGED = 24  # tokens; a shorter answer is not judged
_FEW = 4  # words
_GRAM, _CIRCLES, _ENOUGH = 4, 0.25, 20  # the share of repeated 4-grams that is a loop, in a text of that many words


@dataclass(frozen=True)
class Answer:
    """A text, its flaw if it has one, and whether an earlier run generated it."""

    text: str
    flaw: Flaw | None
    reused: bool = False


@dataclass(frozen=True)
class CachedGenerator:
    """Answers of one target. `load` returns the text generator, when one is needed."""

    preset: Preset
    engine: Engine
    prompt_builder: PromptBuilder
    cache: GenerationCache
    load: Callable[[], Generator[Event, None, TextGenerator]]

    def answer(
        self, prompt: Prompt, flawed: Answer | None = None, *, is_begun: bool = False
    ) -> Generator[Event, None, Answer]:
        """The first answer without a flaw, else the first of all, which may be `flawed` and exists already."""
        first, why, part = flawed, flawed.flaw if flawed else None, prompt.part
        for attempt in range(1 if flawed else 0, _ATTEMPTS):
            answer = self._stored(prompt, attempt)
            if why is not None:
                yield Retried(part.number, part.parts, part.level, why)
            elif not is_begun:
                yield replace(part, reused=answer is not None)
            if answer is not None:
                yield Text(answer.text)
            else:
                generator = yield from self.load()
                if attempt:
                    generator = generator.resampled(attempt)
                answer = self._store(prompt, (yield from generator.generate(prompt)), attempt)
            if answer.flaw is None:
                return answer
            first, why = first or answer, answer.flaw
        assert first is not None
        return first

    def chunk_summaries(self, prompts: Sequence[Prompt]) -> Generator[Event, None, list[Answer]]:
        """The answers to the prompts of a level, in order; generated in batches where that is faster.

        Stored answers come first, and the first new one begins before models load: so it is said how many are stored.
        """
        answers: dict[int, Answer] = {}
        missing = [i for i, prompt in enumerate(prompts) if self._stored(prompt) is None]
        for i in sorted(set(range(len(prompts))) - set(missing)):
            answers[i] = yield from self.answer(prompts[i])
            yield _summarized(prompts[i], answers[i])
        begun: set[int] = set(missing[:1])
        if missing:
            yield prompts[missing[0]].part
        if len(missing) >= _MIN_BATCH and (generator := (yield from self.load())).batch_size > 1:
            for number, event in generator.generate_batch([prompts[i] for i in missing]):
                i = missing[number]
                if i not in begun:
                    begun.add(i)
                    yield prompts[i].part
                if isinstance(event, str):
                    answers[i] = self._store(prompts[i], event)
                    if answers[i].flaw is None:
                        yield _summarized(prompts[i], answers[i])
                # Of the texts that grow side by side, the first is shown.
                elif not isinstance(event, Text) or i == min(begun - answers.keys()):
                    yield event
        for i in missing:
            if i not in answers or answers[i].flaw is not None:
                answers[i] = yield from self.answer(prompts[i], answers.get(i), is_begun=i in begun)
                yield _summarized(prompts[i], answers[i])
        return [answers[i] for i in range(len(prompts))]

    def _stored(self, prompt: Prompt, attempt: int = 0) -> Answer | None:
        text = self.cache.get(self._key(prompt, attempt))
        return None if text is None else Answer(text, _flaw(prompt, text), reused=True)

    def _store(self, prompt: Prompt, text: str, attempt: int = 0) -> Answer:
        self.cache.put(self._key(prompt, attempt), text)
        return Answer(text, _flaw(prompt, text))

    def _key(self, prompt: Prompt, attempt: int) -> str:
        """The prompt, the settings, and the target: its settings in the preset, and the weights that are there now."""
        files = [(file.name, file.stat().st_mtime_ns) for file in weight_files(self.prompt_builder.directory)]
        target = [self.preset.target.model_dump(mode="json"), files]
        settings = [target, self.engine.decoding, asdict(self.preset.decoding), prompt.max_tokens]
        return key(prompt.tokens, [*settings, attempt] if attempt else settings)


def flaw(text: str, limit: int) -> Flaw | None:
    """The flaw of an answer of at most `limit` tokens, without its idle sentences; None where it has none."""
    said = words(text.lower())
    if not said or (len(said) < _FEW and limit >= _JUDGED):
        return "no answer"
    if len(said) >= _ENOUGH and limit >= _JUDGED:
        grams = list(zip(*(said[at:] for at in range(_GRAM)), strict=False))
        if 1 - len(set(grams)) / len(grams) > _CIRCLES:
            return "in circles"
    return None


def _flaw(prompt: Prompt, text: str) -> Flaw | None:
    # A final answer is printed while it is generated, so it is retried only if it is empty.
    return None if prompt.part.final and text else flaw(text, prompt.max_tokens)


def _summarized(prompt: Prompt, answer: Answer) -> ChunkSummarized:
    part = prompt.part
    return ChunkSummarized(part.number, part.parts, part.level, answer.text, answer.reused)
