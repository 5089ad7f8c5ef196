"""What the target answers to prompts: from the store when it answered the very same before, else written now."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from specextend_cli.models.preset import Preset
from specextend_cli.models.weights import weight_files
from specextend_cli.summarize.events import Event, Noted, Part, Text
from specextend_cli.summarize.notes import NoteStore, key
from specextend_cli.summarize.pair import Choices
from specextend_cli.summarize.prompts import Prompter

if TYPE_CHECKING:
    from specextend_cli.summarize.writer import Writer

_FEW = 3  # texts; fewer are drafted for, one after the other: that is as fast, and can be watched


@dataclass(frozen=True)
class Question:
    """A prompt, the part that asks it, and the most tokens of its answer."""

    part: Part
    prompt: Sequence[int]
    limit: int


@dataclass(frozen=True)
class Answers:
    """Answers of one target. `load` gives the writer, when one is needed."""

    preset: Preset
    choices: Choices
    prompter: Prompter
    store: NoteStore
    load: Callable[[], Generator[Event, None, Writer]]

    def one(self, question: Question) -> Generator[Event, None, tuple[str, bool]]:
        """The answer, and whether it was known."""
        yield question.part
        stored = self.store.get(self._key(question))
        if stored is not None:
            yield Text(stored, question.part.final)
            return stored, True
        writer = yield from self.load()
        yield from writer.write(question.prompt, max_tokens=question.limit, final=question.part.final)
        self.store.put(self._key(question), writer.text)
        return writer.text, False

    def notes(self, questions: Sequence[Question]) -> Generator[Event, None, list[str]]:
        """Notes on all parts of a level, in their order; several are written at once where that is faster."""
        known = {i: text for i, q in enumerate(questions) if (text := self.store.get(self._key(q))) is not None}
        waiting = [i for i in range(len(questions)) if i not in known]
        writer = (yield from self.load()) if len(waiting) >= _FEW else None
        together = writer is not None and writer.together > 1
        for i, question in enumerate(questions):
            if i in known or not together:
                known[i], reused = yield from self.one(question)
                yield _noted(question, known[i], reused=reused)
        if together:
            assert writer is not None
            yield from self._together(writer, questions, waiting, known)
        return [known[i] for i in range(len(questions))]

    def _together(
        self, writer: Writer, questions: Sequence[Question], waiting: Sequence[int], known: dict[int, str]
    ) -> Generator[Event, None, None]:
        """Write what is `waiting` into `known`. Of the texts that grow side by side, the first is shown."""
        begun: set[int] = set()
        asked = [(questions[i].prompt, questions[i].limit) for i in waiting]
        for number, event in writer.write_together(asked):
            i = waiting[number]
            if i not in begun:
                begun.add(i)
                yield questions[i].part
            if isinstance(event, str):
                known[i] = event
                self.store.put(self._key(questions[i]), event)
                yield _noted(questions[i], event)
            elif not isinstance(event, Text) or i == min(begun - known.keys()):
                yield event

    def _key(self, question: Question) -> str:
        chosen = {field.name: getattr(self.choices, field.name) for field in fields(Choices)}
        settings = [self._identity, chosen, self.preset.decoding.model_dump(), question.limit]
        return key(question.prompt, settings)

    @property
    def _identity(self) -> list[object]:
        """What tells the target from another: what the preset says of it, and the weights that are there now."""
        files = [(file.name, file.stat().st_mtime_ns) for file in weight_files(self.prompter.directory)]
        return [self.preset.target.model_dump(mode="json"), files]


def _noted(question: Question, text: str, *, reused: bool = False) -> Noted:
    part = question.part
    return Noted(part.number, part.parts, part.level, text, reused)
