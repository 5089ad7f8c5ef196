"""What the target answers to prompts: from the store when it answered the very same before, else written now."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from specextend_cli.models.preset import Preset
from specextend_cli.models.weights import weight_files
from specextend_cli.summarize.events import Event, Noted, Part, Text
from specextend_cli.summarize.looks import Look, pack, unpack
from specextend_cli.summarize.notes import NoteStore, key
from specextend_cli.summarize.pair import Choices
from specextend_cli.summarize.prompts import Prompter

if TYPE_CHECKING:
    from specextend_cli.summarize.writer import Writer

_FEW = 3  # texts; fewer are drafted for, one after the other: that is as fast, and can be watched


@dataclass(frozen=True)
class Question:
    """A prompt, the part that asks it, the most tokens of its answer, and the marks that part its source."""

    part: Part
    prompt: Sequence[int]
    limit: int
    marks: Sequence[int] = ()


@dataclass(frozen=True)
class Answer:
    """A text, where the target looked while it wrote its sentences, and whether it was known before."""

    text: str
    looks: Sequence[Look]
    reused: bool = False


@dataclass(frozen=True)
class Answers:
    """Answers of one target. `load` gives the writer, when one is needed."""

    preset: Preset
    choices: Choices
    prompter: Prompter
    store: NoteStore
    load: Callable[[], Generator[Event, None, Writer]]

    def one(self, question: Question) -> Generator[Event | Look, None, Answer]:
        """The answer, told as it comes: the looks of a text before the text."""
        yield question.part
        known = self._known(question)
        if known is not None:
            yield from known.looks
            yield Text(known.text, question.part.final)
            return known
        writer = yield from self.load()
        looks: list[Look] = []
        part, limit = question.part, question.limit
        for event in writer.write(question.prompt, max_tokens=limit, final=part.final, marks=question.marks):
            if isinstance(event, Look):
                looks.append(event)
            yield event
        return self._keep(question, writer.text, looks)

    def notes(self, questions: Sequence[Question]) -> Generator[Event, None, list[Answer]]:
        """Notes on all parts of a level, in their order; several are written at once where that is faster."""
        known = {i: answer for i, q in enumerate(questions) if (answer := self._known(q)) is not None}
        waiting = [i for i in range(len(questions)) if i not in known]
        writer = (yield from self.load()) if len(waiting) >= _FEW else None
        together = writer is not None and writer.together > 1
        for i, question in enumerate(questions):
            if i in known or not together:
                known[i] = yield from _without_looks(self.one(question))
                yield _noted(question, known[i])
        if together:
            assert writer is not None
            yield from self._together(writer, questions, waiting, known)
        return [known[i] for i in range(len(questions))]

    def _together(
        self, writer: Writer, questions: Sequence[Question], waiting: Sequence[int], known: dict[int, Answer]
    ) -> Generator[Event, None, None]:
        """Write what is `waiting` into `known`. Of the texts that grow side by side, the first is shown."""
        begun: dict[int, list[Look]] = {}
        asked = [(questions[i].prompt, questions[i].limit, questions[i].marks) for i in waiting]
        for number, event in writer.write_together(asked):
            i = waiting[number]
            if i not in begun:
                begun[i] = []
                yield questions[i].part
            if isinstance(event, str):
                known[i] = self._keep(questions[i], event, begun[i])
                yield _noted(questions[i], known[i])
            elif isinstance(event, Look):
                begun[i].append(event)
            elif not isinstance(event, Text) or i == min(begun.keys() - known.keys()):
                yield event

    def _known(self, question: Question) -> Answer | None:
        name = self._key(question)
        text = self.store.get(name)
        if text is None:
            return None
        looks = unpack(self.store.looks(name)) if question.marks else []
        most = len(question.marks) - 1
        return Answer(text, [look for look in looks if max(look.shares, default=0) < most], reused=True)

    def _keep(self, question: Question, text: str, looks: Sequence[Look]) -> Answer:
        self.store.put(self._key(question), text, pack(looks) if looks else "")
        return Answer(text, looks)

    def _key(self, question: Question) -> str:
        chosen = {field.name: getattr(self.choices, field.name) for field in fields(Choices)}
        settings = [self._identity, chosen, self.preset.decoding.model_dump(), question.limit]
        return key(question.prompt, settings)

    @property
    def _identity(self) -> list[object]:
        """What tells the target from another: what the preset says of it, and the weights that are there now."""
        files = [(file.name, file.stat().st_mtime_ns) for file in weight_files(self.prompter.directory)]
        return [self.preset.target.model_dump(mode="json"), files]


def _without_looks(events: Generator[Event | Look, None, Answer]) -> Generator[Event, None, Answer]:
    """The same, for those who only want to know what comes of it."""
    while True:
        try:
            event = next(events)
        except StopIteration as ended:
            answer: Answer = ended.value
            return answer
        if not isinstance(event, Look):
            yield event


def _noted(question: Question, answer: Answer) -> Noted:
    part = question.part
    return Noted(part.number, part.parts, part.level, answer.text, answer.reused)
