"""Stand-ins for a summarizer's model and prompts: one answers at once, both remember what they were given."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from functools import cache as cached
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from specextend_cli.documents.document import Block, Document, Extraction, Page
from specextend_cli.engine.events import Finished
from specextend_cli.models.tokens import TextEncoder
from specextend_cli.runtime.options import Engine
from specextend_cli.summarize.events import Event, Part, Stage, Summarized, Summary, Text
from specextend_cli.summarize.prompts import Prompt, PromptBuilder
from specextend_cli.summarize.request import Request
from specextend_cli.summarize.summarizer import Summarizer
from tests.helpers.asked import Asked
from tests.summarize.tiny_preset import SENTENCES

Answer = Callable[[list[int], int], str]


@dataclass(frozen=True)
class Recorder(PromptBuilder):
    """Keeps the template, the text and the ids of every prompt."""

    asked: list[tuple[str, str, list[int]]] = field(default_factory=list)

    def prompt(self, template, values, text):
        ids = super().prompt(template, values, text)
        self.asked.append((template, text, ids))
        return ids

    def first(self) -> list[str]:
        """The texts of the first level."""
        return [text for template, text, _ in self.asked if template in ("single", "map")]


@dataclass
class Scribe:
    """In a `TextGenerator`'s place; `after` answers it is interrupted."""

    answer: Answer
    after: int = 1 << 30
    prompts: list[Sequence[int]] = field(default_factory=list)
    attempts: list[int] = field(default_factory=list)
    batch_size: int = 1
    drafter = SimpleNamespace(name="none")
    target = SimpleNamespace(lm=SimpleNamespace(device=torch.device("cpu")))

    def generate(self, prompt: Prompt) -> Generator[Event, None, str]:
        if len(self.prompts) == self.after:
            raise KeyboardInterrupt
        self.prompts.append(prompt.tokens)
        text = self.answer(prompt.tokens, prompt.max_tokens)
        yield Text(text)
        yield Finished("eos", prompt.max_tokens)
        return text

    def resampled(self, attempt: int) -> Scribe:
        self.attempts.append(attempt)
        return self

    def without_drafts(self) -> Scribe:
        return self

    def take_problem(self) -> str:
        return ""


def full(encoder: TextEncoder) -> Answer:
    """An answer that uses up every token it may have."""
    words = encoder.encode("".join(SENTENCES) * 5)
    return lambda prompt, most: encoder.decode(words[:most])


class Scribed(Asked):
    """Writes with a scribe; `prompts` remembers every prompt."""

    prompts: Recorder

    def _prompts(self, request: Request) -> Generator[Stage, None, PromptBuilder]:
        directory = self.preset.target.source.path
        self.prompts = Recorder(self.preset, _encoder(directory), directory, request=request)
        return self.prompts
        yield


def summarizer(
    path: Path, scribe: Scribe | None = None, *, cache: bool = False, asked: dict[str, Any] | None = None, **window: int
) -> Scribed:
    """One that writes with `scribe` what is `asked` for, by the preset in `path` with other sizes, and room for any."""
    made = Scribed(Engine(model=str(path)), Request(**(asked or {})), cache=cache)
    made.preset = made.preset.model_copy(
        update={"window": made.preset.window.model_copy(update={"context": 8192, **window})}
    )
    made._generator = scribe or Scribe(full(_encoder(made.preset.target.source.path)))
    return made


@cached
def _encoder(directory: Path) -> TextEncoder:
    return TextEncoder.of(directory)


@cached
def _quoter() -> Summarizer:
    return Summarizer(cache=False)


def quote(source: Document, **asked: Any) -> tuple[Summary, list[Event]]:
    """The extractive summary that is asked for, and everything that was told on the way."""
    events = list(_quoter().run(source, Request(mode="extractive", **asked)))
    return events[-1].summary, events


def document(text: str, name: str = "a.txt") -> Document:
    """A document of one page, every paragraph a block."""
    blocks, at = [], 0
    for paragraph in text.split("\n\n"):
        if paragraph:
            blocks.append(Block("paragraph", at, at + len(paragraph)))
        at += len(paragraph) + 2
    return Document(name, "text", text, (Page(1, 0, len(text)),), tuple(blocks), Extraction(1))


def run(made: Summarizer, source: Document) -> tuple[Summary, list[Event]]:
    """The result, and everything that was told on the way."""
    events = list(made.run(source))
    assert isinstance(events[-1], Summarized)
    return events[-1].summary, events


def parts(events: list[Event]) -> list[Part]:
    return [event for event in events if isinstance(event, Part)]
