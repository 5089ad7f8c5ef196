"""The events of a summary, interleaved with the engine's own, and what they tell of the time left."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from specextend_cli.documents.document import Document
from specextend_cli.engine import events as engine
from specextend_cli.engine.meter import Meter
from specextend_cli.runtime.loading_thread import Stage as Stage
from specextend_cli.summarize.facts import Unsupported
from specextend_cli.summarize.request import Request

Method: TypeAlias = Literal["extractive", "abstractive", "lead", "verbatim"]
"""The document's sentences, chosen; a model's own sentences; the document's first ones; all of it."""
Flaw: TypeAlias = Literal["no answer", "in circles"]
"""Why an answer is retried: it says nothing or refuses; it repeats itself."""


@dataclass(frozen=True, slots=True)
class LevelWork:
    """What one level is expected to take: its prompts, the tokens read in all of them, and the tokens written."""

    prompts: int
    read: int
    written: int


@dataclass(frozen=True, slots=True)
class Rates:
    """Seconds a token of a prompt and a written token take, by earlier runs."""

    read: float
    written: float


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be done to one document, known before any model is loaded.

    `chunks` are the map prompts' sizes in target tokens, of which the document has `tokens`; none where it is quoted.
    One chunk means one pass. `levels` counts the passes over text: 1 for one pass, 2 for map and reduce, more when the
    chunk summaries themselves must be reduced; shorter or longer ones than expected may take one level less or one
    more. `unit` is what `pages` counts: "page", or "section" where a document has no pages; `words` is the length of
    the document. `work` is what each level is expected to take, `rates` how long, where earlier runs tell.
    """

    document: str
    pages: int
    tokens: int
    chunks: tuple[int, ...]
    levels: int
    unit: str = "page"
    work: tuple[LevelWork, ...] = ()
    rates: Rates | None = None
    words: int = 0

    @property
    def prompts(self) -> int:
        """How many parts of the document a model reads; 0 where it is quoted."""
        return len(self.chunks)

    @property
    def seconds(self) -> float | None:
        """Expected time of reading and writing, loading apart; None before the preset's first run."""
        if self.rates is None:
            return None
        return sum(level.read * self.rates.read + level.written * self.rates.written for level in self.work)


@dataclass(frozen=True, slots=True)
class Part:
    """Writing of part `number` of `parts` at `level` begins (1-based; the last level writes the summary).

    `pages` are the first and last page it reads, `tokens` the size of its prompt, `final` whether its text is the
    summary itself, `reused` whether an earlier run has answered it.
    """

    number: int
    parts: int
    level: int
    pages: tuple[int, int]
    tokens: int
    final: bool
    reused: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """What a model has just written, detokenized, never half a character: to be watched, and no part of the result."""

    delta: str


@dataclass(frozen=True, slots=True)
class Citation:
    """A page (or section) behind a sentence, and the passage on it, characters [start, end) of the document's text.

    `score`, 0 to 1, is the share of the sentence's words that are there, rare ones counting more. `page` counts from 1;
    `label` is what the document calls that page ("iv", "A-1"), or "" where that is its number. `ocr`: the text of the
    page was recognized on a picture of it.
    """

    page: int
    start: int
    end: int
    score: float
    label: str = ""
    ocr: bool = False


@dataclass(frozen=True, slots=True)
class Sentence:
    """The next sentence of the summary, whose text is every `lead` and `text` in turn.

    `lead` is what stands before it: white space, the mark of a list, a speaker's name. `unsupported` is what the source
    does not have, with offsets in `text`.
    """

    lead: str
    text: str
    citations: tuple[Citation, ...] = ()
    unsupported: tuple[Unsupported, ...] = ()


@dataclass(frozen=True, slots=True)
class ChunkSummarized:
    """A part is done and stored; `reused` when an earlier run had already written it."""

    number: int
    parts: int
    level: int
    text: str
    reused: bool = False


@dataclass(frozen=True, slots=True)
class Retried:
    """The answer to a part has a `flaw` and is retried, with sampling and a penalty on repetition."""

    number: int
    parts: int
    level: int
    flaw: Flaw


@dataclass(frozen=True, slots=True)
class Warned:
    """Something the user should know, as one sentence."""

    message: str


@dataclass(frozen=True, slots=True)
class Coverage:
    """What was read: `tokens` were in a first-level prompt, `dropped` ones in none, and then the output says so.

    `ocr` are the pages whose text was recognized on a picture of them. `left_out` counts words that reading took for no
    part of the text (menus, hidden text, encoded data), and `unread` parts that were not read (attachments).
    """

    pages: int
    empty: tuple[int, ...]
    failed: tuple[int, ...]
    tokens: int
    dropped: int = 0
    unit: str = "page"
    ocr: tuple[int, ...] = ()
    left_out: int = 0
    unread: int = 0

    @classmethod
    def of(cls, document: Document, tokens: int, dropped: int) -> Coverage:
        """That of a document."""
        found, names = document.extraction, ("pages", "empty", "failed", "ocr", "left_out", "unread")
        return cls(**{name: getattr(found, name) for name in names}, tokens=tokens, dropped=dropped, unit=document.unit)

    @property
    def complete(self) -> bool:
        """Whether every page with text and every token of it was read."""
        return not self.failed and not self.dropped


@dataclass(frozen=True, slots=True)
class OwnPart:
    """What a document's own summary gave: its `name` there ("executive summary"), or "opening"; the first and last of
    the `pages` that sentences were taken from; and how many `others` were taken elsewhere.
    """

    name: str
    pages: tuple[int, int]
    others: int


@dataclass(frozen=True, slots=True)
class Summary:
    """The result for one document. `run` is the name under which it was recorded, or "".

    `retried` has an entry for every retry; `warnings` are those of reading and of the run. `reused` counts the chunk
    summaries (of a document that takes one pass, the summary) that an earlier run had written. `own` is what the
    document's own summary gave; None where it has none, or was not asked.
    """

    document: str
    text: str
    plan: Plan
    coverage: Coverage
    chunk_summaries: tuple[str, ...]
    meter: Meter
    seconds: float
    preset: str
    drafter: str
    request: Request = field(default_factory=Request)
    sentences: tuple[Sentence, ...] = ()
    retried: tuple[Retried, ...] = ()
    run: str = ""
    method: Method = "abstractive"
    warnings: tuple[str, ...] = ()
    reused: int = 0
    own: OwnPart | None = None

    @property
    def unsupported(self) -> tuple[Unsupported, ...]:
        """Numbers, dates and names that the source does not have."""
        return tuple(one for sentence in self.sentences for one in sentence.unsupported)


@dataclass(frozen=True, slots=True)
class Summarized:
    """The last event of a document."""

    summary: Summary


Event: TypeAlias = (
    Stage | Plan | Part | Text | ChunkSummarized | Retried | Sentence | Warned | Summarized | engine.Event
)
