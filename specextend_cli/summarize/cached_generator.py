"""What the target answers to prompts: from the store when it answered the very same before, else written now."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

from specextend_cli.models.checkpoint import weight_files
from specextend_cli.models.preset import Preset
from specextend_cli.runtime.options import EngineOptions
from specextend_cli.summarize.answer_checks import Flaw, flaw
from specextend_cli.summarize.attribution import SentenceAttention, pack, unpack
from specextend_cli.summarize.events import ChunkSummarized, Event, Level, Part, Retried, Text
from specextend_cli.summarize.generation_cache import GenerationCache, key
from specextend_cli.summarize.prompt_builder import PromptBuilder

if TYPE_CHECKING:
    from specextend_cli.summarize.text_generator import TextGenerator

_TRIES = 3
_FEW = 3  # texts; fewer are drafted for, one after the other: that is as fast, and can be watched


@dataclass(frozen=True)
class Prompt:
    """A prompt, the part that asks it, the most tokens of its answer, and the segments of its source.

    The prompt's first `shared` tokens may be those of others.
    An answer that is `shown` while it is written is not taken back.
    """

    part: Part
    prompt: Sequence[int]
    limit: int
    segment_starts: Sequence[int] = ()
    shared: int = 0
    shown: bool = False


@dataclass(frozen=True)
class Answer:
    """A text, the attention of its sentences, and whether an earlier run wrote it."""

    text: str
    attention: Sequence[SentenceAttention]
    reused: bool = False


@dataclass(frozen=True)
class CachedGenerator:
    """CachedGenerator of one target. `load` gives the writer, when one is needed."""

    preset: Preset
    choices: EngineOptions
    prompter: PromptBuilder
    store: GenerationCache
    load: Callable[[], Generator[Event, None, TextGenerator]]

    def one(self, question: Prompt) -> Generator[Event, None, Answer]:
        """The answer, told as it comes."""
        yield question.part
        answer = yield from self._attempt(question)
        if _flaw(question, answer) is not None:
            answer = yield from self._again(question, answer)
        return answer

    def _again(self, question: Prompt, flawed: Answer) -> Generator[Event, None, Answer]:
        """Another answer, or the flawed one where none is better."""
        part, answer = question.part, flawed
        for attempt in range(1, _TRIES):
            if (flaw := _flaw(question, answer)) is None:
                return answer
            yield Retried(part.number, part.parts, part.level, flaw)
            answer = yield from self._attempt(question, attempt)
        return flawed if _flaw(question, answer) else answer

    def _attempt(self, question: Prompt, attempt: int = 0) -> Generator[Event, None, Answer]:
        known = self._known(question, attempt)
        if known is not None:
            yield Text(known.text, question.shown, tuple(known.attention))
            return known
        writer = yield from self.load()
        if attempt:
            writer = writer.again(attempt)
        attention: list[SentenceAttention] = []
        for event in writer.write(
            question.prompt,
            max_tokens=question.limit,
            final=question.shown,
            segment_starts=question.segment_starts,
            shared=question.shared,
        ):
            if isinstance(event, Text):
                attention += event.attention
            yield event
        return self._keep(question, writer.text, attention, attempt)

    def notes(self, questions: Sequence[Prompt]) -> Generator[Event, None, list[Answer]]:
        """Notes on all parts of a level, in their order; several are written at once where that is faster.

        What earlier runs wrote is told first, so that whoever stops this one while it loads knows what there is.
        """
        known: dict[int, Answer] = {}
        waiting = []
        for i, question in enumerate(questions):
            if self._known(question) is None:
                waiting.append(i)
            else:
                known[i] = yield from self._noting(question)
        writer = (yield from self.load()) if len(waiting) >= _FEW else None
        if writer is None or writer.together == 1:
            for i in waiting:
                known[i] = yield from self._noting(questions[i])
        else:
            yield from self._together(writer, questions, waiting, known)
            for i in waiting:
                if _flaw(questions[i], known[i]) is not None:
                    known[i] = yield from self._again(questions[i], known[i])
                    yield _noted(questions[i], known[i])
        return [known[i] for i in range(len(questions))]

    def _noting(self, question: Prompt) -> Generator[Event, None, Answer]:
        answer = yield from self.one(question)
        yield _noted(question, answer)
        return answer

    def begin(self, questions: Sequence[Prompt]) -> Level:
        """What is to be told before the answers of a level are asked for."""
        part = questions[0].part
        reused = sum(self.store.get(self._key(question, 0)) is not None for question in questions)
        return Level(part.level, len(questions), reused, part.final)

    def _together(
        self, writer: TextGenerator, questions: Sequence[Prompt], waiting: Sequence[int], known: dict[int, Answer]
    ) -> Generator[Event, None, None]:
        """Write what is `waiting` into `known`. Of the texts that grow side by side, the first is shown."""
        begun: dict[int, list[SentenceAttention]] = {}
        asked = [
            (questions[i].prompt, questions[i].limit, questions[i].segment_starts, questions[i].shared) for i in waiting
        ]
        for number, event in writer.write_together(asked):
            i = waiting[number]
            if i not in begun:
                begun[i] = []
                yield questions[i].part
            if isinstance(event, Text):
                begun[i] += event.attention
            if isinstance(event, str):
                known[i] = self._keep(questions[i], event, begun[i])
                if _flaw(questions[i], known[i]) is None:
                    yield _noted(questions[i], known[i])
            elif not isinstance(event, Text) or i == min(begun.keys() - known.keys()):
                yield event

    def _known(self, question: Prompt, attempt: int = 0) -> Answer | None:
        name = self._key(question, attempt)
        text = self.store.get(name)
        if text is None:
            return None
        attention = unpack(self.store.looks(name)) if question.segment_starts else []
        segments = len(question.segment_starts) - 1
        return Answer(text, [one for one in attention if max(one.shares, default=0) < segments], reused=True)

    def _keep(self, question: Prompt, text: str, attention: Sequence[SentenceAttention], attempt: int = 0) -> Answer:
        self.store.put(self._key(question, attempt), text, pack(attention) if attention else "")
        return Answer(text, attention)

    def _key(self, question: Prompt, attempt: int) -> str:
        chosen = {field.name: getattr(self.choices, field.name) for field in fields(EngineOptions)}
        settings = [self._identity, chosen, asdict(self.preset.decoding), question.limit]
        settings += [attempt] if attempt else []
        return key(question.prompt, settings)

    @property
    def _identity(self) -> list[object]:
        """What tells the target from another: what the preset says of it, and the weights that are there now."""
        files = [(file.name, file.stat().st_mtime_ns) for file in weight_files(self.prompter.directory)]
        return [self.preset.target.model_dump(mode="json"), files]


def _flaw(question: Prompt, answer: Answer) -> Flaw | None:
    return None if question.shown and answer.text else flaw(answer.text, question.limit)


def _noted(question: Prompt, answer: Answer) -> ChunkSummarized:
    part = question.part
    return ChunkSummarized(part.number, part.parts, part.level, answer.text, answer.reused)
